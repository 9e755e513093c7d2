"""The worker's side of the load process: start it, drive heats through it,
never outlive or orphan it.

    async with LoadProcess() as load:
        async for event in load.drive(Drive(...)):
            ...

The child lives as long as its stdin, so it ends with the worker even when the worker is killed.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType

from workers.load.messages import Done, Drive, Event, Ready, from_json

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""A `done` names every stream: about 400 bytes each."""
READY_SECONDS = 20.0
EXIT_SECONDS = 2.0
CANCEL_SECONDS = 5.0
STDERR_LINES = 20
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "TZ")
"""The child needs no more of our environment, and keys never belong in it."""


class LoadProcessError(Exception):
    """The load process could not be started, died, or spoke nonsense;
    says so with its last words."""


class LoadProcess:
    """One child process that drives heats, one at a time."""

    def __init__(self) -> None:
        self.child: asyncio.subprocess.Process | None = None
        self.stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self.listener: asyncio.Task[None] | None = None
        self.heat_id: str | None = None
        self.pid = 0

    async def __aenter__(self) -> "LoadProcess":
        self.child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "workers.load",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_EVENT_BYTES,
            env=child_environment(),
        )
        self.listener = asyncio.create_task(self._listen_to_stderr())
        try:
            first = await asyncio.wait_for(self._next_event(), READY_SECONDS)
        except TimeoutError:
            await self._end()
            raise self._failure(f"did not get ready within {READY_SECONDS:g} s") from None
        except BaseException:
            await self._end()
            raise
        if not isinstance(first, Ready):
            await self._end()
            raise self._failure(f"began with {first!r}")
        self.pid = first.pid
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.shield(self._end())

    async def drive(self, order: Drive) -> AsyncGenerator[Event, None]:
        """Drive one heat and yield its events; the last one is its Done.

        Leaving early cancels the heat, so that the next one finds the process free.
        """
        if self.heat_id is not None:
            raise LoadProcessError(f"heat {self.heat_id} is still running; cancel it first")
        self.heat_id = order.id
        try:
            await self._write(order.to_json())
            while True:
                event = await self._next_event()
                if isinstance(event, Ready) or event.id != order.id:
                    continue  # the rest of a heat that was left early
                if isinstance(event, Done):
                    self.heat_id = None
                yield event
                if isinstance(event, Done):
                    return
        finally:
            if self.heat_id is not None:
                await self._abandon(order.id)

    async def cancel(self) -> None:
        """Close all streams of the heat that runs; its Done follows. Nothing when none runs."""
        if self.heat_id is not None:
            await self._write(json.dumps({"op": "cancel", "id": self.heat_id}))

    async def _abandon(self, heat_id: str) -> None:
        """Cancel a heat nobody listens to any more, and wait until it is over."""
        with contextlib.suppress(LoadProcessError, TimeoutError):
            await self.cancel()
            async with asyncio.timeout(CANCEL_SECONDS):
                while True:
                    event = await self._next_event()
                    if isinstance(event, Done) and event.id == heat_id:
                        break
        self.heat_id = None

    async def _write(self, line: str) -> None:
        stdin = self._running().stdin
        assert stdin is not None
        try:
            stdin.write(line.encode() + b"\n")
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise await self._death() from None

    async def _next_event(self) -> Event:
        stdout = self._running().stdout
        assert stdout is not None
        line = await stdout.readline()
        if not line.endswith(b"\n"):
            raise await self._death()
        try:
            return from_json(line)
        except (ValueError, TypeError, KeyError) as error:
            raise self._failure(f"wrote what is no event: {error}") from error

    async def _listen_to_stderr(self) -> None:
        stderr = self._running().stderr
        assert stderr is not None
        while line := await stderr.readline():
            self.stderr.append(line.decode("utf-8", "replace").rstrip())

    async def _death(self) -> LoadProcessError:
        """The error for a child that is gone, with its exit status and last words."""
        child, listener = self._running(), self.listener
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_SECONDS):
                await child.wait()
                if listener:
                    await listener
        return self._failure(f"died (exit status {child.returncode})")

    def _running(self) -> asyncio.subprocess.Process:
        if self.child is None:
            raise LoadProcessError("not started; use `async with LoadProcess()`")
        return self.child

    def _failure(self, what: str) -> LoadProcessError:
        words = "\n".join(self.stderr)
        return LoadProcessError(f"the load process {what}; the heat must be driven again. {words}")

    async def _end(self) -> None:
        """Ask, then kill; afterwards there is no child."""
        child = self._running()
        if child.stdin:
            child.stdin.close()
        try:
            await asyncio.wait_for(child.wait(), EXIT_SECONDS)
        except TimeoutError:
            child.kill()
            await child.wait()
        if self.listener:
            await self.listener
        self.heat_id = None


def child_environment() -> dict[str, str]:
    """A small environment in which `workers` can be imported from wherever we stand."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return kept | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
