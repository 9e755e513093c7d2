"""Seconds and edges of one heat: ticks that sum to the total, and the steady window. Pure;
time is handed in.

Every chunk passes `add` with its own time, after `turn` has closed what lies before that time.
So a late timer
moves no token into another second, and an edge always knows the chunks before and after it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from workers.load.messages import ClosedBy, Window
from workers.load.window import Edge, Point, bucket

FOREVER = float("inf")


@dataclass(frozen=True)
class Second:
    """What fell into one second; the last one may be shorter."""

    number: int
    length_s: float
    tokens: int
    is_partial: bool


class Clockwork:
    """Counts of one heat along its time. Streams are known by index only."""

    def __init__(self, streams: int, t0: float, seconds: float | None) -> None:
        self.t0 = t0
        self.planned_seconds = seconds
        self.turn_at = t0 + 1.0
        """Nothing needs to be closed before this moment; the one comparison that every chunk
        pays."""
        self.second = 0
        self.second_tokens = 0
        self.last: list[Point | None] = [None] * streams
        self.without_token = streams
        self.has_first_end = False
        self.open: Edge | None = None
        self.close: Edge | None = None
        self.closed_by: ClosedBy = "plan"
        self.watching: list[tuple[Edge, set[int]]] = []
        """Edges that still wait for the chunk after them, with the streams they wait for."""
        self.gaps: list[float] = []
        self.gap_buckets: Counter[int] = Counter()

    @property
    def close_at(self) -> float:
        """The planned end, once the window is open."""
        if self.open is None or self.planned_seconds is None:
            return FOREVER
        return self.open.at + self.planned_seconds

    def add(self, stream: int, at: float, tokens: int) -> bool:
        """A chunk brought the stream to `tokens`; True when this opened the window.
        Call `turn` before."""
        point = Point(at, tokens)
        before = self.last[stream]
        self.last[stream] = point
        if self.watching:
            self.pass_edges(stream, point)
        if before is not None:
            self.gaps.append(at - before.at)
            return False
        self.without_token -= 1
        if self.without_token or self.has_first_end:
            return False
        self.open = self.edge(at)
        self.turn_at = min(self.turn_at, self.close_at)
        return True

    def turn(self, at: float, emit: Callable[[Second], None]) -> None:
        """Close the seconds and the planned edge that lie at or before `at`."""
        if at >= self.close_at and self.close is None:
            self.close = self.edge(self.close_at)
        while at >= self.t0 + self.second + 1:
            self.emit(emit, 1.0, is_partial=False)
        next_second = self.t0 + self.second + 1
        self.turn_at = min(next_second, self.close_at) if self.close is None else next_second

    def first_end(self, at: float) -> None:
        """The first stream has said its last: the steady window ends here, or never opened."""
        if self.has_first_end:
            return
        self.has_first_end = True
        if self.open is not None and self.close is None:
            self.close = self.edge(at)
            self.closed_by = "first_end"

    def forget(self, stream: int) -> None:
        """This stream gives no more chunks; no edge needs to wait for it."""
        for _, waiting in self.watching:
            waiting.discard(stream)

    def finish(self, at: float, emit: Callable[[Second], None]) -> None:
        """The heat is over: close all whole seconds, then the rest."""
        self.turn(at, emit)
        rest = at - self.t0 - self.second
        if rest > 0 or self.second_tokens or self.second == 0:
            self.emit(emit, max(0.0, rest), is_partial=True)

    def window(self) -> Window | None:
        """None when not all streams were ever under way together."""
        if self.open is None or self.close is None or self.close.at <= self.open.at:
            return None
        return Window(
            open_s=self.open.at - self.t0,
            close_s=self.close.at - self.t0,
            tokens=self.close.tokens() - self.open.tokens(),
            closed_by=self.closed_by,
        )

    @property
    def is_settled(self) -> bool:
        """Whether the closing edge has the chunk after it on every stream that still runs."""
        return self.close is not None and not any(waiting for _, waiting in self.watching)

    def edge(self, at: float) -> Edge:
        edge = Edge(at, list(self.last))
        waiting = {n for n, point in enumerate(self.last) if point is None or point.at < at}
        self.watching.append((edge, waiting))
        return edge

    def pass_edges(self, stream: int, point: Point) -> None:
        for edge, waiting in self.watching:
            if stream in waiting:
                edge.after[stream] = point
                waiting.discard(stream)
        self.watching = [pair for pair in self.watching if pair[1]]

    def emit(self, emit: Callable[[Second], None], length_s: float, *, is_partial: bool) -> None:
        second = Second(self.second, length_s, self.second_tokens, is_partial)
        self.second += 1
        self.second_tokens = 0
        self.gap_buckets.update(map(bucket, self.gaps))
        self.gaps.clear()
        emit(second)
