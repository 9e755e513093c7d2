"""A server that knows to the token and microsecond what it sent: the ruler for the load process.

Its own process, uvloop, one write per chunk. It answers any POST with a stream shaped by the body's
"truth" object, and GET /truth/HEAT with what it sent. It knows nothing of how anybody counts.

    python -m bench.truth_server            prints {"port": …} and serves until stdin ends
"""

import asyncio
import hashlib
import json
import random
import sys
import time
from array import array
from dataclasses import dataclass, field
from typing import Any

import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = (
    '{"id":"cmpl-5dd1b1a3c0ffee00","object":"text_completion","created":1795234836,"model":"truth",'
    '"choices":[{"index":0,"text":%s,"logprobs":null,"finish_reason":%s,"stop_reason":null,'
    '"prompt_token_ids":null,"token_ids":%s}],'
    '"usage":{"prompt_tokens":16,"total_tokens":%d,"completion_tokens":%d}}'
)
ROLE = (
    '{"id":"cmpl-5dd1b1a3c0ffee00","object":"chat.completion.chunk","created":1795234836,"model":"truth",'
    '"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],'
    '"usage":{"prompt_tokens":16,"total_tokens":16,"completion_tokens":0}}'
)
WORDS = (
    " the",
    " speed",
    " of",
    " light",
    "\n",
    ' "so',
    "é",
    "走",
    "る",
    "🏁",
    "\\n",
    " fast",
    " er",
)


@dataclass(frozen=True)
class Order:
    """What one request asks this server to send."""

    heat: str = "h"
    stream: int = 0
    chunks_per_second: float = 100.0
    per_chunk: tuple[int, int] = (1, 1)
    """Least and most tokens in a chunk."""
    empty_every: int = 0
    """Every n-th chunk has tokens but no text; 0: none."""
    role_chunk: bool = False
    token_ids: bool = True
    first_after_s: float = 0.0
    is_spread: bool = True
    """True: streams are out of step with each other; False: all write in the same engine step."""


@dataclass
class Record:
    """What was sent on one stream; times by time.monotonic."""

    asked_at: float
    times: "array[float]" = field(default_factory=lambda: array("d"))
    totals: "array[int]" = field(default_factory=lambda: array("q"))
    chars: int = 0
    text: Any = field(default_factory=hashlib.sha256)

    def as_json(self) -> dict[str, Any]:
        return {
            "asked_at": self.asked_at,
            "times": list(self.times),
            "totals": list(self.totals),
            "chars": self.chars,
            "text_sha256": self.text.hexdigest(),
        }


RECORDS: dict[str, dict[int, Record]] = {}


class Conversation(asyncio.Protocol):
    """One connection: a request comes in, chunks go out on their schedule."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # TCP only
        self.received = bytearray()
        self.timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        self.received += data
        head_end = self.received.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = bytes(self.received[:head_end])
        if head.startswith(b"GET "):
            self.answer(head.split(b" ", 2)[1].decode())
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self.received) >= head_end + 4 + length:
            self.begin(json.loads(self.received[head_end + 4 :]))

    def answer(self, path: str) -> None:
        """GET /truth/HEAT."""
        streams = RECORDS.get(path.rsplit("/", 1)[1], {})
        body = json.dumps({str(n): record.as_json() for n, record in streams.items()}).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(head % len(body) + body)
        self.received.clear()

    def begin(self, body: dict[str, Any]) -> None:
        asked_at = time.monotonic()
        self.order = order = Order(**body["truth"])
        self.left = int(body.get("max_tokens", 1 << 40))
        self.total = 0
        self.sent = 0
        self.dice = random.Random(order.stream)
        self.record = Record(asked_at)
        RECORDS.setdefault(order.heat, {})[order.stream] = self.record
        self.transport.write(HEAD)
        if order.role_chunk:
            self.transport.write(framed(ROLE))
        self.gap = 1.0 / order.chunks_per_second
        self.due = asked_at + order.first_after_s
        if order.is_spread:
            self.due += self.dice.random() * self.gap
        self.loop = asyncio.get_running_loop()
        self.wait()

    def wait(self) -> None:
        self.timer = self.loop.call_later(max(0.0, self.due - time.monotonic()), self.send)

    def send(self) -> None:
        """One chunk; the schedule does not slip when a timer is late."""
        order = self.order
        tokens = min(self.left, self.dice.randint(*order.per_chunk))
        self.left -= tokens
        self.total += tokens
        self.sent += 1
        is_empty = order.empty_every and self.sent % order.empty_every == 0
        text = "" if is_empty else WORDS[self.sent % len(WORDS)] * tokens
        ids = json.dumps([7] * tokens, separators=(",", ":")) if order.token_ids else "null"
        finish = "null" if self.left else '"length"'
        # ASCII escapes in every third chunk, raw UTF-8 in the others: servers do either.
        quoted = json.dumps(text, ensure_ascii=self.sent % 3 == 0)
        wire = framed(CHUNK % (quoted, finish, ids, 16 + self.total, self.total))
        self.record.times.append(time.monotonic())
        self.record.totals.append(self.total)
        self.transport.write(wire)
        self.record.chars += len(text)
        self.record.text.update(text.encode())
        if not self.left:
            self.transport.write(framed("[DONE]") + b"0\r\n\r\n")
            return
        self.due += self.gap
        self.wait()


def framed(payload: str) -> bytes:
    """One server-sent event in one HTTP chunk."""
    event = b"data: " + payload.encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Conversation, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
