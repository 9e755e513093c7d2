"""What a recipe may say to each engine: flags and environment are data,
checked against these lists.

Starting servers from an HTTP API is remote code execution by design, so nothing that is not listed
here ever reaches an argv or an environment (docs/engines.md says how to add a flag).
"""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from app.domain.errors import FieldProblem

ArgValue = str | int | float | bool


class EngineKind(StrEnum):
    """Engines that a recipe can name."""

    VLLM = "vllm"
    REPLAY = "replay"
    ATTACH = "attach"


class LauncherKind(StrEnum):
    """Ways of starting an engine. `none` belongs to attach: the server already runs."""

    PROCESS = "process"
    NONE = "none"


@dataclass(frozen=True)
class EngineRules:
    """What one engine accepts from a recipe."""

    args: Mapping[str, tuple[type, ...]]
    """Flag name without dashes -> accepted value types."""
    env: frozenset[str]
    launcher: LauncherKind
    context_arg: str | None = None
    """The flag that sets the longest prompt + answer, when the engine has one."""
    lane_keys: frozenset[str] = frozenset()
    """Which of a lane's own keys (drafter, k, topk, method, url, …) this engine understands."""
    needs_drafter: bool = False
    uses_gpus: bool = False
    """Whether GPU figures of the worker's host belong to this engine's lanes."""


_TEXT: tuple[type, ...] = (str,)
_WHOLE: tuple[type, ...] = (int,)
_NUMBER: tuple[type, ...] = (int, float)
_SWITCH: tuple[type, ...] = (bool,)
_WORD_OR_NUMBER: tuple[type, ...] = (str, int, float)

_CUDA_ENV = frozenset(
    {
        "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
        "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
        "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", "PYTORCH_CUDA_ALLOC_CONF",
        "SAFETENSORS_FAST_GPU", "TORCH_CUDA_ARCH_LIST",
    }
)  # fmt: skip

ENGINE_RULES: dict[EngineKind, EngineRules] = {
    EngineKind.VLLM: EngineRules(
        args={
            "max-model-len": _WHOLE,
            "max-num-seqs": _WHOLE,
            "max-num-batched-tokens": _WHOLE,
            "gpu-memory-utilization": _NUMBER,
            "kv-cache-memory-bytes": _WORD_OR_NUMBER,
            "kv-cache-dtype": _TEXT,
            "dtype": _TEXT,
            "quantization": _TEXT,
            "load-format": _TEXT,
            "tensor-parallel-size": _WHOLE,
            "pipeline-parallel-size": _WHOLE,
            "block-size": _WHOLE,
            "seed": _WHOLE,
            "enforce-eager": _SWITCH,
            "enable-prefix-caching": _SWITCH,
            "enable-chunked-prefill": _SWITCH,
            "async-scheduling": _SWITCH,
            "attention-backend": _TEXT,
            "limit-mm-per-prompt": _TEXT,
            "language-model-only": _SWITCH,
            "reasoning-parser": _TEXT,
            "revision": _TEXT,
            "tokenizer": _TEXT,
            "shutdown-timeout": _WHOLE,
        },
        env=_CUDA_ENV
        | {
            "VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "VLLM_USE_V2_MODEL_RUNNER",
            "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_USE_DEEP_GEMM", "VLLM_ATTENTION_BACKEND",
            "VLLM_HOST_IP",
        },
        launcher=LauncherKind.PROCESS,
        context_arg="max-model-len",
        lane_keys=frozenset({"drafter", "k", "method", "args", "env"}),
        needs_drafter=True,
        uses_gpus=True,
    ),
    EngineKind.REPLAY: EngineRules(
        args={
            "race": _TEXT,
            "max-model-len": _WHOLE,
            "seed": _WHOLE,
            "load-seconds": _NUMBER,
            "faults": _TEXT,
        },
        env=frozenset(),
        launcher=LauncherKind.PROCESS,
        context_arg="max-model-len",
        lane_keys=frozenset({"k", "plays", "args"}),
    ),
    EngineKind.ATTACH: EngineRules(
        args={"max-model-len": _WHOLE},
        env=frozenset(),
        launcher=LauncherKind.NONE,
        context_arg="max-model-len",
        lane_keys=frozenset({"url", "served_model", "api_key", "k", "drafter", "args"}),
    ),
}  # fmt: skip


def check_args(
    engine: EngineKind, args: Mapping[str, ArgValue], field: str = "args"
) -> list[FieldProblem]:
    """Problems of the flags in `args`, one per flag; empty when all may be passed on."""
    allowed = ENGINE_RULES[engine].args
    problems = []
    for name, value in args.items():
        if name not in allowed:
            problems.append(
                FieldProblem(
                    f"{field}.{name}",
                    f"is not a flag that Slipstream passes to {engine.value}.",
                    _nearest(name, allowed),
                )
            )
        elif not _is_plain(value):
            problems.append(
                FieldProblem(
                    f"{field}.{name}",
                    "holds control characters, begins with a dash, or is no finite number.",
                    "Write one plain value; another flag is another key.",
                )
            )
        elif not _fits(value, allowed[name]):
            wanted = " or ".join(_TYPE_WORDS[kind] for kind in allowed[name])
            problems.append(
                FieldProblem(
                    f"{field}.{name}", f"is {value!r}, which is not {wanted}.", f"Write {wanted}."
                )
            )
    return problems


def check_env(engine: EngineKind, env: Mapping[str, str], field: str = "env") -> list[FieldProblem]:
    """Problems of the environment variables in `env`; empty when all may be passed on."""
    allowed = ENGINE_RULES[engine].env
    return [
        FieldProblem(
            f"{field}.{name}",
            f"is not a variable that Slipstream passes to {engine.value}.",
            _nearest(name, allowed),
        )
        for name in env
        if name not in allowed
    ]


_TYPE_WORDS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def _fits(value: ArgValue, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, kinds)


def _is_plain(value: ArgValue) -> bool:
    """A value that stays one value: no control character, no flag in disguise, no infinity."""
    if isinstance(value, str):
        return value.isprintable() and not value.startswith("-")
    return not isinstance(value, float) or math.isfinite(value)


def _nearest(name: str, allowed: Mapping[str, object] | frozenset[str]) -> str:
    close = difflib.get_close_matches(name, list(allowed), n=1)
    if close:
        return f"Did you mean {close[0]}?"
    if not allowed:
        return "Remove it: this engine takes none."
    return f"Remove it, or use one of: {', '.join(sorted(allowed))}."
