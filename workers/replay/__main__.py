"""`python -m workers.replay`: one lane of a published or recorded race, served like a vLLM.
Starts, logs, stops; no more.

It says on /version, /v1/models and /replay that it is a replay, and whose measurement it plays.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from app.domain.errors import SlipstreamError
from workers.replay.ask import Served
from workers.replay.book import Book, open_book
from workers.replay.faults import Armed, parse_faults
from workers.replay.server import Server, Settings, write_log

BACKLOG = 1024
SHUTDOWN_GRACE_SECONDS = 0.2  # for the last bytes to leave


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        faults = parse_faults(options.faults)
        if "refuse_flags" in faults:
            parser.error(f"unrecognized arguments: {faults['refuse_flags']['flag']}")
        book = open_book(options.race, options.lane)
    except SlipstreamError as error:
        parser.error(str(error))
    if "fork_child" in faults:
        _leave_grandchild(float(faults["fork_child"]["seconds"]))
    runner: Callable[[Coroutine[Any, Any, int]], int] = asyncio.run
    with contextlib.suppress(ImportError):
        import uvloop

        runner = uvloop.run
    return runner(_serve(options, book, faults))


async def _serve(options: argparse.Namespace, book: Book, faults: Armed) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        is_deaf = number == signal.SIGTERM and "ignore_sigterm" in faults
        loop.add_signal_handler(number, (lambda: None) if is_deaf else stop.set)
    write_log("INFO [api_utils.py:347] slipstream-replay: this is a REPLAY, not a model")
    write_log(
        f"INFO [api_utils.py:286] race: {book.race_id}, lane: {book.lane}, "
        f"source: {book.source.get('title')}"
    )
    with _bind(options.host, options.port) as listener:
        if not await _load(options.load_seconds, faults, stop):
            return 1 if not stop.is_set() else 0
        server = Server(book, _settings(options), faults, write_log)
        door = await loop.create_server(server.connect, sock=listener, backlog=BACKLOG)
        sys.stdout.write(
            f"INFO:     Started server process [{os.getpid()}]\n"
            "INFO:     Waiting for application startup.\n"
            "INFO:     Application startup complete.\n"
        )
        sys.stdout.flush()
        reporter = asyncio.create_task(_report(server))
        await stop.wait()
        write_log("INFO [launcher.py:254] [shutdown] API server: shutdown triggered")
        reporter.cancel()
        await _close(server, door)
    return 0


async def _load(seconds: float, faults: Armed, stop: asyncio.Event) -> bool:
    """Pretend to load weights; False when it never gets ready."""
    write_log("INFO [gpu_model_runner.py:4500] Starting to load model...")
    if "exit_start" in faults:
        sys.stdout.write(f"{faults['exit_start']['line']}\n")
        sys.stdout.flush()
        os._exit(int(faults["exit_start"]["exit_code"]))
    pause = None if "hang_start" in faults else seconds
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), pause)
        return False
    write_log(f"INFO [gpu_model_runner.py:4530] Model loading took {seconds:.2f} seconds")
    return True


async def _close(server: Server, door: asyncio.Server) -> None:
    """No new clients, an error to those who wait, a moment for the last bytes, then all closed."""
    door.close()
    server.end_streams()
    deadline = time.monotonic() + SHUTDOWN_GRACE_SECONDS
    for connection in list(server.connections):
        connection.transport.close()
    while server.connections and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    for connection in list(server.connections):
        connection.transport.abort()


async def _report(server: Server) -> None:
    """vLLM's line every 10 s while there is work."""
    seen = (0, 0)
    while True:
        await asyncio.sleep(10)
        counted, gauges = server.player.counters, server.player.gauges()
        now = (counted.prompt_tokens, counted.generation_tokens)
        if now != seen:
            write_log(
                "INFO [loggers.py:335] Engine 000: "
                f"Avg prompt throughput: {(now[0] - seen[0]) / 10:.1f} tokens/s, "
                f"Avg generation throughput: {(now[1] - seen[1]) / 10:.1f} tokens/s, "
                f"Running: {gauges.running} reqs, Waiting: {gauges.waiting} reqs"
            )
        seen = now


def _bind(host: str, port: int) -> socket.socket:
    """Bound before the load, as vLLM does: a port in use is known at once, and answers nobody
    until ready.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        sys.stdout.write(f"OSError: [Errno {error.errno}] {os.strerror(error.errno or 0)}\n")
        sys.stdout.flush()
        raise SystemExit(1) from error
    listener.setblocking(False)
    return listener


def _leave_grandchild(seconds: float) -> None:
    """A process in its own session that ignores SIGTERM, adopted by whoever reaps orphans."""
    if os.fork() != 0:
        os.wait()
        return
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(seconds)
    os._exit(0)


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        served=Served(options.served_model_name, options.max_model_len),
        race=options.race,
        seed=options.seed,
        heat_noise=options.heat_noise,
        workload=options.workload,
        control_token=options.control_token,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slipstream-replay", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "--race", required=True, help="FILE[#RACE_ID] of published/, or a result.json"
    )
    parser.add_argument("--lane", required=True)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--seed", default=7, type=int)
    parser.add_argument("--max-model-len", default=262_144, type=int, help="tokens")
    parser.add_argument("--load-seconds", default=0.3, type=float)
    parser.add_argument(
        "--heat-noise", default=0.001, type=float, help="relative spread of speed from heat to heat"
    )
    parser.add_argument("--workload", help="the workload to play where a request names none")
    parser.add_argument("--faults", default="{}", help="JSON, see workers/replay/faults.py")
    parser.add_argument("--control-token", help="opens POST /replay/faults to this bearer token")
    return parser


if __name__ == "__main__":
    sys.exit(main())
