"""What the shim's tests share: living processes, and waiting for a condition with a deadline."""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

FAKE_ENGINE = Path(__file__).with_name("fake_engine.py")
FAKE_WORKER = Path(__file__).with_name("fake_worker.py")
PIDS_OF_MODE = {"plain": 1, "deaf": 1, "family": 3, "daemon": 2, "wiped": 2, "closed": 1, "dead": 2}


def fake_argv(mode: str, folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    return [sys.executable, str(FAKE_ENGINE), mode, str(folder)]


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def pids_in(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.iterdir()} if folder.exists() else set()


def alive_in(folder: Path) -> set[int]:
    return {pid for pid in pids_in(folder) if is_alive(pid)}


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> float:
    """Seconds until `condition` held; AssertionError when it never did."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, "the condition never held"
        time.sleep(0.005)
    return time.monotonic() - begun


async def until(condition: Callable[[], object], seconds: float = 20.0) -> float:
    """The same for coroutines."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, "the condition never held"
        await asyncio.sleep(0.005)
    return time.monotonic() - begun
