"""One heat: opens the streams, keeps their common time, ends them, reports.
Counting is in its parts."""

import asyncio
import contextlib
import gc
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workers.load.clockwork import Clockwork, Second
from workers.load.messages import (
    ClientCost,
    Done,
    Event,
    FirstToken,
    Gaps,
    Source,
    Started,
    Tick,
    WindowOpen,
)
from workers.load.request import Target, head_bytes, request_bytes, target_of
from workers.load.sse import Held
from workers.load.stream import Stream
from workers.load.window import nearest_rank, percentile_ms

TICK_TEXT_BYTES = 2048
EDGE_GRACE_SECONDS = 1.0
"""How long streams stay open after the planned end for the chunk that the last edge needs."""
LAG_PROBE_SECONDS = 0.05
SOURCES: dict[frozenset[str], Source] = {
    frozenset({"usage"}): "usage",
    frozenset({"token_ids"}): "token_ids",
    frozenset({"usage", "token_ids"}): "token_ids",
}
"""What a heat may call its count, by the modes of its streams; anything else is "none"."""


class Heat:
    """The life of one drive command."""

    def __init__(
        self, head: dict[str, Any], bodies: list[bytes], say: Callable[[Event], None]
    ) -> None:
        self.id = str(head["id"])
        self.say = say
        self.target = target_of(str(head["base_url"]))
        request_head = head_bytes(self.target, str(head["path"]), head.get("headers") or {})
        if not bodies:
            raise ValueError("a heat needs at least one body")
        seconds = head.get("seconds")
        self.seconds = None if seconds is None else float(seconds)
        self.open_deadline_s = float(head.get("open_deadline_s") or 600.0)
        self.spotlight = int(head.get("spotlight") or 0)
        self.held = Held()
        self.course = Clockwork(len(bodies), time.monotonic(), self.seconds)
        requests = (request_bytes(request_head, body) for body in bodies)
        self.streams = [Stream(self, n, request) for n, request in enumerate(requests)]
        self.running = len(self.streams)
        self.over = asyncio.Event()
        self.text = ""
        self.error: str | None = None
        self.is_cancelled = False
        self.chunks_told = 0
        self.lags: list[float] = []

    async def drive(self) -> Done:
        """Run it all; the last word is the return value."""
        addresses = await self.resolve()
        loop = asyncio.get_running_loop()
        gc.collect()
        gc.disable()
        cpu = time.process_time()
        self.course.t0 = t0 = time.monotonic()
        self.course.turn_at = t0 + 1.0
        self.say(Started(self.id, t0))
        deadline = loop.call_later(self.open_deadline_s, self.give_up)
        helpers = [
            asyncio.create_task(job) for job in (self.start(addresses), self.beat(), self.probe())
        ]
        try:
            await self.over.wait()
        finally:
            deadline.cancel()
            for helper in helpers:
                helper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*helpers)
            gc.enable()
        ended = max(stream.ended_at or t0 for stream in self.streams)
        self.course.finish(max(ended, t0 + self.course.second), self.tick)
        return self.report(ended - t0, time.process_time() - cpu)

    # Opening.

    async def resolve(self) -> list[tuple[str, int]]:
        """Names before the clock starts: looking them up is not the server's time."""
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(self.target.host, self.target.port, type=1)
        except OSError as error:
            self.error = f"cannot find {self.target.host}: {error}"
            return []
        return [(str(row[4][0]), int(row[4][1])) for row in found]

    async def start(self, addresses: list[tuple[str, int]]) -> None:
        """Connect all, then ask all at once, so that the streams start together."""
        try:
            context = tls_context(self.target)
        except (ssl.SSLError, OSError) as error:
            self.error, context, addresses = f"TLS cannot start: {error}", None, []
        await asyncio.gather(*(self.connect(one, addresses, context) for one in self.streams))
        for stream in self.streams:
            stream.send()

    async def connect(
        self, stream: Stream, addresses: list[tuple[str, int]], context: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        why = self.error or "no address"
        name = self.target.host if context else None
        for host, port in addresses:
            try:
                await loop.create_connection(
                    lambda: stream, host, port, ssl=context, server_hostname=name
                )
                return
            except OSError as error:  # ssl.SSLError is one
                why = str(error)
        stream.fail(f"cannot connect to {self.target.host}:{self.target.port}: {why}")

    # What streams tell (their Course).

    def turn_if_due(self, at: float) -> None:
        if at >= self.course.turn_at:
            self.course.turn(at, self.tick)
            self.stop_when_settled()

    def count(self, stream: Stream, at: float, grown: int) -> None:
        """`grown` new tokens at this moment; the caller has turned the clock."""
        course = self.course
        course.second_tokens += grown
        is_first = stream.first_at == 0.0
        if is_first:
            stream.first_at = at
            self.say(FirstToken(self.id, stream.index, at - stream.asked_at))
        if course.add(stream.index, at, stream.tally.tokens):
            self.say(WindowOpen(self.id, at - course.t0))
            self.arm_plan()
        elif course.close is not None:
            self.stop_when_settled()

    def finishing(self, stream: Stream, at: float) -> None:
        self.course.first_end(at)

    def ended(self, stream: Stream) -> None:
        at = stream.ended_at or time.monotonic()
        self.turn_if_due(at)
        self.course.first_end(at)
        self.course.forget(stream.index)
        self.running -= 1
        if self.running == 0:
            self.over.set()
        elif self.seconds is not None and stream.finish == "error" and not stream.tally.tokens:
            # The window can never open, and no figure can come: do not burn the planned time.
            asyncio.get_running_loop().call_soon(self.stop)

    def flush(self, stream: Stream) -> None:
        """Count the characters that waited; the spotlight's also go into the next tick."""
        text = stream.tally.flush_text()
        if stream.index == self.spotlight and text:
            self.text = last_bytes(self.text + text, TICK_TEXT_BYTES)

    # Time.

    async def beat(self) -> None:
        """Turn the clock when no chunk does."""
        while True:
            await asyncio.sleep(max(0.001, self.course.turn_at - time.monotonic()))
            self.turn_if_due(time.monotonic())

    async def probe(self) -> None:
        """How late this process is: the tool suspects itself."""
        while True:
            due = time.monotonic() + LAG_PROBE_SECONDS
            await asyncio.sleep(LAG_PROBE_SECONDS)
            self.lags.append(max(0.0, time.monotonic() - due))

    def tick(self, second: Second) -> None:
        for stream in self.streams:
            if stream.tally.raw:
                self.flush(stream)
        text, self.text = self.text, ""
        chunks = sum(stream.tally.chunks for stream in self.streams)
        new_chunks, self.chunks_told = chunks - self.chunks_told, chunks
        self.say(
            Tick(
                self.id,
                second.number,
                second.tokens,
                new_chunks,
                self.running,
                text,
                partial=second.is_partial,
                length_s=second.length_s,
            )
        )

    # Ending.

    def arm_plan(self) -> None:
        """Once the window is open, its planned end is known."""
        if self.seconds is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(self.seconds, self.pass_plan)
            loop.call_later(self.seconds + EDGE_GRACE_SECONDS, self.stop)

    def pass_plan(self) -> None:
        self.turn_if_due(max(time.monotonic(), self.course.close_at))
        self.stop_when_settled()

    def stop_when_settled(self) -> None:
        if self.course.is_settled and time.monotonic() >= self.course.close_at:
            asyncio.get_running_loop().call_soon(self.stop)

    def give_up(self) -> None:
        """The open deadline."""
        missing = self.course.without_token
        if missing:
            waited = f"{self.open_deadline_s:g} s"
            self.error = f"{missing} of {len(self.streams)} streams had no token after {waited}"
            self.stop()

    def cancel(self) -> None:
        self.is_cancelled = True
        self.stop()

    def stop(self) -> None:
        """Close what is still open."""
        at = time.monotonic()
        for stream in self.streams:
            stream.abort(at)

    def report(self, seconds: float, cpu_seconds: float) -> Done:
        ends = tuple(stream.summary(self.course.t0) for stream in self.streams)
        failed = [end.error for end in ends if end.finish == "error"]
        if failed and self.error is None:
            self.error = f"{len(failed)} of {len(ends)} streams failed: {failed[0]}"
        modes = frozenset(stream.tally.mode for stream in self.streams if stream.tally.mode)
        buckets = self.course.gap_buckets
        return Done(
            id=self.id,
            cancelled=self.is_cancelled,
            error=self.error,
            source=SOURCES.get(modes, "none"),
            tokens=sum(end.tokens for end in ends),
            chunks=sum(end.chunks for end in ends),
            chars=sum(end.chars for end in ends),
            seconds=seconds,
            window=self.course.window(),
            streams=ends,
            itl=Gaps(
                percentile_ms(buckets, 0.50),
                percentile_ms(buckets, 0.95),
                percentile_ms(buckets, 0.99),
            ),
            client=ClientCost(
                cpu_seconds=cpu_seconds,
                cpu_share=cpu_seconds / max(seconds, 1e-9),
                loop_lag_p99_ms=nearest_rank(self.lags, 0.99) * 1000,
                rss_mb=rss_mb(),
            ),
        )


def tls_context(target: Target) -> ssl.SSLContext | None:
    """The system's trust, or SSL_CERT_FILE's; None for plain http."""
    return ssl.create_default_context() if target.is_tls else None


def last_bytes(text: str, limit: int) -> str:
    """The end of the text that fits into `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    return text.encode("utf-8", "replace")[-limit:].decode("utf-8", "ignore")


def rss_mb() -> float:
    """Resident memory now; 0.0 where the system has no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096 / 1e6
