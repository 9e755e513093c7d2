"""What every response says to the browser: what may run, who may frame, who may keep it.
One middleware, so that no handler can forget."""

import base64
import hashlib
import re
from functools import cache

from starlette.datastructures import URL, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web import render

EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""plotly.js adds an empty <style> and fills it through CSSOM: the hash of nothing allows that."""
YEAR_SECONDS = 31_536_000

_EMBED = re.compile(r"^/e/[^/]+$")
_SHARED = re.compile(r"^/(e|r)/[^/]+$|^/static/")

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    # not no-referrer: that makes browsers send `Origin: null` with our own forms
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class ResponseHeaders:
    """Adds what a response does not say itself; the policies are the same for every handler."""

    def __init__(self, app: ASGIApp, *, is_https: bool = False) -> None:
        self._app = app
        self._is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request through with a `send` that completes the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                complete(MutableHeaders(scope=message), scope, is_https=self._is_https)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def complete(headers: MutableHeaders, scope: Scope, *, is_https: bool) -> None:
    """Add the policies of this path to a response."""
    path = scope["path"]
    headers.update(_ALWAYS)
    headers["Content-Security-Policy"] = policy(is_embed=bool(_EMBED.match(path)))
    if not _SHARED.match(path):
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
    if is_https:
        headers["Strict-Transport-Security"] = f"max-age={YEAR_SECONDS}"
    headers.setdefault("Cache-Control", _caching(scope))


@cache
def policy(*, is_embed: bool = False) -> str:
    """The Content-Security-Policy. Embeds may be framed by anybody and run no script at all."""
    scripts = "'none'" if is_embed else f"'self' {script_hash(render.THEME_SNIPPET)}"
    rules = {
        "default-src": "'none'",
        "script-src": scripts,
        "style-src": f"'self' {EMPTY_STYLE}",
        "img-src": "'self' data: blob:",
        "connect-src": "'none'" if is_embed else "'self'",
        "font-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "*" if is_embed else "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def script_hash(text: str) -> str:
    """How a policy names an inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _caching(scope: Scope) -> str:
    if scope["path"].startswith("/static/"):
        versioned = "v=" in URL(scope=scope).query
        return f"public, max-age={YEAR_SECONDS}, immutable" if versioned else "no-cache"
    return "no-store"
