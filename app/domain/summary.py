"""From raw heats to cells: throughput, acceptance, speedup and flags, by one arithmetic everywhere.

The live page, the API, the terminal and the frozen result all draw what this file computes.
"""

import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from app.domain import acceptance, flags, verdicts
from app.domain.acceptance import Acceptance
from app.domain.heats import HeatSummary
from app.domain.recipe import BASELINE
from app.domain.states import HeatState
from app.domain.verdicts import Speedup, Verdict


class View(BaseModel):
    """Frozen model of something that is shown."""

    model_config = ConfigDict(frozen=True)


class HeatView(View):
    """One heat: its raw summary (None until it has ended), its derived speed, its flags."""

    id: int
    lane: str
    cell: int
    ordinal: int
    attempt: int = 1
    state: HeatState
    summary: HeatSummary | None = None
    tokens_per_second: float | None = None
    """None while it runs, or when a flag voids it."""
    flags: tuple[str, ...] = ()
    error: str | None = None


class AcceptanceView(View):
    """Acceptance counts with the rates derived from them."""

    drafts: int
    drafted: int
    accepted: int
    rate: float | None
    tau: float | None
    accepted_per_position: tuple[int, ...] | None
    rate_per_position: tuple[float, ...] | None


class LatencyView(View):
    """Seconds, over all streams of all heats of the cell together."""

    n: int
    p50: float
    p95: float
    p99: float


class LaneCell(View):
    """One lane in one cell."""

    heats: tuple[HeatView, ...] = ()
    tokens_per_second: float | None = None
    """Geometric mean over the heats that count."""
    chars_per_second: float | None = None
    ttft: LatencyView | None = None
    prompt_tokens: int | None = None
    acceptance: AcceptanceView | None = None
    power_w: float | None = None
    tokens_per_joule: float | None = None
    speedup: Speedup | None = None
    """None for the baseline."""
    flags: tuple[str, ...] = ()


class CellView(View):
    """One cell of the matrix with all lanes side by side."""

    id: int
    position: int
    workload: str
    context: int
    concurrency: int
    lanes: dict[str, LaneCell]


def acceptance_view(counts: Acceptance | None) -> AcceptanceView | None:
    """Counts and their rates; None stays None."""
    if counts is None:
        return None
    return AcceptanceView(
        drafts=counts.drafts,
        drafted=counts.drafted,
        accepted=counts.accepted,
        rate=counts.rate,
        tau=counts.tau,
        accepted_per_position=counts.per_position,
        rate_per_position=counts.rate_per_position,
    )


def heat_view(
    *,
    id: int,
    lane: str,
    cell: int,
    ordinal: int,
    attempt: int,
    state: HeatState,
    summary: HeatSummary | None,
    words: Sequence[str],
    error: str | None = None,
) -> HeatView:
    """A heat with the speed that may be shown for it: none when a flag voids it."""
    stands = summary is not None and state is HeatState.DONE and not flags.voids(tuple(words))
    speed = summary.tokens_per_second if summary is not None and stands else None
    return HeatView(
        id=id,
        lane=lane,
        cell=cell,
        ordinal=ordinal,
        attempt=attempt,
        state=state,
        summary=summary,
        tokens_per_second=speed,
        flags=tuple(words),
        error=error or (summary.error if summary else None),
    )


def cell_view(
    *,
    id: int,
    position: int,
    workload: str,
    context: int,
    concurrency: int,
    lanes: Sequence[str],
    heats: Sequence[HeatView],
) -> CellView:
    """Everything that can be said of one cell from its heats."""
    by_lane: dict[str, list[HeatView]] = {name: [] for name in lanes}
    for heat in heats:
        by_lane[heat.lane].append(heat)
    base = by_lane.get(BASELINE, [])
    return CellView(
        id=id,
        position=position,
        workload=workload,
        context=context,
        concurrency=concurrency,
        lanes={name: _lane_cell(name, own, base) for name, own in by_lane.items()},
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile (share 0 … 1) of at least one value."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _lane_cell(name: str, heats: list[HeatView], base: list[HeatView]) -> LaneCell:
    standing = [heat for heat in heats if heat.tokens_per_second is not None]
    summaries = [heat.summary for heat in standing if heat.summary is not None]
    words = sorted({word for heat in heats for word in heat.flags})
    judged = None if name == BASELINE else _speedup(base, heats)
    if judged is not None and judged.verdict is Verdict.ONE_HEAT:
        words = sorted({*words, "one-heat"})
    counts = [summary.acceptance for summary in summaries if summary.acceptance is not None]
    power = [s.gpu.power_w for s in summaries if s.gpu is not None and s.gpu.power_w is not None]
    speed = verdicts.geometric_mean([heat.tokens_per_second or 0 for heat in standing])
    watts = math.fsum(power) / len(power) if power else None
    return LaneCell(
        heats=tuple(heats),
        tokens_per_second=speed,
        chars_per_second=verdicts.geometric_mean([s.chars_per_second or 0 for s in summaries]),
        ttft=_latency([x.ttft_s for s in summaries for x in s.streams if x.ttft_s is not None]),
        prompt_tokens=max((s.prompt_tokens or 0 for s in summaries), default=0) or None,
        acceptance=acceptance_view(acceptance.total(counts)),
        power_w=watts,
        tokens_per_joule=speed / watts if speed and watts else None,
        speedup=judged,
        flags=tuple(words),
    )


def _speedup(base: list[HeatView], heats: list[HeatView]) -> Speedup:
    """Pair heats of the same ordinal: they drove the same prompts."""
    if any("approximate" in heat.flags for heat in (*base, *heats)):
        return Speedup(reason="tokens could not be counted exactly")
    speeds = {heat.ordinal: heat.tokens_per_second for heat in base}
    pairs = [
        (speed, heat.tokens_per_second)
        for heat in heats
        if heat.tokens_per_second and (speed := speeds.get(heat.ordinal))
    ]
    return verdicts.speedup(pairs)


def _latency(values: list[float]) -> LatencyView | None:
    if not values:
        return None
    return LatencyView(
        n=len(values),
        p50=percentile(values, 0.50),
        p95=percentile(values, 0.95),
        p99=percentile(values, 0.99),
    )
