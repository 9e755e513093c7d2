"""The live feed: one tail per process reads what is new, once, for all viewers.

A viewer joins first, then reads its backlog from the store, then its queue; ids it has seen are
skipped. So a late viewer, a reconnecting one and one of a finished race take the same path.

    store --(tail: one look)--> room of a run --(encoded once)--> queue of each viewer

Knows no HTTP: events.py carries a viewer's events out.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio
from anyio import CapacityLimiter, to_thread

from app.config import Settings
from app.domain.snapshot import RunView
from app.domain.states import ENDED_RUNS
from app.store import runs, ticks
from app.store.db import Database
from app.web.watch import ChangeWatch
from app.web.wire import Event, farewell, snapshot_event, tick_event

SNAPSHOT_SECONDS = 0.25  # at most four snapshots a second and run
SETTLE_SECONDS = 2.0  # how long an ended run may take to be frozen before viewers are let go
PAGE_TICKS = 200
BACK_OFF_SECONDS = 1.0
READERS = 4  # threads that read backlogs: the rest of the pool answers requests

log = logging.getLogger("slipstream.live")


@dataclass(eq=False)
class Viewer:
    """One open stream: its place in a room and its bounded queue."""

    run_id: str
    queue: asyncio.Queue[Event]
    is_dismissed: bool = False

    def offer(self, event: Event) -> bool:
        """Queue an event; a viewer that lags too far is told so and must come again."""
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dismiss("slow")
            return False
        return True

    def dismiss(self, reason: str) -> None:
        """Make the farewell the next thing that this viewer hears."""
        self.is_dismissed = True
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(farewell(reason))


@dataclass(eq=False)
class Room:
    """All viewers of one run, and how far they were served."""

    tick: int
    version: int
    viewers: set[Viewer] = field(default_factory=set)
    is_due: bool = False
    """Whether something waits to be sent though the database has not changed."""
    snapshot_at: float = 0.0


@dataclass(frozen=True)
class News:
    """What one look found for one run."""

    run_id: str
    events: tuple[Event, ...]
    tick: int
    version: int
    is_due: bool
    is_over: bool


class HouseFullError(Exception):
    """This process serves as many viewers as it may."""


class Tail:
    """Watches the database for all viewers of this process; rests while nobody watches."""

    def __init__(
        self, database: Database, settings: Settings, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._watch = ChangeWatch(database)
        self._clock = clock
        self._poll_seconds = settings.live_poll_seconds
        if not database.is_sqlite:
            self._poll_seconds = max(1.0, self._poll_seconds)
        self._queue_size = settings.viewer_queue
        self._max_viewers = settings.max_viewers
        self._rooms: dict[str, Room] = {}
        self._viewers = 0
        self._somebody = asyncio.Event()
        self._looker = CapacityLimiter(1)
        self._readers = CapacityLimiter(READERS)

    @property
    def viewers(self) -> int:
        """How many streams are open."""
        return self._viewers

    async def run(self) -> None:
        """Look again and again while somebody watches; a failing database is asked again later."""
        try:
            while True:
                await self._somebody.wait()
                pause = self._poll_seconds
                try:
                    await self._pass()
                except Exception:  # the feed of a whole process must not die of one look
                    log.exception("the live feed could not read the database; trying again")
                    await to_thread.run_sync(self._watch.forget, limiter=self._looker)
                    pause = BACK_OFF_SECONDS
                await anyio.sleep(pause)
        finally:
            self._watch.forget()

    async def join(self, run_id: str) -> Viewer:
        """Take a place in the run's room: from now on nothing new is missed.

        NotFoundError when there is no such run, HouseFullError when no place is left.
        """
        if self._viewers >= self._max_viewers:
            raise HouseFullError
        self._viewers += 1
        try:
            room = await to_thread.run_sync(self._open_room, run_id, limiter=self._readers)
        except BaseException:
            self._viewers -= 1
            raise
        viewer = Viewer(run_id, asyncio.Queue(self._queue_size))
        self._rooms.setdefault(run_id, room).viewers.add(viewer)
        self._somebody.set()
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Give the place back."""
        self._viewers -= 1
        room = self._rooms.get(viewer.run_id)
        if room is not None:
            self._part(viewer.run_id, room, viewer)

    def dismiss_all(self, reason: str) -> None:
        """Tell everybody goodbye."""
        for room in self._rooms.values():
            for viewer in room.viewers:
                viewer.dismiss(reason)

    async def snapshot(self, run_id: str) -> tuple[Event, bool]:
        """The run as it stands, and whether nothing more will come after its backlog."""
        return await to_thread.run_sync(self._read_snapshot, run_id, limiter=self._readers)

    async def backlog(self, run_id: str, after: int) -> list[Event]:
        """One page of recorded ticks above `after`."""
        return await to_thread.run_sync(self._read_page, run_id, after, limiter=self._readers)

    async def _pass(self) -> None:
        asked = {run_id: (room.tick, room.version) for run_id, room in self._rooms.items()}
        now = time.monotonic()
        fresh = {
            run_id
            for run_id, room in self._rooms.items()
            if now - room.snapshot_at >= SNAPSHOT_SECONDS
        }
        is_due = any(room.is_due for room in self._rooms.values())
        found = await to_thread.run_sync(self._look, asked, fresh, is_due, limiter=self._looker)
        for news in found:
            self._publish(news, now)

    def _publish(self, news: News, now: float) -> None:
        room = self._rooms.get(news.run_id)
        if room is None:
            return
        room.tick, room.is_due = news.tick, news.is_due
        if news.version != room.version:
            room.version, room.snapshot_at = news.version, now
        last = (farewell("ended"),) if news.is_over else ()
        for viewer in list(room.viewers):
            if not all(viewer.offer(event) for event in (*news.events, *last)):
                self._part(news.run_id, room, viewer)
        if news.is_over:
            self._rooms.pop(news.run_id, None)
            self._rest()

    def _part(self, run_id: str, room: Room, viewer: Viewer) -> None:
        room.viewers.discard(viewer)
        if not room.viewers and self._rooms.get(run_id) is room:
            del self._rooms[run_id]
        self._rest()

    def _rest(self) -> None:
        if not self._rooms:
            self._somebody.clear()

    def _open_room(self, run_id: str) -> Room:
        with self._database.read() as session:
            runs.view(session, run_id, now=self._clock())  # NotFoundError when there is none
            mark = runs.marks(session, [run_id])[run_id]
        return Room(tick=mark.last_tick, version=mark.version, is_due=True)

    def _read_snapshot(self, run_id: str) -> tuple[Event, bool]:
        now = self._clock()
        with self._database.read() as session:
            snapshot = runs.snapshot(session, run_id, now=now)
        return snapshot_event(snapshot), is_over(snapshot.run, now)

    def _read_page(self, run_id: str, after: int) -> list[Event]:
        with self._database.read() as session:
            page = ticks.after(session, run_id, after, limit=PAGE_TICKS)
        return [tick_event(tick) for tick in page]

    def _look(self, asked: dict[str, tuple[int, int]], fresh: set[str], is_due: bool) -> list[News]:
        """What is new for the runs asked about; one cheap question when nothing is."""
        if not self._watch.has_changed() and not is_due:
            return []
        with self._database.read() as session:
            marks = runs.marks(session, list(asked))
        return [
            self._look_at(run_id, seen, marks.get(run_id), run_id in fresh)
            for run_id, seen in asked.items()
        ]

    def _look_at(
        self, run_id: str, seen: tuple[int, int], mark: runs.Mark | None, is_fresh: bool
    ) -> News:
        tick, version = seen
        if mark is None:  # deleted: nothing more will come
            return News(run_id, (), tick, version, is_due=False, is_over=True)
        events = self._read_ticks(run_id, tick, mark.last_tick)
        tick = events[-1].tick if events else tick
        has_ended = mark.state in ENDED_RUNS
        is_due, over = mark.version != version, False
        if is_fresh and (is_due or has_ended):
            snapshot, over = self._read_snapshot(run_id)
            is_due = False
            if snapshot.version != version:
                events.append(snapshot)
                version = snapshot.version or 0
        return News(run_id, tuple(events), tick, version, is_due or (has_ended and not over), over)

    def _read_ticks(self, run_id: str, after: int, last: int) -> list[Event]:
        events: list[Event] = []
        while after < last and (page := self._read_page(run_id, after)):
            events += page
            after = page[-1].tick
        return events


def is_over(run: RunView, now: datetime) -> bool:
    """Whether nothing more will come: ended, and frozen or given time enough to be."""
    if run.state not in ENDED_RUNS:
        return False
    settled = now - timedelta(seconds=SETTLE_SECONDS)
    return run.slug is not None or run.finished_at is None or run.finished_at <= settled
