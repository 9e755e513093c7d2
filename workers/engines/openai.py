"""What engines that speak the OpenAI API share: the request body, and vLLM's counter names.

Only the adapters use this room; it knows no recipe and no process.
"""

from typing import Any

from app.domain.acceptance import Acceptance
from workers.counters import Samples, read_samples
from workers.engines.base import Counters, RequestShape

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"

_DRAFTS = "vllm:spec_decode_num_drafts_total"
_DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_GENERATED = "vllm:generation_tokens_total"
_PROMPT = "vllm:prompt_tokens_total"
_CACHED = "vllm:prompt_tokens_cached_total"
_CACHE_HITS = "vllm:prefix_cache_hits_total"  # tokens too; older servers have only this one
_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_PREEMPTIONS = "vllm:num_preemptions_total"
_KV_USAGE = "vllm:kv_cache_usage_perc"
_FINISHED = "vllm:request_success_total"
_STARTED = "process_start_time_seconds"

_NAMES = (
    _DRAFTS, _DRAFTED, _ACCEPTED, _PER_POSITION, _GENERATED, _PROMPT, _CACHED, _CACHE_HITS,
    _RUNNING, _WAITING, _PREEMPTIONS, _KV_USAGE, _FINISHED, _STARTED,
)  # fmt: skip


def read_vllm_counters(page: str) -> Counters:
    """One /metrics page with vLLM's names, summed over its engines (label engine="0", "1", …)."""
    samples = read_samples(page, _NAMES)
    cached = samples.total(_CACHED)
    return Counters(
        generation_tokens=samples.total(_GENERATED),
        prompt_tokens=samples.total(_PROMPT),
        cached_tokens=samples.total(_CACHE_HITS) if cached is None else cached,
        running=samples.total(_RUNNING),
        waiting=samples.total(_WAITING),
        preemptions=samples.total(_PREEMPTIONS),
        kv_usage=samples.largest(_KV_USAGE),
        acceptance=_acceptance(samples),
        requests_finished=samples.total(_FINISHED),
        process_started_at=samples.largest(_STARTED),
    )


def _acceptance(samples: Samples) -> Acceptance | None:
    """Absent counters mean a server that does not speculate, which is not the same as 0."""
    drafts, drafted = samples.total(_DRAFTS), samples.total(_DRAFTED)
    accepted = samples.total(_ACCEPTED)
    if drafts is None or drafted is None or accepted is None:
        return None
    return Acceptance(
        drafts=drafts,
        drafted=drafted,
        accepted=accepted,
        per_position=_positions(samples.by_label(_PER_POSITION, "position")),
    )


def _positions(by_position: dict[str, int] | None) -> tuple[int, ...] | None:
    if by_position is None or not all(position.isdecimal() for position in by_position):
        return None
    return tuple(by_position[position] for position in sorted(by_position, key=int))


def streaming_request(shape: RequestShape, model: str) -> tuple[str, dict[str, Any]]:
    """Path and body of one stream: token ids and text go to completions, messages to chat."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": shape.max_tokens,
        "temperature": shape.temperature,
        "top_p": shape.top_p,
        "seed": shape.seed,
        "stream": True,
        # Cumulative usage in every chunk: chunks are not tokens, with speculation or without.
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
    }
    if shape.is_forced:
        # min_tokens also turns vLLM's silent cut at the end of the context into an error 400.
        body |= {"ignore_eos": True, "min_tokens": shape.max_tokens}
    if is_chat(shape.prompt):
        return CHAT, {**body, "messages": shape.prompt}
    return COMPLETIONS, {**body, "prompt": shape.prompt}


def is_chat(prompt: str | list[int] | list[dict[str, str]]) -> bool:
    """Whether this prompt is a list of chat messages."""
    return isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], dict)
