"""Answers of strangers are bounded in size and time."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx
import pytest

from workers import http


class Endless(httpx.AsyncByteStream):
    """A body without end."""

    def __init__(self, pause_seconds: float = 0) -> None:
        self._pause = pause_seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(self._pause)
            yield b"x" * 65_536


async def ask(answer: httpx.Response, seconds: float = 5) -> http.Answer:
    """One GET to a server that answers this."""
    transport = httpx.MockTransport(lambda _: answer)
    async with httpx.AsyncClient(transport=transport) as client:
        return await http.ask(client, "GET", "http://x/", headers={}, seconds=seconds)


async def test_a_plain_answer_is_read_whole() -> None:
    answer = await ask(httpx.Response(200, json={"a": 1}))

    assert (answer.status_code, answer.json()) == (200, {"a": 1})


async def test_an_endless_answer_ends_at_the_limit() -> None:
    with pytest.raises(http.TooLargeError, match="larger than"):
        await ask(httpx.Response(200, stream=Endless()))


async def test_a_trickling_answer_ends_at_the_deadline() -> None:
    with pytest.raises(httpx.ReadTimeout, match="no whole answer"):
        await ask(httpx.Response(200, stream=Endless(pause_seconds=0.02)), seconds=0.05)


async def test_a_compressed_answer_is_refused_unread() -> None:
    packed = httpx.Response(
        200, headers={"content-encoding": "gzip"}, content=gzip.compress(b"0" * 1000)
    )

    with pytest.raises(http.TooLargeError, match="compressed"):
        await ask(packed)


async def test_redirects_are_not_followed() -> None:
    answer = await ask(httpx.Response(302, headers={"location": "http://169.254.169.254/"}))

    assert answer.status_code == 302


async def test_json_nested_too_deeply_is_no_json() -> None:
    with pytest.raises(ValueError, match="deeply"):
        http.Answer(200, b"[" * 100_000).json()
