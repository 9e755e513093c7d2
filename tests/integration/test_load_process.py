"""The life of the load process: quick to start, easy to cancel, never left behind."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from tests.integration.test_load_faults import (
    LAST,
    THREE,
    an_order,
    event,
    finish,
    in_chunks,
    server,
)
from workers.load.client import LoadProcess, LoadProcessError
from workers.load.messages import Event

ROOT = Path(__file__).parents[2]
ENDLESS = in_chunks(event(1))[: -len(b"0\r\n\r\n")]
WORKER = """
import asyncio
from workers.load.client import LoadProcess
async def main():
    async with LoadProcess() as load:
        print(load.pid, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until(claim: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not claim() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return claim()


async def rest_of(heat: AsyncIterator[Event]) -> list[Event]:
    return [one async for one in heat]


async def test_it_ends_with_its_worker_even_when_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout
        pid = int(worker.stdout.readline())
        was_running = is_running(pid)
        worker.send_signal(signal.SIGKILL)

    assert was_running
    assert await until(lambda: not is_running(pid))


async def test_it_ends_with_the_context_and_exits_cleanly() -> None:
    async with LoadProcess() as load:
        pid, child = load.pid, load.child

    assert not is_running(pid)
    assert child is not None
    assert child.returncode == 0


async def test_its_death_is_a_clear_error_with_its_status() -> None:
    async with server(lambda _: ENDLESS, hangs=True) as port, LoadProcess() as load:
        heat = load.drive(an_order(port, seconds=60.0))
        await anext(heat)
        psutil.Process(load.pid).kill()

        with pytest.raises(LoadProcessError, match=r"died \(exit status -9\)"):
            await rest_of(heat)


async def test_driving_after_its_death_says_so() -> None:
    async with LoadProcess() as load:
        psutil.Process(load.pid).kill()
        with pytest.raises(LoadProcessError, match="died"):
            await finish(load, an_order(1))


async def test_leaving_a_heat_early_cancels_it_and_the_next_one_runs() -> None:
    async with server(lambda _: ENDLESS, hangs=True) as hung, LoadProcess() as load:
        heat = load.drive(an_order(hung, seconds=60.0))
        await anext(heat)
        await heat.aclose()
        async with server(lambda _: in_chunks(THREE, LAST)) as port:
            done = await finish(load, an_order(port))

    assert done.tokens == 3


async def test_a_second_heat_beside_a_running_one_is_refused() -> None:
    async with server(lambda _: ENDLESS, hangs=True) as port, LoadProcess() as load:
        heat = load.drive(an_order(port, seconds=60.0))
        await anext(heat)

        with pytest.raises(LoadProcessError, match="still running"):
            await finish(load, an_order(port))

        await heat.aclose()


def test_nonsense_on_stdin_is_logged_and_harms_nothing() -> None:
    lines = [b"{oops", b"[1]", b'{"op":"dance"}', b'{"op":"drive","id":"x"}', b"\xff\xfe"]
    lines += [b'{"op":"drive","id":"y","bodies":[]}', b'{"op":"cancel","id":"z"}']

    done = subprocess.run(
        [sys.executable, "-m", "workers.load"],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        cwd=ROOT,
        timeout=20,
        check=False,
    )

    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [one["event"] for one in events] == ["ready", "done"]
    assert "the drive command is wrong" in events[1]["error"]
    assert done.stderr.count(b"load: ") == 5


def test_it_imports_nothing_of_ours_and_starts_small() -> None:
    code = "import sys, resource, workers.load.__main__; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=ROOT, text=True, check=True
    )

    roots = {name.partition(".")[0] for name in done.stdout.split()}
    assert roots & {"app", "pydantic", "httpx", "anyio", "psutil", "structlog"} == set()


async def test_ctrl_c_in_the_terminal_is_left_to_the_worker() -> None:
    async with server(lambda _: in_chunks(THREE, LAST)) as port, LoadProcess() as load:
        psutil.Process(load.pid).send_signal(signal.SIGINT)
        done = await finish(load, an_order(port))

    assert done.tokens == 3
