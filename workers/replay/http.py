"""HTTP/1.1 by hand: asyncio Protocol and httptools, keep-alive, chunked streams. Knows nothing of
tokens.

No web framework: the replay server must cost little beside the load it feeds, and `workers` may
not import one.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

import httptools

MAX_BODY_BYTES = 64 * 1024 * 1024
JSON_TYPE = "application/json"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass
class _Draft:
    url: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)


class Connection(asyncio.Protocol):
    """One client connection; requests are answered one after the other."""

    def __init__(
        self, handle: Callable[["Connection", Request], None], open_ones: set["Connection"]
    ) -> None:
        self._handle, self._open_ones = handle, open_ones
        self._parser = httptools.HttpRequestParser(self)
        self._draft = _Draft()
        self._waiting: deque[tuple[Request, bool]] = deque()
        self._is_busy = self._keeps_alive = self._is_streaming = False
        self.is_paused = False
        self.on_gone: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None

    # --- asyncio's calls
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's is no subclass
        self._open_ones.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_ones.discard(self)
        gone, self.on_gone = self.on_gone, None
        if gone is not None:
            gone()

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        if self.on_writable is not None:
            self.on_writable()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keeps_alive = False
            self.answer(400, json.dumps({"detail": f"Invalid HTTP request: {error}"}).encode())

    # --- httptools' calls
    def on_message_begin(self) -> None:
        self._draft = _Draft()

    def on_url(self, url: bytes) -> None:
        self._draft.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._draft.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._draft.headers.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._draft.body += body
        if len(self._draft.body) > MAX_BODY_BYTES:
            self._keeps_alive = False
            self.answer(413, b'{"detail":"Request body too large"}')

    def on_message_complete(self) -> None:
        url = httptools.parse_url(self._draft.url)
        request = Request(
            method=self._parser.get_method().decode(),
            path=(url.path or b"/").decode("latin-1"),
            query=(url.query or b"").decode("latin-1"),
            headers=self._draft.headers,
            body=bytes(self._draft.body),
        )
        self._waiting.append((request, self._parser.should_keep_alive()))
        self._next()

    # --- answers
    def answer(self, status: int, body: bytes, content_type: str = JSON_TYPE) -> None:
        """A whole answer."""
        if self.transport.is_closing():
            return
        head = self._start_lines(
            status, f"content-length: {len(body)}\r\ncontent-type: {content_type}"
        )
        self.transport.write(head + body)
        self._over()

    def begin_stream(self) -> None:
        """An event stream starts; `write` its data, then `finish`."""
        self._is_streaming = True
        head = "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked"
        self.transport.write(self._start_lines(200, head))

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def finish(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"0\r\n\r\n")
        self._over()

    def _start_lines(self, status: int, lines: str) -> bytes:
        keep = "" if self._keeps_alive else "connection: close\r\n"
        return (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ndate: {formatdate(usegmt=True)}\r\n"
            f"server: slipstream-replay\r\n{keep}{lines}\r\n\r\n"
        ).encode("latin-1")

    def _over(self) -> None:
        self.on_gone = self.on_writable = None
        self._is_busy = self._is_streaming = False
        if not self._keeps_alive:
            self.transport.close()
        else:
            self._next()

    def _next(self) -> None:
        if self._is_busy or not self._waiting or self.transport.is_closing():
            return
        request, self._keeps_alive = self._waiting.popleft()
        self._is_busy = True
        self._handle(self, request)
