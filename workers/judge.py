"""Which flags a heat earns. Pure: facts in, words of app.domain.flags out."""

from dataclasses import dataclass

from app.domain.acceptance import Acceptance
from app.domain.heats import HeatSummary, StreamSummary

CAPPED_SHARE = 0.8
CONTEXT_TOLERANCE = 0.01
BUSY_SHARE = 0.5
VOID_SHARE = 0.8
LAG_MS = 20.0
DEAD_AFTER_DRAFTS = 20
OTHERS_RUNNING_SECONDS = 2
SHORT_SECONDS = 2
SHORT_DRAFTS = 0.9
IDENTITY_TOLERANCE = 0.02
# Tokens that a server may generate for an aborted stream before it notices: seen up to 56 with
# MTP k=3 on a real vLLM (one abort at 20 tokens), so one second of that stream or 64, if more.
ABORT_SLACK_TOKENS = 64


@dataclass(frozen=True)
class Asked:
    """What the recipe asked of the heat."""

    is_forced: bool
    seconds: float
    max_tokens: int
    context: int
    speculates: bool | None
    """None: unknown (attach)."""
    k: int | None
    drafts_every_step: bool = False
    """Whether every decode step drafts (MTP does, n-gram lookup does not)."""


@dataclass(frozen=True)
class Seen:
    """What was seen around the heat, beside its own counts."""

    is_warm: bool = True
    has_counters: bool = True
    cached_tokens: int = 0
    preemptions: int = 0
    seconds_short: int = 0
    """Full seconds of the window in which the server ran fewer requests than were in flight."""
    steady_seconds: int = 0
    """Full seconds of the window in which the server said what it ran."""
    seconds_with_others: int = 0
    """Seconds in which the server ran more requests than ours."""
    foreign_gpu_processes: int = 0
    engine_died: bool = False
    is_count_settled: bool = True
    """Whether the server came to rest, so that its counters could be read."""


def flags(summary: HeatSummary, asked: Asked, seen: Seen) -> tuple[str, ...]:
    """Every flag the heat earns, in alphabetical order."""
    words = {
        "engine-died": seen.engine_died,
        "request-failed": _has_failed(summary),
        "approximate": summary.source == "none",
        "count-mismatch": _counts_disagree(summary, asked, seen),
        "stopped-early": asked.is_forced and _stopped_early(summary, asked),
        "context-cut": asked.is_forced and _was_cut(summary, asked),
        "capped": asked.is_forced and _is_capped(summary, asked),
        "context-off": _context_is_off(summary, asked),
        "preempted": _is_preempted(seen),
        "cached-prefix": seen.cached_tokens > 0 or _streams_were_cached(summary),
        "not-warm": not seen.is_warm,
        "not-what-was-asked": seen.has_counters and _is_other(summary.acceptance, asked),
        "drafter-dead": _is_dead(summary.acceptance),
        "client-bound": _is_busy(summary),
        "client-void": summary.client.cpu_share > VOID_SHARE,
        "throttled": summary.gpu is not None and bool(summary.gpu.throttle_reasons),
        "not-alone": _has_company(summary, seen),
    }
    return tuple(sorted(word for word, earned in words.items() if earned))


def _has_failed(summary: HeatSummary) -> bool:
    return summary.error is not None or any(stream.finish == "error" for stream in summary.streams)


def _counts_disagree(summary: HeatSummary, asked: Asked, seen: Seen) -> bool:
    """Three ways to count: usage against ids, streams against counter, drafts against both."""
    if any(_usage_and_ids_differ(stream) for stream in summary.streams):
        return True
    if summary.counter_tokens is None or summary.source == "none" or not seen.is_count_settled:
        return False
    return not _surplus_fits(summary) or _drafts_do_not_add_up(summary, asked)


def _usage_and_ids_differ(stream: StreamSummary) -> bool:
    if stream.usage_tokens is None or stream.id_tokens is None:
        return False
    slack = ABORT_SLACK_TOKENS if stream.finish == "aborted" else 0
    return abs(stream.usage_tokens - stream.id_tokens) > slack


def _surplus_fits(summary: HeatSummary) -> bool:
    """Stream total = counter delta; aborted streams may leave the server a little ahead."""
    surplus = (summary.counter_tokens or 0) - summary.tokens
    aborted = [stream for stream in summary.streams if stream.finish == "aborted"]
    slack = sum(
        max(ABORT_SLACK_TOKENS, _tokens_in_a_second(stream.tokens, summary.seconds))
        for stream in aborted
    )
    return 0 <= surplus <= slack


def _drafts_do_not_add_up(summary: HeatSummary, asked: Asked) -> bool:
    """drafts + accepted + requests = tokens + those cut at the cap (at most k a request)."""
    counts = summary.acceptance
    if counts is None or not asked.drafts_every_step or asked.k is None:
        return False
    requests = len(summary.streams)
    tokens = summary.counter_tokens or 0
    cut = counts.drafts + counts.accepted + requests - tokens
    slack = IDENTITY_TOLERANCE * tokens
    return not -slack <= cut <= asked.k * requests + slack


def _has_company(summary: HeatSummary, seen: Seen) -> bool:
    """Somebody else's requests or processes, however short the heat."""
    if seen.foreign_gpu_processes > 0:
        return True
    if not seen.is_count_settled and summary.counter_tokens is not None:
        # It never came to rest and made more than ours: the rest is somebody's.
        return not _surplus_fits(summary)
    enough = max(1, min(OTHERS_RUNNING_SECONDS, seen.steady_seconds))
    return seen.seconds_with_others >= enough


def _streams_were_cached(summary: HeatSummary) -> bool:
    return any(stream.cached_tokens for stream in summary.streams)


def _tokens_in_a_second(tokens: int, seconds: float) -> int:
    return int(tokens / seconds) if seconds > 0 else 0


def _stopped_early(summary: HeatSummary, asked: Asked) -> bool:
    return any(
        stream.finish == "stop" and stream.tokens < asked.max_tokens for stream in summary.streams
    )


def _was_cut(summary: HeatSummary, asked: Asked) -> bool:
    return any(
        stream.finish == "length" and stream.tokens < asked.max_tokens for stream in summary.streams
    )


def _is_capped(summary: HeatSummary, asked: Asked) -> bool:
    window = summary.window
    if window is None or window.closed_by != "first_end":
        return False
    return window.seconds < CAPPED_SHARE * asked.seconds


def _context_is_off(summary: HeatSummary, asked: Asked) -> bool:
    if asked.context == 0:
        return False
    return any(
        abs(stream.prompt_tokens - asked.context) > CONTEXT_TOLERANCE * asked.context
        for stream in summary.streams
        if stream.prompt_tokens is not None
    )


def _is_preempted(seen: Seen) -> bool:
    return seen.preemptions > 0 or seen.seconds_short >= SHORT_SECONDS


def _is_other(counts: Acceptance | None, asked: Asked) -> bool:
    """Speculation off where asked for, on where not, or with another number of tokens."""
    drafts = counts.drafts if counts is not None else 0
    if asked.speculates is None:
        return False
    if not asked.speculates:
        return drafts > 0
    if counts is None or drafts == 0:
        return True
    return asked.k is not None and _is_other_k(counts, asked.k)


def _is_other_k(counts: Acceptance, k: int) -> bool:
    """A few drafts are shorter near the end of the context; none is longer than k."""
    if counts.per_position is not None and len(counts.per_position) != k:
        return True
    too_few = (
        counts.drafts >= DEAD_AFTER_DRAFTS and counts.drafted < SHORT_DRAFTS * k * counts.drafts
    )
    return too_few or counts.drafted > k * counts.drafts


def _is_dead(counts: Acceptance | None) -> bool:
    return counts is not None and counts.drafts >= DEAD_AFTER_DRAFTS and counts.accepted == 0


def _is_busy(summary: HeatSummary) -> bool:
    load = summary.client
    return load.cpu_share > BUSY_SHARE or load.loop_lag_p99_ms > LAG_MS
