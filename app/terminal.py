"""The race in a terminal: the same numbers as everywhere, drawn with rich."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.domain.recipe import BASELINE
from app.domain.snapshot import LaneView, Snapshot
from app.domain.states import ENDED_RUNS, LaneState
from app.domain.summary import CellView, LaneCell
from app.domain.verdicts import Speedup, Verdict

FRAMES_PER_SECOND = 4
LOG_COLUMNS = 160
_MARKS = {
    LaneState.WAITING: "·",
    LaneState.LAUNCHING: "…",
    LaneState.RACING: ">",
    LaneState.STOPPING: "…",
    LaneState.DONE: "✓",
    LaneState.FAILED: "✗",
    LaneState.CANCELLED: "-",
}


class Screen:
    """Draws snapshots on stderr: live on a terminal, a line per change in a log,
    nothing when quiet."""

    def __init__(self, *, quiet: bool = False) -> None:
        width = None if sys.stderr.isatty() else LOG_COLUMNS
        self._console = Console(stderr=True, highlight=False, width=width)
        self._quiet = quiet
        self._live: Live | None = None
        self._last = ""

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            self._live = Live(
                console=self._console, refresh_per_second=FRAMES_PER_SECOND, transient=False
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        """One line for people."""
        if not self._quiet:
            self._console.print(Text(text))

    def show(self, snapshot: Snapshot) -> None:
        """Draw the newest state."""
        if self._quiet:
            return
        if self._live is not None:
            self._live.update(draw(snapshot))
            return
        line = status_line(snapshot)
        if line != self._last:
            self._last = line
            self._console.print(Text(line), soft_wrap=True)
        if snapshot.run.state in ENDED_RUNS:
            self._console.print(matrix(snapshot))
            self._console.print(failures(snapshot))


def draw(snapshot: Snapshot) -> Group:
    """The whole race: lanes, matrix, what is being done."""
    return Group(
        Text(headline(snapshot)),
        lanes(snapshot),
        matrix(snapshot),
        failures(snapshot),
        Text(status_line(snapshot)),
    )


def headline(snapshot: Snapshot) -> str:
    """Name of the race, and loudly whose measurement it plays."""
    provenance = snapshot.run.provenance
    if provenance.kind == "replay":
        return f"{snapshot.run.name} · REPLAY of {provenance.plays}, not measured here"
    return snapshot.run.name


def status_line(snapshot: Snapshot) -> str:
    """What happens now, how far it is, when it may be done."""
    run = snapshot.run
    parts = [str(run.state), f"{run.heats_done}/{run.heats_total} heats"]
    if snapshot.now.text:
        parts.append(snapshot.now.text)
    elif run.state not in ENDED_RUNS:
        current = [lane for lane in snapshot.lanes if lane.state is LaneState.LAUNCHING]
        parts += [f"{lane.name} · {_step(lane)}" for lane in current]
    if run.eta_seconds is not None:
        parts.append(f"about {_duration(run.eta_seconds)} left")
    if run.queue_position is not None:
        parts.append(f"place {run.queue_position} in the queue")
    if run.headline:
        parts.append(run.headline)
    if run.error:
        parts.append(run.error)
    return " · ".join(parts)


def lanes(snapshot: Snapshot) -> Table:
    """One line per lane: state, step, launch time, version."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for lane in snapshot.lanes:
        launch = f"ready in {_duration(lane.launch_seconds)}" if lane.launch_seconds else ""
        table.add_row(
            _MARKS[lane.state],
            Text(lane.name),
            Text(_step(lane)),
            launch,
            lane.engine_version or "",
        )
    return table


def matrix(snapshot: Snapshot) -> Table:
    """Every cell with every lane: tokens per second, speedup with interval, acceptance, flags."""
    table = Table(box=None, pad_edge=False)
    for title in ("workload", "context", "streams"):
        table.add_column(title, justify="left" if title == "workload" else "right")
    for lane in snapshot.lanes:
        table.add_column(f"{lane.name} tok/s", justify="right")
        if lane.name != BASELINE:
            table.add_column("speedup", justify="right")
            table.add_column("accepted", justify="right")
    for cell in snapshot.cells:
        table.add_row(*_cells(cell))
    return table


def failures(snapshot: Snapshot) -> Text:
    """Why lanes failed, and what to do."""
    text = Text()
    for lane in snapshot.lanes:
        if lane.failure is not None:
            text.append(f"\n{lane.name} failed at {lane.failure.step}: {lane.failure.cause}\n")
            text.append(f"  {lane.failure.remedy}\n")
    return text


def _cells(cell: CellView) -> list[str | Text]:
    row: list[str | Text] = [cell.workload, f"{cell.context:,}", str(cell.concurrency)]
    for name, lane in cell.lanes.items():
        row.append(Text(_speed(lane)))
        if name != BASELINE:
            row.append(Text(_ratio(lane.speedup)))
            rate = lane.acceptance.rate if lane.acceptance else None
            row.append("" if rate is None else f"{rate:.0%}")
    return row


def _speed(lane: LaneCell) -> str:
    flags = f" [{', '.join(lane.flags)}]" if lane.flags else ""
    return ("" if lane.tokens_per_second is None else f"{lane.tokens_per_second:,.1f}") + flags


def _ratio(judged: Speedup | None) -> str:
    if judged is None or judged.value is None:
        return ""
    text = f"{judged.value:.2f}x"
    if judged.low is not None and judged.high is not None:
        text += f" ({judged.low:.2f}-{judged.high:.2f})"
    return text + (" too close" if judged.verdict is Verdict.TOO_CLOSE else "")


def _step(lane: LaneView) -> str:
    if lane.state in (LaneState.LAUNCHING, LaneState.STOPPING) and lane.steps:
        return lane.steps[-1].name
    return str(lane.state)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
