"""A viewer's events as an SSE response. Knows the order of things, not where they come from."""

import asyncio
from collections.abc import AsyncIterator

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from app.domain.errors import NotFoundError
from app.web.live import Tail, Viewer
from app.web.wire import Event, farewell, unseen

PING_SECONDS = 15
SEND_TIMEOUT_SECONDS = 20.0  # a viewer whose socket takes nothing for so long is gone
GRACE_SECONDS = 1.0  # time for the farewell when the server shuts down
RETRY_MS = 1000


class LiveResponse(EventSourceResponse):
    """The stream of one viewer, who gives the place back however the stream ends."""

    def __init__(self, tail: Tail, viewer: Viewer, after: int) -> None:
        self._tail, self._viewer = tail, viewer
        self._bell = anyio.Event()
        super().__init__(
            story(tail, viewer, after),
            ping=PING_SECONDS,
            ping_message_factory=lambda: ServerSentEvent(comment="ping", sep="\n"),
            send_timeout=SEND_TIMEOUT_SECONDS,
            shutdown_event=self._bell,
            shutdown_grace_period=GRACE_SECONDS,
            data_sender_callable=self._say_goodbye_at_shutdown,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._tail.leave(self._viewer)

    async def _say_goodbye_at_shutdown(self) -> None:
        await self._bell.wait()
        self._viewer.dismiss("shutdown")


async def story(tail: Tail, viewer: Viewer, after: int) -> AsyncIterator[bytes]:
    """Snapshot, backlog, then whatever is new; every tick above `after` exactly once."""
    try:
        snapshot, is_over = await tail.snapshot(viewer.run_id)
    except NotFoundError:  # deleted since the viewer came in
        yield farewell("ended").wire
        return
    yield b"retry: %d\n\n" % RETRY_MS + snapshot.wire
    seen, version = after, snapshot.version or 0
    while not viewer.is_dismissed and (page := await tail.backlog(viewer.run_id, seen)):
        yield b"".join(event.wire for event in page)
        seen = page[-1].tick
    if is_over and not viewer.is_dismissed:
        yield farewell("ended").wire
        return
    while True:
        batch = unseen(await _wait(viewer.queue), seen, version)
        for event in batch:
            seen = max(seen, event.tick)
            version = event.version if event.version is not None else version
        if batch:
            yield b"".join(event.wire for event in batch)
        if batch and batch[-1].is_last:
            return


async def _wait(queue: asyncio.Queue[Event]) -> list[Event]:
    """Everything that is queued, at least one event."""
    events = [await queue.get()]
    while not queue.empty():
        events.append(queue.get_nowait())
    return events
