"""Which HTTP/SSE parser and which way of reading JSON costs the load process least CPU per event.

One run, one truth server, every candidate in its own child process, one after the other, in rounds.
The least of the rounds is shown first: other jobs on the machine only ever add. Compare within a
run, not between runs.

    python -m bench.load_parser [--streams 64] [--rate 100] [--seconds 5] [--rounds 3] [--out FILE]
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httptools
import uvloop

NEEDLE = b'"completion_tokens":'


class Counted:
    """What every candidate must find out: events and the cumulative tokens."""

    def __init__(self) -> None:
        self.events = 0
        self.tokens = 0


def by_json(line: bytes, counted: Counted) -> None:
    """Parse every line."""
    if line.startswith(b"data: {"):
        counted.events += 1
        counted.tokens += json.loads(line[6:])["usage"]["completion_tokens"] > 0


def by_search(line: bytes, counted: Counted) -> None:
    """Find the number; parse only what is not an ordinary chunk."""
    if line.startswith(b"data: {"):
        counted.events += 1
        at = line.rfind(NEEDLE)
        if at > 0 and line.find(b'"finish_reason":null') > 0:
            counted.tokens += int(line[at + 20 : line.find(b"}", at)]) > 0
        else:
            by_json(line, Counted())


def by_nothing(line: bytes, counted: Counted) -> None:
    """Only count lines: what the wire and the parser cost."""
    counted.events += bool(line)


READERS = {"json": by_json, "search": by_search, "nothing": by_nothing}


def request(body: bytes) -> bytes:
    return b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


class Parsed(asyncio.Protocol):
    """Protocol + httptools; asyncio's own reads (256 KiB each)."""

    def __init__(self, body: bytes, read: Callable[[bytes, Counted], None], counted: Counted):
        self.body, self.read, self.counted = body, read, counted
        self.parser = httptools.HttpResponseParser(self)
        self.rest = b""

    def connection_made(self, transport: Any) -> None:
        transport.write(request(self.body))

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        *lines, self.rest = (self.rest + body).split(b"\n")
        for line in lines:
            if line:
                self.read(line, self.counted)


BUFFER = memoryview(bytearray(32 * 1024))


class Buffered(asyncio.BufferedProtocol):
    """BufferedProtocol + httptools with one small buffer for all streams."""

    def __init__(self, body: bytes, read: Callable[[bytes, Counted], None], counted: Counted):
        self.sink = Parsed(body, read, counted)

    def connection_made(self, transport: Any) -> None:
        self.sink.connection_made(transport)

    def get_buffer(self, hint: int) -> memoryview:
        return BUFFER

    def buffer_updated(self, count: int) -> None:
        self.sink.parser.feed_data(BUFFER[:count])


class ByHand(Buffered):
    """BufferedProtocol + the least possible chunk scanner: no trailers, no extensions, no 1xx."""

    held = b""
    has_head = False

    def buffer_updated(self, count: int) -> None:
        data = self.held + bytes(BUFFER[:count])
        at = 0
        if not self.has_head:
            at = data.find(b"\r\n\r\n") + 4
            self.has_head = at > 3
        while self.has_head and (line_end := data.find(b"\r\n", at)) > 0:
            end = line_end + 2 + int(data[at:line_end], 16)
            if end + 2 > len(data):
                break
            self.sink.on_body(data[line_end + 2 : end])
            at = end + 2
        self.held = data[at:]


def protocol(kind: Any) -> Callable[..., Any]:
    async def run(port: int, bodies: list[bytes], read: Any, counted: Counted) -> None:
        loop = asyncio.get_running_loop()
        for body in bodies:
            make = partial(kind, body, read, counted)
            await loop.create_connection(make, "127.0.0.1", port)

    return run


async def streams(port: int, bodies: list[bytes], read: Any, counted: Counted) -> None:
    """asyncio streams + httptools."""

    async def drive(body: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        sink = Parsed(body, read, counted)
        writer.write(request(body))
        while data := await reader.read(65536):
            sink.parser.feed_data(data)

    TASKS.extend(asyncio.create_task(drive(body)) for body in bodies)


async def httpx_streams(port: int, bodies: list[bytes], read: Any, counted: Counted) -> None:
    """httpx, as most clients do it."""
    import httpx

    client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))

    async def drive(body: bytes) -> None:
        url = f"http://127.0.0.1:{port}/v1/completions"
        async with client.stream("POST", url, content=body) as response:
            async for line in response.aiter_lines():
                read(line.encode(), counted)

    TASKS.extend(asyncio.create_task(drive(body)) for body in bodies)


TASKS: list[asyncio.Task[None]] = []
LOOPS: dict[str, Any] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
CANDIDATES: dict[str, tuple[str, Any, str]] = {
    "httpx streams, json": ("asyncio", httpx_streams, "json"),
    "httpx streams on uvloop, json": ("uvloop", httpx_streams, "json"),
    "asyncio streams + httptools, json": ("asyncio", streams, "json"),
    "asyncio Protocol + httptools, json": ("asyncio", protocol(Parsed), "json"),
    "asyncio BufferedProtocol + httptools, json": ("asyncio", protocol(Buffered), "json"),
    "uvloop streams + httptools, json": ("uvloop", streams, "json"),
    "uvloop Protocol + httptools, json": ("uvloop", protocol(Parsed), "json"),
    "uvloop Protocol + httptools, search": ("uvloop", protocol(Parsed), "search"),
    "uvloop BufferedProtocol + httptools, json": ("uvloop", protocol(Buffered), "json"),
    "uvloop BufferedProtocol + httptools, search": ("uvloop", protocol(Buffered), "search"),
    "uvloop BufferedProtocol + httptools, nothing": ("uvloop", protocol(Buffered), "nothing"),
    "uvloop BufferedProtocol + hand scanner, search": ("uvloop", protocol(ByHand), "search"),
}
PRODUCT = "workers.load (the product: everything counted, text kept)"


async def measure(name: str, port: int, bodies: list[bytes], seconds: float) -> None:
    """Drive one candidate in this process and print its cost."""
    counted = Counted()
    _, start, read = CANDIDATES[name]
    await start(port, bodies, READERS[read], counted)
    await asyncio.sleep(0.5)
    events, cpu, began = counted.events, time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    cpu, events = time.process_time() - cpu, counted.events - events
    took = time.monotonic() - began
    print(json.dumps({"events": events, "cpu_seconds": cpu, "seconds": took}), flush=True)
    os._exit(0)  # the streams are still open, and nobody waits for them


def make_bodies(options: argparse.Namespace, heat: str) -> list[bytes]:
    truth = {"chunks_per_second": options.rate, "heat": heat, "is_spread": options.spread}
    return [
        json.dumps({"stream": True, "truth": truth | {"stream": n}}).encode()
        for n in range(options.streams)
    ]


def measure_product(port: int, options: argparse.Namespace) -> dict[str, Any]:
    """The real load process over its real protocol; its own CPU figure, over the whole heat."""
    drive = {
        "op": "drive",
        "id": "product",
        "base_url": f"http://127.0.0.1:{port}",
        "path": "/v1/completions",
        "headers": {},
        "bodies": [json.loads(body) for body in make_bodies(options, "product")],
        "seconds": options.seconds,
        "open_deadline_s": 30.0,
        "spotlight": 0,
    }
    with subprocess.Popen(
        [sys.executable, "-m", "workers.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(drive).encode() + b"\n")
        child.stdin.flush()
        events = (json.loads(line) for line in child.stdout)
        done = next(event for event in events if event["event"] == "done")
        child.stdin.close()
    client = done["client"]
    return {"events": done["chunks"], "cpu_seconds": client["cpu_seconds"]} | {
        "seconds": done["seconds"],
        "rss_mb": client["rss_mb"],
        "loop_lag_p99_ms": client["loop_lag_p99_ms"],
    }


def run_candidate(name: str, port: int, options: argparse.Namespace) -> dict[str, Any]:
    if name == PRODUCT:
        return measure_product(port, options)
    shape = ["--streams", str(options.streams), "--rate", str(options.rate)]
    shape += ["--seconds", str(options.seconds), "--port", str(port), "--candidate", name]
    shape += [] if options.spread else ["--in-step"]
    command = [sys.executable, "-m", "bench.load_parser", *shape]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.truth_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    rows = []
    with server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        for name in [*CANDIDATES, PRODUCT] * options.rounds:
            row = {"candidate": name} | run_candidate(name, port, options)
            row["microseconds_per_event"] = row["cpu_seconds"] / max(1, row["events"]) * 1e6
            row["share_of_asked"] = row["events"] / (
                row["seconds"] * options.rate * options.streams
            )
            rows.append(row)
        server.stdin.close()
    return rows


def main() -> None:
    door = argparse.ArgumentParser(description=__doc__)
    door.add_argument("--streams", type=int, default=64)
    door.add_argument("--rate", type=float, default=100.0)
    door.add_argument("--seconds", type=float, default=5.0)
    door.add_argument("--rounds", type=int, default=3, help="the least of them is the candidate's")
    door.add_argument("--in-step", dest="spread", action="store_false")
    door.add_argument("--out", type=Path)
    door.add_argument("--port", type=int)
    door.add_argument("--candidate", choices=list(CANDIDATES))
    options = door.parse_args()
    if options.candidate:
        loop = LOOPS[CANDIDATES[options.candidate][0]]()
        bodies = make_bodies(options, options.candidate)
        loop.run_until_complete(measure(options.candidate, options.port, bodies, options.seconds))
        return
    rows = compare(options)
    for name in [*CANDIDATES, PRODUCT]:
        costs = sorted(r["microseconds_per_event"] for r in rows if r["candidate"] == name)
        print(f"{costs[0]:7.2f} .. {costs[-1]:6.2f} µs/event  {name}")
    if options.out:
        shape = {"streams": options.streams, "rate": options.rate, "is_spread": options.spread}
        options.out.write_text(json.dumps({"shape": shape, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
