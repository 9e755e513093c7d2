"""Everything bad a server can do: the load process says what it was, stays small, and lives on."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from workers.load.client import LoadProcess
from workers.load.messages import Done, Drive, WindowOpen

CERTIFICATE = Path(__file__).parents[1] / "golden" / "tls"
MAX_RSS_MB = 100
OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
UNTIL_CLOSE = OK + b"connection: close\r\n\r\n"
LAST = b"data: [DONE]\n\n"


def event(tokens: int | str, text: bytes = b"a", finish: bytes = b"null") -> bytes:
    choice = b'{"index":0,"text":"%b","finish_reason":%b}' % (text, finish)
    usage = b'{"prompt_tokens":4,"completion_tokens":%b}' % str(tokens).encode()
    return b'data: {"choices":[%b],"usage":%b}\n\n' % (choice, usage)


def in_chunks(*pieces: bytes) -> bytes:
    return CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in (*pieces, b""))


def sized(body: bytes, head: bytes = OK) -> bytes:
    return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)


THREE = event(1) + event(2) + event(3, finish=b'"length"')
REFUSED = b'{"error":{"message":"no such model"}}'

# name: (what the server sends before it closes, finish, tokens, words of the error or None)
ANSWERS: dict[str, tuple[bytes, str, int, str | None]] = {
    "chunked": (in_chunks(THREE, LAST), "length", 3, None),
    "content-length": (sized(THREE + LAST), "length", 3, None),
    "until close": (UNTIL_CLOSE + THREE + LAST, "length", 3, None),
    "no [DONE]": (in_chunks(THREE), "length", 3, None),
    "no [DONE] and cut": (CHUNKED + b"%x\r\n%b\r\n" % (len(THREE), THREE), "length", 3, None),
    "no finish reason": (in_chunks(event(1), LAST), "stop", 1, "without a finish reason"),
    "cut in mid-stream": (CHUNKED + b"ff\r\n" + event(1), "error", 1, "closed in mid-stream"),
    "nothing at all": (b"", "error", 0, "no answer"),
    "done before any token": (in_chunks(LAST), "error", 0, "before any token"),
    "an error object": (
        in_chunks(event(2), b'data: {"error":{"message":"EngineCore died"}}\n\n', LAST),
        "error",
        2,
        "EngineCore died",
    ),
    "broken JSON": (in_chunks(event(1), b"data: {oops\n\n", THREE, LAST), "length", 3, "not JSON"),
    "half a character": (in_chunks(event(1, b"\xe8\xb5"), THREE, LAST), "length", 3, None),
    "usage falls": (in_chunks(event(9), THREE, LAST), "length", 9, "usage fell from 9 to 1"),
    "usage is negative": (
        in_chunks(event(-5), THREE, LAST),
        "length",
        4,
        "completion_tokens is -5",
    ),
    "usage beyond reason": (in_chunks(event("9" * 5000), THREE, LAST), "length", 3, "not JSON"),
    "a line of 20 MB": (
        in_chunks(event(1), b"data: " + b"x" * 20_000_000 + b"\n\n", THREE, LAST),
        "length",
        3,
        "too long",
    ),
    "20 MB without a line end": (in_chunks(b"x" * 20_000_000), "error", 0, "without a finish"),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.9\r\n", "error", 0, "not valid HTTP"),
    "endless headers": (
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 90_000,
        "error",
        0,
        "headers do not end",
    ),
    "bad chunk size": (CHUNKED + b"zz\r\n", "error", 0, "not valid HTTP"),
    "404": (sized(REFUSED, b"HTTP/1.1 404 Not Found\r\n"), "error", 0, 'HTTP 404: {"error"'),
    "503 cut": (
        b"HTTP/1.1 503 Busy\r\ncontent-length: 99\r\n\r\nbusy",
        "error",
        0,
        "HTTP 503: busy",
    ),
    "500 of 20 MB": (sized(b"y" * 20_000_000, b"HTTP/1.1 500 No\r\n"), "error", 0, "HTTP 500: yyy"),
    "a redirect": (sized(b"", b"HTTP/1.1 307 Over there\r\n"), "error", 0, "HTTP 307"),
    "no stream": (
        sized(
            b'{"choices":[{"text":"hi"}]}', b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        ),
        "error",
        0,
        "without a stream",
    ),
    "100 first": (b"HTTP/1.1 100 Continue\r\n\r\n" + in_chunks(THREE, LAST), "length", 3, None),
    "carriage returns": (in_chunks(THREE.replace(b"\n", b"\r\n"), LAST), "length", 3, None),
    "cut into bytes": (in_chunks(*(bytes([b]) for b in THREE + LAST)), "length", 3, None),
    "abort": (in_chunks(event(2, finish=b'"abort"'), LAST), "error", 2, "finish_reason 'abort'"),
}


@asynccontextmanager
async def server(
    answer: Callable[[bytes], bytes], *, hangs: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Answers every connection with `answer(request head)`, then closes it (or hangs)."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(answer(head))
            await writer.drain()
            if hangs:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the load process has heard enough
        finally:
            writer.close()

    serving = await asyncio.start_server(converse, "127.0.0.1", 0, ssl=tls)
    async with serving:
        yield serving.sockets[0].getsockname()[1]


def an_order(port: int, streams: int = 1, seconds: float | None = None, **more: object) -> Drive:
    base_url = str(more.pop("base_url", f"http://127.0.0.1:{port}"))
    bodies = tuple({"prompt": "hello", "n": n} for n in range(streams))
    deadline = float(str(more.pop("open_deadline_s", 10.0)))
    return Drive(
        "h", base_url, "/v1/completions", bodies, seconds=seconds, open_deadline_s=deadline
    )


async def finish(load: LoadProcess, order: Drive) -> Done:
    last = [event async for event in load.drive(order)][-1]
    assert isinstance(last, Done)
    return last


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_is_judged_and_the_process_lives(name: str) -> None:
    raw, how, tokens, words = ANSWERS[name]

    async with server(lambda _: raw) as port, LoadProcess() as load:
        done = await finish(load, an_order(port))
        again = await finish(load, an_order(port))

    stream = done.streams[0]
    assert (stream.finish, stream.tokens) == (how, tokens)
    assert (stream.error is None) == (words is None), stream.error
    assert (words or "") in (stream.error or "")
    assert again.streams[0].finish == how
    assert done.client.rss_mb < MAX_RSS_MB
    assert again.client.rss_mb < MAX_RSS_MB


async def test_64_streams_of_endless_lines_stay_under_the_memory_limit() -> None:
    flood = in_chunks(*[b"data: " + b"x" * 3_000_000] * 3)

    async with server(lambda _: flood) as port, LoadProcess() as load:
        done = await finish(load, an_order(port, streams=64))

    assert {one.finish for one in done.streams} == {"error"}
    assert done.client.rss_mb < MAX_RSS_MB


async def test_a_refused_connection_names_the_address() -> None:
    async with server(lambda _: b"") as port:
        pass

    async with LoadProcess() as load:
        done = await finish(load, an_order(port, streams=2, seconds=5.0))

    assert f"cannot connect to 127.0.0.1:{port}" in str(done.streams[0].error)
    assert "2 of 2 streams failed" in str(done.error)


async def test_an_address_that_is_none_is_refused_at_once() -> None:
    async with LoadProcess() as load:
        done = await finish(load, an_order(0, base_url="ftp://x"))

    assert "no http:// or https:// address" in str(done.error)


async def test_a_server_that_never_answers_is_left_at_the_deadline() -> None:
    async with server(lambda _: b"", hangs=True) as port, LoadProcess() as load:
        done = await finish(load, an_order(port, streams=2, seconds=5.0, open_deadline_s=0.3))

    assert done.error == "2 of 2 streams had no token after 0.3 s"
    assert done.window is None
    assert done.seconds < 3


async def test_a_server_that_hangs_after_some_tokens_ends_with_the_plan() -> None:
    async with (
        server(lambda _: CHUNKED + in_chunks(event(1))[len(CHUNKED) : -5], hangs=True) as port,
        LoadProcess() as load,
    ):
        done = await finish(load, an_order(port, streams=2, seconds=0.3))

    assert [one.finish for one in done.streams] == ["aborted", "aborted"]
    assert done.window is not None
    assert done.window.tokens == 0


async def test_cancel_closes_all_streams_at_once() -> None:
    async with (
        server(lambda _: CHUNKED + in_chunks(event(1))[len(CHUNKED) : -5], hangs=True) as port,
        LoadProcess() as load,
    ):
        events = []
        async for one in load.drive(an_order(port, streams=3, seconds=60.0)):
            events.append(one)
            if isinstance(one, WindowOpen):
                await load.cancel()

    done = events[-1]
    assert isinstance(done, Done)
    assert done.cancelled
    assert {one.finish for one in done.streams} == {"aborted"}
    assert done.seconds < 2


async def test_https_works_with_a_trusted_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE / "cert.pem", CERTIFICATE / "key.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE / "cert.pem"))

    async with server(lambda _: in_chunks(THREE, LAST), tls=tls) as port, LoadProcess() as load:
        done = await finish(load, an_order(port, base_url=f"https://localhost:{port}"))

    assert (done.error, done.tokens) == (None, 3)


async def test_https_refuses_a_certificate_nobody_trusts(monkeypatch: pytest.MonkeyPatch) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE / "cert.pem", CERTIFICATE / "key.pem")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)

    async with server(lambda _: in_chunks(THREE, LAST), tls=tls) as port, LoadProcess() as load:
        done = await finish(load, an_order(port, base_url=f"https://localhost:{port}"))

    assert "certificate" in str(done.streams[0].error).lower()


async def test_the_request_is_exactly_what_was_ordered() -> None:
    heads: list[bytes] = []

    def answer(head: bytes) -> bytes:
        heads.append(head)
        return in_chunks(THREE, LAST)

    order = an_order(0)
    async with server(answer) as port, LoadProcess() as load:
        order = Drive(
            "h",
            f"http://127.0.0.1:{port}/prefix/",
            "/v1/completions",
            order.bodies,
            headers={"Authorization": "Bearer k"},
        )
        await finish(load, order)

    length = len(json.dumps(order.bodies[0], separators=(",", ":")))
    assert heads[0].startswith(b"POST /prefix/v1/completions HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"authorization: Bearer k\r\n" in heads[0]
    assert b"content-length: %d\r\n" % length in heads[0]
