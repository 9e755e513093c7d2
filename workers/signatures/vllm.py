"""Failures of vLLM. Versions in remedies are those in which the row's source saw the change."""

from workers.signatures.base import Signature

VLLM: tuple[Signature, ...] = (
    Signature(
        r"Chunked MM input disabled but max_tokens_per_mm_item \((\d+)\) is larger than",
        "One image takes {0} tokens, more than a batch holds.",
        "Set max-num-batched-tokens: 4096, or language-model-only: true.",
        "src v1/core/encoder_cache_manager.py; vllm#42687",
    ),
    Signature(
        r"No available memory for the cache blocks",
        "Weights and activations leave no memory for the KV cache.",
        "Raise gpu-memory-utilization, or lower max-num-batched-tokens or max-num-seqs.",
        "src v1/core/kv_cache_planning.py",
    ),
    Signature(
        r"To serve at least one request with the model's max seq len \((\d+)\)"
        r".*estimated maximum model length is (\d+)",
        "The KV cache cannot hold one sequence of {0} tokens.",
        "Set max-model-len to {1} or less.",
        "src v1/core/kv_cache_planning.py",
    ),
    Signature(
        r"Free memory on device .* on startup is less than desired GPU memory utilization"
        r" \(([\d.]+)",
        "Another (or a dying) process holds GPU memory.",
        "Wait for it or end it, or set gpu-memory-utilization below {0}.",
        "src v1/worker/utils.py; vllm#20305",
    ),
    Signature(
        r"Available memory on node .* is less than desired CPU memory utilization \(([\d.]+)",
        "The CPU build wants {0} of this machine's memory, which is not free.",
        'Set env VLLM_CPU_KVCACHE_SPACE: "1" (GiB of KV cache).',
        "run",
    ),
    Signature(
        r"Unsupported speculative method: '(\w+)'",
        "This vLLM or this model cannot speculate by {0}.",
        "Race a model that has such a drafter; a Gemma 4 assistant needs vLLM 0.21 or later.",
        "run; src config/speculative.py",
    ),
    Signature(
        r"does not support multimodal models yet",
        "This vLLM takes the assistant for a generic draft model.",
        "Use vLLM 0.21.0 or later.",
        "vllm#42005, #42180",
    ),
    Signature(
        r"(a and b must have same reduction dim|mat1 and mat2 shapes cannot be multiplied)",
        "This vLLM does not share Gemma 4's embedding with its drafter"
        " (a regression of 0.25.0 to 0.26.0).",
        'Set env VLLM_USE_V2_MODEL_RUNNER: "1", or use another version.',
        "run; vllm#47794, #48848",
        after=r"Target embedding dim \(\d+\) differs from draft embedding dim",
    ),
    Signature(
        r"AmbiguousGlobalPerLayerAttributeError",
        "transformers 5.15 and vLLM 0.27 disagree on Gemma 4's head size.",
        "Use an older transformers or a newer vLLM.",
        "vllm#51744",
    ),
    Signature(
        r"There is no module or parameter named '([^']+)' in (\w+)",
        "The checkpoint has {0}, which {1} does not know.",
        "Match checkpoint and model class; leave quantization unset for a bf16 assistant.",
        "src model_executor/models/utils.py; vllm#45420",
    ),
    Signature(
        r"AssertionError",
        "The target's quantization was applied to the drafter.",
        "Use a newer vLLM.",
        "vllm#41745",
        after=r"parameter\.py",
    ),
    Signature(
        r"Selected backend .* is not valid for this configuration\."
        r" Reason: \[.*head_size not supported",
        "The attention backend cannot do this model's head size (Gemma 4: 512).",
        "Leave attention-backend out, or set it to TRITON_ATTN.",
        "src platforms/cuda.py; vllm#40677",
    ),
    Signature(
        r"(Trtllm-gen kernels not found|Missing TRTLLM-GEN kernel)",
        "FlashInfer has no kernel for this model on this GPU.",
        "Set attention-backend: TRITON_ATTN, or use a newer FlashInfer.",
        "vllm#48082, #48093",
    ),
    Signature(
        r"type fp8e4nv not supported in this architecture",
        "This GPU has no fp8 for the KV cache.",
        "Set kv-cache-dtype: auto.",
        "club-3090#278",
    ),
    Signature(
        r"ptxas fatal\s*:\s*Value '(sm_\w+)' is not defined",
        "The CUDA toolkit is older than this GPU ({0}).",
        "Use a CUDA 13 build, and point TRITON_PTXAS_PATH at its ptxas.",
        "vllm#37630",
    ),
    Signature(
        r"Could not find nvcc",
        "FlashInfer compiles kernels, and there is no CUDA toolkit.",
        'Install nvcc and set CUDA_HOME, or set env VLLM_USE_FLASHINFER_SAMPLER: "0".',
        "flashinfer#1919, #1781",
    ),
    Signature(
        r"User-specified max_model_len \((\d+)\) is greater than the derived max_model_len",
        "max-model-len {0} is more than the model can do.",
        "Lower max-model-len.",
        "src config/model.py",
    ),
    Signature(
        r"CUDA out of memory occurred when warming up sampler with (\d+) dummy requests",
        "{0} requests at a time do not fit into the GPU's memory.",
        "Lower max-num-seqs or gpu-memory-utilization.",
        "src v1/worker/gpu_model_runner.py",
    ),
    Signature(
        r"max_num_seqs \((\d+)\) exceeds available Mamba cache blocks \((\d+)\)",
        "The state cache holds {1} requests, not {0}.",
        "Set max-num-seqs to {1} or less.",
        "src config/compilation.py",
    ),
    Signature(
        r"num_speculative_tokens must be provided",
        "The lane does not say how many tokens are drafted.",
        "Give the lane a k.",
        "src config/speculative.py",
    ),
    Signature(
        r"Target and draft model should have the same vocabulary size",
        "The drafter has another vocabulary than the model.",
        "Name the drafter that was made for this model.",
        "src config/speculative.py",
    ),
    Signature(
        r"Synthetic acceptance not supported with CPU sampling",
        "Synthetic acceptance does not work on a CPU.",
        "Leave it out.",
        "run",
    ),
    Signature(
        r"Invalid repository ID or local directory specified: '([^']*)'",
        "{0} is neither a model on the hub nor a folder with a config.json.",
        "Correct the recipe's model, or the lane's drafter.",
        "run",
    ),
    Signature(
        r"error: unrecognized arguments: (.*)",
        "This vLLM does not know the flag {0}.",
        "Remove it from args, or use a vLLM that has it.",
        "run",
    ),
    Signature(
        r"error: argument (\S+): (.*)",
        "This vLLM refused the value of {0}: {1}",
        "Correct it in the recipe.",
        "run",
    ),
    Signature(
        r"No package metadata was found for vllm",
        "The vllm command lies beside no installed vLLM.",
        "Install it again (`make engines` for the CPU build).",
        "run",
    ),
    Signature(
        r"Failed to infer device type",
        "vLLM sees neither GPU nor driver.",
        "Check the driver and the container's flags, or use the CPU build.",
        "src config/device.py",
    ),
    Signature(
        r"Address already in use",
        "The port was taken by another process.",
        "Race again: a free port is chosen for each launch.",
        "run",
    ),
    Signature(
        r"validation errors? for (SpeculativeConfig|ModelConfig|VllmConfig)",
        "This vLLM refused the recipe's settings ({0}).",
        "The log's last lines name the key and the values it takes.",
        "run",
    ),
    Signature(
        r"Engine core initialization failed",
        "The engine failed while it started.",
        "Read the log above this line.",
        "src v1/engine/utils.py",
        is_wrapper=True,
    ),
    Signature(
        r"EngineCore encountered an issue",
        "The engine died while it served.",
        "Read the log above this line.",
        "src v1/engine/exceptions.py",
        is_wrapper=True,
    ),
    Signature(
        r"Avg Draft acceptance rate: 0\.\d%",
        "Almost no draft is accepted: drafter or target were loaded wrongly.",
        "Use a newer vLLM, a bf16 assistant with quantization unset, and a bf16 KV cache.",
        "vllm#41789, #41745, #47091",
        is_silent=True,
    ),
)
