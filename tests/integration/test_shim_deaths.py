"""Whoever is killed with SIGKILL, and whatever the engine does: no descendant stays alive."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.shim_helpers import (
    FAKE_WORKER,
    PIDS_OF_MODE,
    alive_in,
    fake_argv,
    is_alive,
    pids_in,
    until,
    wait_until,
)
from workers.launchers.base import Exit
from workers.launchers.process import ProcessLauncher

PROMISE_SECONDS = 2.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def worker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A worker whose fake engine runs (all of its processes)."""
    (tmp_path / "pids").mkdir()
    process = subprocess.Popen(
        [sys.executable, str(FAKE_WORKER), request.param, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        wait_until(lambda: len(pids_in(tmp_path / "pids")) == PIDS_OF_MODE[request.param])
        wait_until((tmp_path / "up").exists)
        yield process
    finally:
        process.kill()
        process.wait()
        for pid in alive_in(tmp_path / "pids"):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("worker", PIDS_OF_MODE, indirect=True)
def test_a_killed_worker_leaves_no_process_behind(
    worker: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    shims = [child.pid for child in psutil.Process(worker.pid).children()]

    worker.kill()
    worker.wait()
    seconds = wait_until(
        lambda: not alive_in(tmp_path / "pids") and not any(is_alive(pid) for pid in shims)
    )

    assert seconds < PROMISE_SECONDS


@pytest.mark.parametrize("mode", ["plain", "deaf", "family", "daemon", "wiped", "closed"])
async def test_stop_returns_when_nothing_is_left(mode: str, tmp_path: Path) -> None:
    server = await ProcessLauncher().start(fake_argv(mode, tmp_path / "pids"), {}, tmp_path / "r")
    await until(lambda: len(pids_in(tmp_path / "pids")) == PIDS_OF_MODE[mode])
    seen = server.pids()

    await server.stop(grace_seconds=0.2)

    assert seen == pids_in(tmp_path / "pids")
    assert alive_in(tmp_path / "pids") == set()
    assert server.pids() == frozenset()
    assert server.exited() is not None


async def test_an_engine_that_dies_at_once_is_reported_and_its_child_collected(
    tmp_path: Path,
) -> None:
    server = await ProcessLauncher().start(fake_argv("dead", tmp_path / "pids"), {}, tmp_path / "r")

    await until(lambda: server.exited() is not None)
    await until(lambda: not alive_in(tmp_path / "pids"))

    assert server.exited() == Exit(code=3)
    await server.stop(grace_seconds=0)


@pytest.mark.parametrize("mode", ["plain", "family", "daemon", "wiped"])
async def test_a_killed_shim_is_noticed_and_its_tree_swept(mode: str, tmp_path: Path) -> None:
    server = await ProcessLauncher().start(fake_argv(mode, tmp_path / "pids"), {}, tmp_path / "r")
    await until(lambda: len(pids_in(tmp_path / "pids")) == PIDS_OF_MODE[mode])
    assert len(server.pids()) == PIDS_OF_MODE[mode]
    shim = psutil.Process(server.pid).ppid()

    os.kill(shim, signal.SIGKILL)
    await until(lambda: server.exited() is not None)
    await server.stop(grace_seconds=0.2)

    assert server.exited() == Exit(code=None)
    assert alive_in(tmp_path / "pids") == set()


async def test_a_killed_shim_takes_the_engines_first_process_with_it(tmp_path: Path) -> None:
    server = await ProcessLauncher().start(
        fake_argv("plain", tmp_path / "pids"), {}, tmp_path / "r"
    )
    await until(lambda: pids_in(tmp_path / "pids"))

    os.kill(psutil.Process(server.pid).ppid(), signal.SIGKILL)
    seconds = await until(lambda: not alive_in(tmp_path / "pids"))

    assert seconds < PROMISE_SECONDS
    await server.stop(grace_seconds=0)
