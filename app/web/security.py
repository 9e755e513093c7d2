"""The guard at the door: who asks, whether they may, and whether a page elsewhere made them ask.

    host -> size of the body -> who (bearer, session) -> may they -> was it this site

Starting servers over HTTP is remote code execution by design, so everything is closed unless it
is named in PUBLIC. Knows no handler; the clear text of a secret never leaves this module.
"""

import re
from datetime import datetime

from anyio import to_thread
from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.config import Settings
from app.domain.errors import StoreError
from app.store import tokens
from app.store.db import Database
from app.store.tokens import TokenKind
from app.web import origins, problems
from app.web.deps import Visitor
from app.web.limits import Attempts
from app.web.problems import Trouble

PUBLIC = re.compile(r"/r/[^/\s]+|/e/[^/\s]+|/static/.+|/login|/favicon\.ico|/api/v1/(health|ready)")
UNASKED = re.compile(r"/e/[^/\s]+|/static/.+|/login|/favicon\.ico|/api/v1/(health|ready)")
"""Public paths whose answer is the same for everybody: no secret is looked up for them."""
SECRET_CHARS = 200
COOKIE = "slipstream_session"
SECURE_COOKIE = "__Host-slipstream_session"

_LOGIN_REMEDY = "Run `slipstream token --link` on the host and open the link that it prints."


class Guard:
    """Lets a request pass, or answers it itself."""

    def __init__(self, app: ASGIApp, *, settings: Settings, attempts: Attempts) -> None:
        self._app = app
        self._settings = settings
        self._hosts = origins.allowed_hosts(settings)
        self._attempts = attempts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide, remember who asks in scope['state'], and pass on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trouble = await self._judge(scope)
        if trouble is None:
            await self._app(scope, receive, send)
            return
        response = problems.respond(Request(scope), trouble)
        await response(scope, receive, send)

    async def _judge(self, scope: Scope) -> Trouble | None:
        headers = Headers(scope=scope)
        trouble = origins.check_host(headers, self._hosts)
        if trouble is not None:
            return trouble
        try:
            visitor = await self._identify(scope, headers)
        except StoreError as error:
            return problems.trouble_of(error)
        scope.setdefault("state", {})["visitor"] = visitor
        return self._check_entry(scope, headers, visitor) or self._check_origin(
            scope, headers, visitor
        )

    async def _identify(self, scope: Scope, headers: Headers) -> Visitor:
        if UNASKED.fullmatch(scope["path"]):
            return Visitor.STRANGER
        database: Database = scope["app"].state.database
        now = scope["app"].state.clock()
        for secret, kind, visitor in _secrets(scope, headers, is_secure(scope, self._settings)):
            if await to_thread.run_sync(_is_valid, database, secret, kind, now):
                return visitor
        return Visitor.STRANGER if self._settings.auth else Visitor.OWNER

    def _check_entry(self, scope: Scope, headers: Headers, visitor: Visitor) -> Trouble | None:
        if visitor.is_known or is_public(scope["method"], scope["path"]):
            return None
        if "authorization" in headers:
            wait_seconds = self._attempts.failed(client_of(scope))
            if wait_seconds:
                return too_many(wait_seconds)
        return Trouble(
            401,
            "unauthorized",
            "Sign in",
            "This page is for people who have a token for this Slipstream.",
            _LOGIN_REMEDY
            if problems.wants_page(scope["path"])
            else "Send `Authorization: Bearer TOKEN`, with a token from `slipstream token`.",
            headers={"WWW-Authenticate": 'Bearer realm="slipstream"'},
        )

    def _check_origin(self, scope: Scope, headers: Headers, visitor: Visitor) -> Trouble | None:
        if scope["method"] in origins.SAFE_METHODS or visitor is Visitor.BEARER:
            return None
        same = origins.is_same_origin(headers, scope["scheme"], self._settings.public_url)
        is_plain_client = same is None and visitor is Visitor.OWNER
        if same or is_plain_client:
            return None
        return Trouble(
            403,
            "cross-site",
            "The request does not come from this site",
            "A browser session may change things only from Slipstream's own pages.",
            "Use the page itself, or send a bearer token.",
        )


def is_public(method: str, path: str) -> bool:
    """What strangers may read."""
    return method in origins.SAFE_METHODS and PUBLIC.fullmatch(path) is not None


def is_secure(scope: Scope, settings: Settings) -> bool:
    """Whether the browser speaks https, so that cookies may be bound to it."""
    return scope["scheme"] == "https" or settings.public_url.startswith("https://")


def client_of(scope: Scope) -> str:
    """The peer's address: what failed attempts are counted by."""
    return str(scope["client"][0]) if scope.get("client") else ""


def too_many(wait_seconds: int) -> Trouble:
    """429 for somebody who tries secrets."""
    return Trouble(
        429,
        "too-many-attempts",
        "Too many wrong tokens",
        "Too many wrong tokens or links came from this address.",
        f"Wait {wait_seconds} s, then use a fresh one.",
        headers={"Retry-After": str(wait_seconds)},
    )


def _secrets(
    scope: Scope, headers: Headers, is_https: bool
) -> list[tuple[str, TokenKind, Visitor]]:
    """The secret to try: a bearer token if one is sent (a cookie never rescues a wrong one)."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return [(token.strip()[:SECRET_CHARS], TokenKind.BEARER, Visitor.BEARER)]
    name = SECURE_COOKIE if is_https else COOKIE
    cookie = Request(scope).cookies.get(name)
    return [(cookie[:SECRET_CHARS], TokenKind.SESSION, Visitor.SESSION)] if cookie else []


def _is_valid(database: Database, secret: str, kind: TokenKind, now: datetime) -> bool:
    """One hash and one look-up, whatever was sent."""
    with database.read() as session:
        return tokens.is_valid(session, secret, kind, now=now)
