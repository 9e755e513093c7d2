"""The last door of the web side: whatever nobody expected is logged here and answered without
telling how this house is built."""

import logging

from fastapi import Request
from sse_starlette.sse import SendTimeoutError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web import problems

log = logging.getLogger("slipstream.web")


class LastDoor:
    """Turns unexpected exceptions into 500 and a traceback in the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on; answer what fell through, unless the answer has begun."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except SendTimeoutError:
            log.info("a viewer of %s took nothing for too long and was dropped", scope["path"])
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not has_begun:
                response = problems.respond(Request(scope), problems.INTERNAL)
                await response(scope, receive, send)
