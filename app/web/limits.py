"""Bounds on what a stranger can make this process hold: bytes of a body, failed attempts."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable

from fastapi import Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web import problems
from app.web.problems import Trouble

MAX_BODY_BYTES = 300_000
ATTEMPTS = 20
WINDOW_SECONDS = 60.0
CLIENTS = 1024


class BodyTooLargeError(HTTPException):
    """More bytes came than any request needs. An HTTPException, because FastAPI lets those pass."""

    def __init__(self) -> None:
        super().__init__(413, f"At most {MAX_BODY_BYTES} bytes are read.")


class BodyLimit:
    """Refuses large bodies: by their declared length before reading, else while they stream in."""

    def __init__(self, app: ASGIApp, *, limit_bytes: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with a `receive` that counts."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        if not declared.isdecimal() or int(declared) > self._limit_bytes:
            response = problems.respond(Request(scope), self._too_large())
            await response(scope, receive, send)
            return
        left = self._limit_bytes

        async def receive_counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise BodyTooLargeError
            return message

        await self._app(scope, receive_counted, send)

    def _too_large(self) -> Trouble:
        return Trouble(
            413,
            "content-too-large",
            "The body is too large",
            f"At most {self._limit_bytes} bytes are read.",
            "A recipe is a page of text: send only that.",
        )


class Attempts:
    """Failed attempts of each client in the last minute; the oldest client is forgotten first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def failed(self, client: str) -> int:
        """Count a failure; seconds to wait when there were too many, else 0."""
        times = self._failures.setdefault(client, deque(maxlen=ATTEMPTS + 1))
        self._failures.move_to_end(client)
        times.append(self._clock())
        if len(self._failures) > CLIENTS:
            self._failures.popitem(last=False)
        return self.wait_seconds(client)

    def wait_seconds(self, client: str) -> int:
        """How long this client must wait before it is heard again; 0: not at all."""
        times = self._failures.get(client, deque())
        since = self._clock() - WINDOW_SECONDS
        while times and times[0] <= since:
            times.popleft()
        return max(1, round(times[0] - since)) if len(times) > ATTEMPTS else 0
