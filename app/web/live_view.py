"""What the live page shows, made from one snapshot and its ticks. Knows no store and no HTTP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from markupsafe import Markup

from app.domain import result as documents
from app.domain.flags import FLAGS, Flag
from app.domain.recipe import BASELINE
from app.domain.snapshot import LaneView, Snapshot
from app.domain.states import ENDED_RUNS, LaneState, RunState
from app.domain.summary import CellView, HeatView
from app.domain.ticks import GpuSample, Tick
from app.web import charts, formats, matrix, race_view
from app.web.acceptance_view import AcceptanceChart, acceptance_charts
from app.web.race_view import Ratio, Score, TokenBar
from app.web.render import Page

SPOTLIGHT_CHARS = 900
LOG_LINES = 40


@dataclass(frozen=True)
class Spotlight:
    """What one stream of a lane has written."""

    lane: str
    style: int
    text: str


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
    driven = race_view.by_heat(ticks)
    heats = race_view.pick_heats(shown, driven)
    clock = race_view.race_clock(heats, driven)
    styles = {one.name: charts.lane_style(one.position) for one in snapshot.lanes}
    scores = _scores(shown, featured, styles, driven)
    ratio = race_view.race_ratio(shown, featured, scores)
    cards = tuple(_card(one, styles[one.name]) for one in snapshot.lanes)
    run, is_over = snapshot.run, snapshot.run.state in ENDED_RUNS
    return LivePage(
        title=page_title(snapshot, ratio),
        section="runs",
        snapshot=snapshot,
        now=now,
        is_running=run.state is RunState.RUNNING,
        is_ended=is_over,
        can_cancel=not is_over and not run.is_cancelling,
        cell=shown,
        cell_label=matrix.label(shown),
        picked_cell=cell,
        picked_lane=lane,
        scores=scores,
        ratio=ratio,
        chart=race_view.race_chart(heats, driven, styles),
        chart_finding=race_view.finding(scores, ratio, shown),
        clock_seconds=clock,
        bars=race_view.token_bars(heats, driven, styles, clock),
        spotlights=tuple(_spotlight(h, driven, styles) for h in heats.values()),
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
        step_seconds=_age(snapshot.now.since, now),
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


def page_title(snapshot: Snapshot, ratio: Ratio | None) -> str:
    """1.83× · racing · name: what a stale tab tells."""
    word = "racing" if snapshot.run.state is RunState.RUNNING else snapshot.run.state.value
    times = [formats.ratio(ratio.value)] if ratio and ratio.value else []
    return " · ".join([*times, word, snapshot.run.name])


def _spotlight(
    heat: HeatView, ticks: Mapping[int, list[Tick]], styles: Mapping[str, int]
) -> Spotlight:
    text = "".join(tick.text for tick in ticks.get(heat.id, []))
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


def _scores(
    cell: CellView,
    featured: str | None,
    styles: Mapping[str, int],
    driven: Mapping[int, list[Tick]],
) -> tuple[Score, ...]:
    names = (BASELINE, featured) if featured else (BASELINE,)
    return tuple(race_view.score(cell, name, styles[name], driven) for name in names)


def _age(since: datetime | None, now: datetime) -> float | None:
    return (now - since).total_seconds() if since is not None else None
