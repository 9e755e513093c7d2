"""One stream: one connection, one request, its chunks. Turns bytes into counts;
the heat owns time's edges.

httptools reads HTTP, a reused small buffer receives: asyncio's own 256 KiB reads double the cost
of an event
(bench/load_parser.py). Nothing a server sends may raise out of here.
"""

import asyncio
import time
from typing import Protocol

import httptools

from workers.load.chunks import Chunk, Needles, needles_for, read_fast, read_json
from workers.load.clockwork import Clockwork
from workers.load.messages import Finish, StreamEnd
from workers.load.sse import Held, Payloads
from workers.load.tally import MAX_RAW_BYTES, Tally

BUFFER_BYTES = 32 * 1024
MAX_HEADER_BYTES = 256 * 1024
MAX_ERROR_BODY_BYTES = 4096
ERROR_BODY_SECONDS = 2.0
FINISHES: dict[str, Finish] = {"length": "length", "abort": "error", "error": "error"}
"""Everything else a server calls its finish is a natural stop."""

# One for all streams: uvloop asks for it, fills it and hands it over in one go.
BUFFER = memoryview(bytearray(BUFFER_BYTES))


class Course(Protocol):
    """What a stream needs of its heat."""

    held: Held
    course: Clockwork

    def count(self, stream: "Stream", at: float, grown: int) -> None: ...
    def finishing(self, stream: "Stream", at: float) -> None: ...
    def ended(self, stream: "Stream") -> None: ...
    def flush(self, stream: "Stream") -> None: ...
    def turn_if_due(self, at: float) -> None: ...


class Stream(asyncio.BufferedProtocol):
    """The life of one request."""

    def __init__(self, heat: Course, index: int, request: bytes) -> None:
        self.heat = heat
        self.clock = heat.course
        self.index = index
        self.request = request
        self.tally = Tally()
        self.payloads = Payloads(heat.held)
        self.parser = httptools.HttpResponseParser(self)
        self.transport: asyncio.Transport | None = None
        self.needles: Needles | None = None
        self.now = self.asked_at = self.first_at = self.last_at = 0.0
        self.ended_at: float | None = None
        self.finish: Finish | None = None
        self.error: str | None = None
        self.status = 0
        self.header_bytes = 0
        self.content_type = ""
        self.error_body = b""

    # The socket's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # TCP and TLS transports only
        if self.ended_at is not None:
            self.drop()

    def send(self) -> None:
        """Ask. TTFT counts from here, so that connecting is not part of it."""
        if self.transport and self.ended_at is None:
            self.asked_at = time.monotonic()
            self.transport.write(self.request)
            self.request = b""

    def get_buffer(self, sizehint: int) -> memoryview:
        return BUFFER

    def buffer_updated(self, count: int) -> None:
        self.now = time.monotonic()
        try:
            self.parser.feed_data(BUFFER[:count])
        except httptools.HttpParserError as error:
            # A fault of ours inside a callback arrives here too, as its context.
            self.fail(f"the answer is not valid HTTP: {error.__context__ or error}"[:500])
        if not self.content_type:
            self.header_bytes += count
            if self.header_bytes > MAX_HEADER_BYTES:
                self.fail("the answer's headers do not end")

    def eof_received(self) -> None:
        self.complete("the connection closed in mid-stream")

    def connection_lost(self, exc: Exception | None) -> None:
        self.complete(
            f"the connection broke: {exc}" if exc else "the connection closed in mid-stream"
        )

    def drop(self) -> None:
        """Close at once; a polite TLS goodbye could wait for a server that hangs."""
        if self.transport and not self.transport.is_closing():
            self.transport.abort()

    # httptools' side.

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self.content_type = value[:200].decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self.parser.get_status_code()
        self.content_type = self.content_type or "no content type"
        if self.status >= 200 and self.status != 200:
            loop = asyncio.get_running_loop()
            loop.call_later(ERROR_BODY_SECONDS, self.refuse)

    def on_body(self, body: bytes) -> None:
        if self.ended_at is not None:
            return
        if self.status != 200:
            self.error_body += body[:MAX_ERROR_BODY_BYTES]
            if len(self.error_body) >= MAX_ERROR_BODY_BYTES:
                self.refuse()
            return
        for payload in self.payloads.feed(body):
            self.take(payload)

    def on_message_complete(self) -> None:
        if self.status >= 200:  # 100 Continue and its like are only a prelude
            self.complete("the answer ended without a finish reason and without [DONE]")

    # Counting.

    def take(self, payload: bytes) -> None:
        """One payload; ordinary chunks the short way, everything else the whole way."""
        fast = read_fast(payload, self.needles) if self.needles else None
        if fast is None:
            self.take_whole(payload)
            return
        now, tally = self.now, self.tally
        if now >= self.clock.turn_at:
            self.heat.turn_if_due(now)
        grown = tally.add(*fast)
        if grown:
            self.heat.count(self, now, grown)
        if tally.raw_bytes > MAX_RAW_BYTES:
            self.heat.flush(self)

    def take_whole(self, payload: bytes) -> None:
        if self.ended_at is not None:
            return
        if payload == b"[DONE]":
            self.complete("the server sent [DONE] before any token")
            return
        chunk = read_json(payload)
        if chunk.is_choice and self.needles is None:
            self.needles = needles_for(payload)
        self.heat.turn_if_due(self.now)
        grown = self.tally.add_chunk(chunk)
        if grown:
            self.heat.count(self, self.now, grown)
        if self.tally.raw_bytes > MAX_RAW_BYTES:
            self.heat.flush(self)
        self.judge(chunk)

    def judge(self, chunk: Chunk) -> None:
        """Whether this chunk ends the stream, or will."""
        if chunk.error:
            self.fail(f"the server sent an error: {chunk.error}")
        elif chunk.finish and self.finish is None:
            self.finish = FINISHES.get(chunk.finish, "stop")
            if self.finish == "error":
                self.error = f"the server ended the stream with finish_reason {chunk.finish!r}"
            self.heat.finishing(self, self.now)

    # Ending.

    def complete(self, complaint: str) -> None:
        """The server has said all; `complaint` holds if that was too little."""
        if self.ended_at is not None:
            return
        self.now = time.monotonic()
        if self.status >= 200 and self.status != 200:
            self.refuse()
            return
        for payload in self.payloads.finish():
            if payload != b"[DONE]":
                self.take_whole(payload)
        if (
            self.finish is None
            and complaint.startswith("the server sent [DONE]")
            and self.tally.tokens
        ):
            self.finish = "stop"
            self.tally.note("[DONE] came without a finish reason")
        if self.finish is None:
            self.fail(self.why_nothing(complaint))
            return
        self.end()

    def why_nothing(self, complaint: str) -> str:
        """A clearer complaint where the answer was no stream at all."""
        if self.status == 0:
            return f"no answer: {complaint}"
        if not self.tally.chunks and "event-stream" not in self.content_type:
            return (
                f"the server answered without a stream ({self.content_type}); ask with stream: true"
            )
        return complaint

    def refuse(self) -> None:
        """The end of an answer that is not 200."""
        body = self.error_body.decode("utf-8", "replace")[:500]
        self.fail(f"HTTP {self.status}: {body}")

    def fail(self, why: str) -> None:
        """End with an error, unless it ended before."""
        if self.ended_at is None:
            self.finish = "error"
            self.error = why
            self.now = time.monotonic()
            self.end()
            self.drop()

    def abort(self, at: float) -> None:
        """End because the heat is over."""
        if self.ended_at is None:
            self.now = at
            self.finish = self.finish or "aborted"
            self.end()
        self.drop()

    def end(self) -> None:
        self.ended_at = self.now
        self.payloads.forget()
        self.heat.ended(self)

    def summary(self, t0: float) -> StreamEnd:
        """What this stream came to; its text must be flushed before."""
        tally = self.tally
        if self.payloads.dropped:
            tally.note(f"{self.payloads.dropped} lines were too long and were dropped")
        return StreamEnd(
            stream=self.index,
            tokens=tally.tokens,
            chunks=tally.chunks,
            chars=tally.chars,
            prompt_tokens=tally.prompt_tokens,
            cached_tokens=tally.cached_tokens,
            ttft_s=self.first_at - self.asked_at if tally.tokens else None,
            first_tokens=tally.first_tokens,
            ended_s=(self.ended_at or self.now) - t0,
            finish=self.finish or "aborted",
            error=self.error or tally.defect,
            text_sha256=tally.sha256.hexdigest() if tally.chars else None,
            usage_tokens=tally.usage,
            id_tokens=tally.id_tokens,
        )
