"""HTTP with servers that may be anybody's: every answer is bounded in size and time."""

import asyncio
from dataclasses import dataclass
from json import loads
from typing import Any

import httpx

MAX_BYTES = 8 << 20
"""An answer larger than this is no metrics page, no model list and no token list of ours."""


class TooLargeError(httpx.TransportError):
    """The answer is larger than anything we asked for."""


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status_code: int
    content: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON; ValueError when it is none, also when it is nested too deeply."""
        try:
            return loads(self.content)
        except RecursionError:
            raise ValueError("nested too deeply") from None


async def ask(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    headers: dict[str, str],
    seconds: float,
    json: Any = None,
) -> Answer:
    """One request, its answer read to the end; httpx.HTTPError when it fails, is late or too large.

    `seconds` bounds the whole exchange, so a trickling answer ends too. Redirects are not followed:
    they could lead to an address that nobody allowed.
    """
    plain = {**headers, "accept-encoding": "identity"}
    try:
        async with (
            asyncio.timeout(seconds),
            client.stream(
                method, url, headers=plain, json=json, timeout=seconds, follow_redirects=False
            ) as answer,
        ):
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise TooLargeError("the answer is compressed although plain was asked for")
            body = bytearray()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise TooLargeError(f"the answer is larger than {MAX_BYTES} bytes")
    except TimeoutError:
        raise httpx.ReadTimeout(f"no whole answer within {seconds:g} s") from None
    return Answer(answer.status_code, bytes(body))
