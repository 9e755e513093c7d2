"""The player: prefills, steps and ends the streams of one lane by the book. Knows nothing of HTTP
or JSON.

Prefills are worked off one after the other (a GPU has one), then a stream joins the batch. All
streams of the batch step together; concurrency = streams that decode now, context = mean prompt
tokens of those. The first token of a request comes from prefill.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from workers.replay.acceptance import accepted, tokens_per_step
from workers.replay.book import DEFAULT_FIRST_TOKEN_SECONDS, Book
from workers.replay.counters import Counters, Gauges
from workers.replay.faults import Armed
from workers.replay.pace import Pace
from workers.replay.words import Writer

JOURNAL_STEPS = 20_000  # steps remembered for GET /replay/journal
FORGIVEN_LAG_SECONDS = 1.0  # a process that slept longer does not burst to catch up


@dataclass(eq=False)
class Stream:
    """One request being played."""

    prompt_tokens: int
    max_tokens: int
    limit: int  # where it ends, at most max_tokens
    writer: Writer
    armed: Armed
    workload: str | None
    on_tokens: Callable[[list[int], str | None], None]
    arrived: float = 0.0
    tokens: int = 0
    is_waiting: bool = True
    is_hung: bool = False
    is_cold: bool = False
    is_over: bool = False
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """One line of the journal: seconds of the loop's clock."""

    planned_s: float
    played_s: float
    tokens: int
    streams: int


class Player:
    """Plays one lane; `trip` is told of each stream that has armed faults, after its tokens are
    out.
    """

    def __init__(
        self, book: Book, seed: int, heat_noise: float, trip: Callable[[Stream], None]
    ) -> None:
        self.book = book
        self.counters = Counters(book.k)
        self.journal: deque[Step] = deque(maxlen=JOURNAL_STEPS)
        self.streams: set[Stream] = set()
        self._decoding: list[Stream] = []
        self._random = random.Random(f"{seed}/{book.race_id}/{book.lane}")
        self.pace = Pace(self._random, heat_noise)
        self._trip = trip
        self._profile: tuple[float, ...] = ()
        self._prefill_free_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def gauges(self) -> Gauges:
        waiting = sum(stream.is_waiting for stream in self.streams)
        kv = sum(s.prompt_tokens + s.tokens for s in self.streams if not s.is_waiting)
        return Gauges(len(self.streams) - waiting, waiting, kv)

    def start(self, stream: Stream) -> None:
        """Queue the stream for prefill; its first token comes by itself."""
        stream.arrived = now = self._loop.time()
        begin = max(now, self._prefill_free_at)
        self._prefill_free_at = begin + self.book.prefill_seconds(stream.prompt_tokens)
        first = self._prefill_free_at + DEFAULT_FIRST_TOKEN_SECONDS
        cold = stream.armed.get("slow_first")
        if cold is not None and stream.is_cold:
            first += cold["extra_seconds"]
        self.streams.add(stream)
        stream.timers = [
            self._loop.call_at(begin, self._leave_queue, stream),
            self._loop.call_at(first, self._first_token, stream),
        ]

    def drop(self, stream: Stream, reason: str = "abort") -> None:
        """The client went away (or the stream broke): stop playing it. Its tokens stay counted."""
        if not stream.is_over:
            self._leave(stream, reason)

    def _leave_queue(self, stream: Stream) -> None:
        stream.is_waiting = False

    def _first_token(self, stream: Stream) -> None:
        now = self._loop.time()
        self.counters.prompt_tokens += stream.prompt_tokens
        self.counters.first_tokens += 1
        self.counters.first_token_seconds += now - stream.arrived
        if not self._decoding:
            self.pace.begin(now)
        self._give(stream, 1)
        if not stream.is_over:
            self._decoding.append(stream)
            self._retune()
        self._arm_timer()

    def _retune(self) -> None:
        """The batch changed: ask the book again."""
        streams = self._decoding
        if not streams:
            return
        context = sum(s.prompt_tokens for s in streams) / len(streams)
        play = self.book.play(context, len(streams), streams[0].workload)
        speed = play.tokens_per_second
        slowest = max((s.armed["slow_first"]["factor"] for s in streams if s.is_cold), default=1.0)
        self._profile = play.per_position
        self.pace.tune(speed / slowest, len(streams) * tokens_per_step(play.per_position))

    def _arm_timer(self) -> None:
        if self._timer is None and self._decoding:
            self._timer = self._loop.call_at(self.pace.next_deadline(), self._step)

    def _step(self) -> None:
        self._timer = None
        planned, now = self.pace.deadline, self._loop.time()
        if now - planned > FORGIVEN_LAG_SECONDS:
            self.pace.deadline = now
        total, batch = 0, list(self._decoding)
        for stream in batch:
            if not stream.is_over:
                total += self._step_one(stream)
        self.counters.steps += 1
        self.pace.count(total)
        self.journal.append(Step(planned, now, total, len(batch)))
        self._arm_timer()

    def _step_one(self, stream: Stream) -> int:
        """One verify step of one stream; returns the tokens it gave. A hung one gives nothing."""
        if stream.is_hung:  # its share of the time passes all the same
            return round(tokens_per_step(self._profile))
        kept = 0
        if self._profile:
            kept = accepted(self._profile, self._random.random())
            self.counters.count_draft(kept)
        given = min(1 + kept, stream.limit - stream.tokens)
        self.counters.cut_tokens += 1 + kept - given
        self._give(stream, given)
        return given

    def _give(self, stream: Stream, tokens: int) -> None:
        words = stream.writer.write(tokens)
        stream.tokens += tokens
        self.counters.generation_tokens += tokens
        finish = None
        if stream.tokens >= stream.limit:
            finish = "length" if stream.limit == stream.max_tokens else "stop"
            self._leave(stream, finish)
        stream.on_tokens(words, finish)
        if stream.armed:
            self._trip(stream)

    def _leave(self, stream: Stream, reason: str) -> None:
        stream.is_over = True
        self.streams.discard(stream)
        if not self.streams:
            self._prefill_free_at = 0.0  # prefills of clients that went away block nobody
        self.counters.finished[reason] += 1
        for timer in stream.timers:
            timer.cancel()
        if stream in self._decoding:
            self._decoding.remove(stream)
            self._retune()
        if not self._decoding and self._timer is not None:
            self._timer.cancel()
            self._timer = None
