"""The matrix as a table: every cell with every lane, its speed, speedup, interval and flags.

Live page and result page share it. It computes nothing: the numbers are the domain's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain.flags import FLAGS, Flag
from app.domain.recipe import BASELINE
from app.domain.states import HeatState
from app.domain.summary import CellView, LaneCell
from app.domain.verdicts import Verdict
from app.web import charts, formats


@dataclass(frozen=True)
class LaneHead:
    """A lane as the head of a column: its name and its style everywhere."""

    name: str
    style: int
    is_baseline: bool


@dataclass(frozen=True)
class FlagMark:
    """A flag beside a number."""

    word: str
    is_void: bool


@dataclass(frozen=True)
class Entry:
    """One lane in one cell, ready to print."""

    lane: str
    is_baseline: bool
    speed: str
    ratio: str
    interval: str
    verdict: str
    heat: str
    """Class of the background; empty without a speedup."""
    is_close: bool
    progress: str
    """Where its heats stand, while they are not all done."""
    is_running: bool
    flags: tuple[FlagMark, ...]


@dataclass(frozen=True)
class Row:
    """One cell of the matrix."""

    id: int
    position: int
    workload: str
    context: str
    streams: str
    label: str
    entries: tuple[Entry, ...]


def lane_heads(names: Iterable[str]) -> tuple[LaneHead, ...]:
    """Columns in the order of the lanes."""
    return tuple(
        LaneHead(name, charts.lane_style(place), name == BASELINE)
        for place, name in enumerate(names)
    )


def rows(cells: Sequence[CellView]) -> tuple[Row, ...]:
    """The matrix, cell by cell."""
    return tuple(
        Row(
            id=cell.id,
            position=cell.position,
            workload=cell.workload,
            context=formats.context(cell.context),
            streams=formats.count(cell.concurrency),
            label=label(cell),
            entries=tuple(entry(name, lane) for name, lane in cell.lanes.items()),
        )
        for cell in cells
    )


def label(cell: CellView) -> str:
    """The cell in few words."""
    return formats.cell(cell.workload, cell.context, cell.concurrency)


def entry(name: str, lane: LaneCell) -> Entry:
    """One lane in one cell."""
    judged = lane.speedup
    value = judged.value if judged is not None else None
    is_close = judged is not None and judged.verdict is Verdict.TOO_CLOSE
    return Entry(
        lane=name,
        is_baseline=name == BASELINE,
        speed=formats.rate(lane.tokens_per_second),
        ratio=formats.ratio(value) if value is not None else "",
        interval=formats.interval(judged.low, judged.high) if judged is not None else "",
        verdict=_words(lane),
        heat=charts.heat_step(value) if value is not None else "",
        is_close=is_close,
        progress=progress(lane),
        is_running=any(heat.state is HeatState.RUNNING for heat in lane.heats),
        flags=marks(lane.flags),
    )


def marks(words: Iterable[str]) -> tuple[FlagMark, ...]:
    """Flags as they stand beside a number."""
    return tuple(FlagMark(word, word in FLAGS and FLAGS[word].voids) for word in words)


def explain(words: Iterable[str]) -> tuple[Flag, ...]:
    """What these flags mean, each once, those that void first."""
    known = {word for word in words if word in FLAGS}
    return tuple(sorted((FLAGS[word] for word in known), key=lambda f: (not f.voids, f.word)))


def flags_of(cells: Iterable[CellView]) -> set[str]:
    """Every flag that stands in these cells."""
    return {word for cell in cells for lane in cell.lanes.values() for word in lane.flags}


def progress(lane: LaneCell) -> str:
    """Where the heats of a lane stand in words; empty once all are done."""
    total = len(lane.heats)
    done = sum(heat.state is HeatState.DONE for heat in lane.heats)
    if any(heat.state is HeatState.RUNNING for heat in lane.heats):
        running = next(heat for heat in lane.heats if heat.state is HeatState.RUNNING)
        return f"racing, heat {running.ordinal} of {total}"
    if any(heat.state is HeatState.FAILED for heat in lane.heats):
        return "failed" if done == 0 else f"{done} of {total} heats, rest failed"
    if done == total:
        return ""
    if any(heat.state is HeatState.CANCELLED for heat in lane.heats):
        return "cancelled" if done == 0 else f"{done} of {total} heats, rest cancelled"
    return "waiting" if done == 0 else f"{done} of {total} heats"


def _words(lane: LaneCell) -> str:
    judged = lane.speedup
    if judged is None:
        return ""
    if judged.verdict in (Verdict.TOO_CLOSE, Verdict.ONE_HEAT):
        return judged.verdict.value
    return ""
