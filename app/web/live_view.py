"""What the live page shows, computed from one snapshot and its ticks. Knows no store and no HTTP.

static/js/race.js draws the same race from the same facts once scripts run.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from markupsafe import Markup

from app.domain import result as documents
from app.domain.flags import FLAGS, Flag
from app.domain.recipe import BASELINE
from app.domain.snapshot import LaneView, Snapshot
from app.domain.states import ENDED_RUNS, HeatState, LaneState, RunState
from app.domain.summary import AcceptanceView, CellView, HeatView
from app.domain.ticks import GpuSample, Tick
from app.web import charts, formats, matrix
from app.web.charts import Bar, Point, Series
from app.web.render import Page

LIVE_SECONDS = 5
"""Seconds over which the running speed is taken."""
SPOTLIGHT_CHARS = 900
LABEL_CHARS = 15
LOG_LINES = 40
SHORTEST_TICK_S = 0.5
"""A last tick shorter than this counts, but is not drawn: its rate is mostly noise."""


@dataclass(frozen=True)
class Score:
    """One of the two big numbers."""

    lane: str
    style: int
    value: float | None
    kind: str


@dataclass(frozen=True)
class Ratio:
    """The number between them, with its interval and what may be said of it."""

    value: float | None
    interval: str
    words: str


@dataclass(frozen=True)
class TokenBar:
    """Tokens of one lane after the same number of seconds."""

    lane: str
    style: int
    tokens: int
    bar: Markup


@dataclass(frozen=True)
class Spotlight:
    """What one stream of a lane has written."""

    lane: str
    style: int
    text: str


@dataclass(frozen=True)
class AcceptanceChart:
    """Acceptance of one lane by draft position."""

    lane: str
    style: int
    finding: str
    chart: Markup
    rows: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class LaneCard:
    """A lane with its launch steps."""

    lane: LaneView
    style: int
    log: str


@dataclass(frozen=True)
class Choice:
    """A link that picks a cell or a lane."""

    label: str
    href: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class LivePage(Page):
    """Everything on /runs/{id}."""

    snapshot: Snapshot
    now: datetime
    is_running: bool
    is_ended: bool
    can_cancel: bool
    cell: CellView
    cell_label: str
    picked_cell: int | None
    picked_lane: str | None
    scores: tuple[Score, ...]
    ratio: Ratio | None
    chart: Markup
    chart_finding: str
    clock_seconds: float
    bars: tuple[TokenBar, ...]
    spotlights: tuple[Spotlight, ...]
    acceptance: tuple[AcceptanceChart, ...]
    gpu: GpuSample | None
    lanes: tuple[LaneCard, ...]
    failed: tuple[LaneCard, ...]
    heads: tuple[matrix.LaneHead, ...]
    rows: tuple[matrix.Row, ...]
    flags: tuple[Flag, ...]
    all_flags: tuple[Flag, ...]
    cell_choices: tuple[Choice, ...]
    lane_choices: tuple[Choice, ...]
    step_seconds: float | None


def live_page(
    snapshot: Snapshot,
    ticks: Sequence[Tick],
    *,
    now: datetime,
    cell: int | None = None,
    lane: str | None = None,
) -> LivePage:
    """The page of a run; `cell` (position) and `lane` are what the reader picked."""
    shown = pick_cell(snapshot, cell)
    featured = pick_lane(snapshot, shown, lane)
    by_heat = _by_heat(ticks)
    heats = pick_heats(shown, by_heat)
    clock = race_clock(heats, by_heat)
    styles = {one.name: charts.lane_style(one.position) for one in snapshot.lanes}
    run = snapshot.run
    scores = tuple(
        score(shown, name, styles[name], by_heat) for name in (BASELINE, featured) if name
    )
    ratio = race_ratio(shown, featured, scores)
    cards = tuple(_card(one, styles[one.name]) for one in snapshot.lanes)
    return LivePage(
        title=page_title(snapshot, ratio),
        section="runs",
        snapshot=snapshot,
        now=now,
        is_running=run.state is RunState.RUNNING,
        is_ended=run.state in ENDED_RUNS,
        can_cancel=run.state not in ENDED_RUNS and not run.is_cancelling,
        cell=shown,
        cell_label=matrix.label(shown),
        picked_cell=cell,
        picked_lane=lane,
        scores=scores,
        ratio=ratio,
        chart=race_chart(heats, by_heat, styles),
        chart_finding=finding(scores, ratio, shown),
        clock_seconds=clock,
        bars=token_bars(heats, by_heat, styles, clock),
        spotlights=tuple(_spotlight(h, by_heat, styles) for h in heats.values()),
        acceptance=acceptance_charts(shown, styles),
        gpu=next((tick.gpu for tick in reversed(ticks) if tick.gpu), None),
        lanes=cards,
        failed=tuple(card for card in cards if card.lane.state is LaneState.FAILED),
        heads=matrix.lane_heads(one.name for one in snapshot.lanes),
        rows=matrix.rows(snapshot.cells),
        flags=matrix.explain(matrix.flags_of(snapshot.cells)),
        all_flags=matrix.explain(FLAGS),
        cell_choices=_cell_choices(snapshot, shown, lane),
        lane_choices=_lane_choices(snapshot, featured, cell),
        step_seconds=(now - snapshot.now.since).total_seconds() if snapshot.now.since else None,
    )


def pick_cell(snapshot: Snapshot, position: int | None) -> CellView:
    """The cell that was asked for; else the one being raced; else the headline's;
    else the first."""
    for cell in snapshot.cells:
        if position is not None and cell.position == position:
            return cell
    for cell in snapshot.cells:
        if snapshot.now.cell == cell.id:
            return cell
    head = documents.headline(snapshot.cells)
    return next((c for c in snapshot.cells if c.position == head.cell), snapshot.cells[0])


def pick_lane(snapshot: Snapshot, cell: CellView, name: str | None) -> str | None:
    """The variant beside the baseline: asked for, racing now, the fastest, or the first."""
    variants = [lane.name for lane in snapshot.lanes if not lane.is_baseline]
    if name in variants:
        return name
    if snapshot.now.lane in variants:
        return snapshot.now.lane
    judged = [one for one in variants if cell.lanes[one].tokens_per_second is not None]
    if judged:
        return max(judged, key=lambda one: cell.lanes[one].tokens_per_second or 0)
    return variants[0] if variants else None


def pick_heats(cell: CellView, driven: Container[int]) -> dict[str, HeatView]:
    """One heat per lane, all of the same ordinal: they drove the same prompts.

    `driven` holds the heats that have ticks: a failed heat without any is not in the race.
    """
    begun = [
        heat for lane in cell.lanes.values() for heat in lane.heats
        if heat.state in (HeatState.RUNNING, HeatState.DONE) or heat.id in driven
    ]  # fmt: skip
    running = [heat.ordinal for heat in begun if heat.state is HeatState.RUNNING]
    if not begun:
        return {}
    ordinals = [heat.ordinal for heat in begun]
    ordinal = running[0] if running else max(ordinals, key=lambda one: (ordinals.count(one), one))
    return {heat.lane: heat for heat in begun if heat.ordinal == ordinal}


def race_clock(heats: Mapping[str, HeatView], by_heat: Mapping[int, list[Tick]]) -> float:
    """Seconds at which the lanes are compared: the running heat's, else the shortest heat's."""
    lengths = {name: _seconds(by_heat.get(heat.id, [])) for name, heat in heats.items()}
    running = [lengths[n] for n, heat in heats.items() if heat.state is HeatState.RUNNING]
    return min(running or [one for one in lengths.values() if one] or [0.0])


def score(cell: CellView, lane: str, style: int, by_heat: Mapping[int, list[Tick]]) -> Score:
    """A lane's number: what it does in these seconds while it races, else what was measured."""
    view = cell.lanes[lane]
    running = next((heat for heat in view.heats if heat.state is HeatState.RUNNING), None)
    if running is not None:
        value = live_rate(by_heat.get(running.id, []))
        return Score(lane, style, value, f"live, last {LIVE_SECONDS} s")
    counted = sum(heat.tokens_per_second is not None for heat in view.heats)
    kind = f"mean of {formats.plural(counted, 'heat')}" if counted else matrix.progress(view)
    return Score(lane, style, view.tokens_per_second, kind or "no heat counts")


def live_rate(ticks: Sequence[Tick]) -> float | None:
    """Tokens per second over the last whole seconds."""
    last = [tick for tick in ticks if tick.length_s >= SHORTEST_TICK_S][-LIVE_SECONDS:]
    length = sum(tick.length_s for tick in last)
    return sum(tick.tokens for tick in last) / length if length else None


def race_ratio(cell: CellView, featured: str | None, scores: Sequence[Score]) -> Ratio | None:
    """The speedup with its interval; before there is one, the ratio of the two numbers shown."""
    if featured is None:
        return None
    judged = cell.lanes[featured].speedup
    if judged is not None and judged.value is not None:
        return Ratio(judged.value, formats.interval(judged.low, judged.high), judged.verdict.value)
    base, lane = scores[0].value, scores[-1].value
    if base and lane:
        return Ratio(lane / base, "", "live, no interval yet")
    reason = judged.reason if judged is not None and judged.heats else ""
    return Ratio(None, "", reason or "no speedup yet")


def race_chart(
    heats: Mapping[str, HeatView],
    by_heat: Mapping[int, list[Tick]],
    styles: Mapping[str, int],
) -> Markup:
    """Tokens per second of the lanes on one clock."""
    is_live = any(heat.state is HeatState.RUNNING for heat in heats.values())
    series = [
        Series(
            label=_short(name) + (" ghost" if is_live and heat.state is HeatState.DONE else ""),
            style=styles[name],
            points=tuple(rate_points(by_heat.get(heat.id, []))),
            is_ghost=is_live and heat.state is HeatState.DONE,
        )
        for name, heat in heats.items()
    ]
    return charts.line_chart(
        series,
        x_label="seconds since the heat began",
        y_label="tokens per second",
        title="Tokens per second of each lane, second by second",
    )


def rate_points(ticks: Sequence[Tick]) -> list[Point]:
    """One point per second, at the second's end."""
    return [
        Point(tick.second + tick.length_s, tick.tokens / tick.length_s)
        for tick in ticks
        if tick.length_s >= SHORTEST_TICK_S
    ]


def token_bars(
    heats: Mapping[str, HeatView],
    by_heat: Mapping[int, list[Tick]],
    styles: Mapping[str, int],
    clock: float,
) -> tuple[TokenBar, ...]:
    """Tokens of every lane by the same clock."""
    totals = {
        name: sum(t.tokens for t in by_heat.get(heat.id, []) if t.second < clock)
        for name, heat in heats.items()
    }
    most = max(totals.values(), default=0) or 1
    return tuple(
        TokenBar(name, styles[name], total, charts.length_bar(total / most, style=styles[name]))
        for name, total in totals.items()
    )


def acceptance_charts(cell: CellView, styles: Mapping[str, int]) -> tuple[AcceptanceChart, ...]:
    """Acceptance by position of every lane of the cell that told it."""
    return tuple(
        acceptance_chart(name, view.acceptance, styles[name])
        for name, view in cell.lanes.items()
        if view.acceptance is not None and view.acceptance.drafts
    )


def acceptance_chart(lane: str, view: AcceptanceView, style: int) -> AcceptanceChart:
    """Plain bars on 0–100 %, with the number of drafts beside them."""
    shares = view.rate_per_position or ()
    counts = view.accepted_per_position or ()
    bars = [
        Bar(str(place + 1), share, formats.percent(share)) for place, share in enumerate(shares)
    ]
    rows = tuple(
        (place + 1, kept, share)
        for place, (kept, share) in enumerate(zip(counts, shares, strict=False))
    )
    finding = (
        f"{formats.percent(view.rate)} of drafted tokens accepted, "
        f"{formats.decimal(view.tau)} tokens per step, n = {formats.count(view.drafts)} drafts"
    )
    title = f"Acceptance of {lane} by draft position"
    return AcceptanceChart(
        lane, style, finding, charts.share_bars(bars, style=style, title=title), rows
    )


def finding(scores: Sequence[Score], ratio: Ratio | None, cell: CellView) -> str:
    """What the chart shows, in a sentence."""
    known = [f"{one.lane} {formats.rate(one.value)} tok/s" for one in scores if one.value]
    where = matrix.label(cell)
    if not known:
        return f"No tokens yet at {where}."
    times = f" ({formats.ratio(ratio.value)})" if ratio and ratio.value else ""
    return f"{' against '.join(known)}{times} at {where}."


def page_title(snapshot: Snapshot, ratio: Ratio | None) -> str:
    """1.83× · racing · name: what a stale tab tells."""
    word = "racing" if snapshot.run.state is RunState.RUNNING else snapshot.run.state.value
    times = [formats.ratio(ratio.value)] if ratio and ratio.value else []
    return " · ".join([*times, word, snapshot.run.name])


def _by_heat(ticks: Sequence[Tick]) -> dict[int, list[Tick]]:
    grouped: dict[int, list[Tick]] = {}
    for tick in ticks:
        grouped.setdefault(tick.heat, []).append(tick)
    return grouped


def _seconds(ticks: Sequence[Tick]) -> float:
    return max((tick.second + tick.length_s for tick in ticks), default=0.0)


def _short(name: str) -> str:
    return name if len(name) <= LABEL_CHARS else name[: LABEL_CHARS - 1] + "…"


def _spotlight(
    heat: HeatView, by_heat: Mapping[int, list[Tick]], styles: Mapping[str, int]
) -> Spotlight:
    text = "".join(tick.text for tick in by_heat.get(heat.id, []))
    return Spotlight(heat.lane, styles[heat.lane], text[-SPOTLIGHT_CHARS:])


def _card(lane: LaneView, style: int) -> LaneCard:
    return LaneCard(lane, style, "\n".join(lane.log_tail.splitlines()[-LOG_LINES:]))


def _cell_choices(snapshot: Snapshot, shown: CellView, lane: str | None) -> tuple[Choice, ...]:
    return tuple(
        Choice(matrix.label(one), _query(cell=one.position, lane=lane), one.id == shown.id)
        for one in snapshot.cells
    )


def _lane_choices(snapshot: Snapshot, featured: str | None, cell: int | None) -> tuple[Choice, ...]:
    return tuple(
        Choice(one.name, _query(cell=cell, lane=one.name), one.name == featured)
        for one in snapshot.lanes
        if not one.is_baseline
    )


def _query(**facts: object) -> str:
    return "?" + urlencode({name: value for name, value in facts.items() if value is not None})
