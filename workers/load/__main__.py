"""`python -m workers.load`: commands come in on stdin, events go out on stdout, the log on stderr.

It lives as long as its stdin: when the worker dies, however it dies,
the pipe ends and so does this process.
"""

import asyncio
import gc
import json
import os
import signal
import sys

import uvloop

from workers.load.heat import Heat
from workers.load.messages import ClientCost, Done, Event, Gaps, Ready, to_json
from workers.load.request import split_drive


class Door(asyncio.Protocol):
    """Reads commands, starts and cancels heats, writes events."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.out: asyncio.WriteTransport | None = None
        self.heat: Heat | None = None
        self.task: asyncio.Task[None] | None = None
        self.closed = asyncio.Event()
        self.fault: BaseException | None = None
        """A mistake of ours: the process ends loudly rather than leave the worker waiting."""

    def say(self, event: Event) -> None:
        if self.out and not self.out.is_closing():
            self.out.write(to_json(event).encode("utf-8", "replace") + b"\n")

    def data_received(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole = b"".join(self.pieces) + line
            self.pieces = []
            if whole.strip():
                self.obey(whole)
        if rest:
            self.pieces.append(rest)

    def eof_received(self) -> None:
        self.closed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    def obey(self, line: bytes) -> None:
        """One command; a bad one is logged or answered, and harms nothing."""
        try:
            head, bodies = split_drive(line) if b'"drive"' in line[:200] else (json.loads(line), [])
            op, heat_id = head.get("op"), str(head.get("id", ""))
        except (ValueError, AttributeError) as error:
            log(f"a command was not understood: {error}: {line[:200]!r}")
            return
        if op == "drive":
            self.drive(head, bodies, heat_id)
        elif op == "cancel":
            if self.heat and self.heat.id == heat_id:
                self.heat.cancel()
        elif op == "exit":
            self.closed.set()
        else:
            log(f"an unknown command: {line[:200]!r}")

    def drive(self, head: dict[str, object], bodies: list[bytes], heat_id: str) -> None:
        if self.heat is not None:
            self.say(refusal(heat_id, f"heat {self.heat.id} is still running; cancel it first"))
            return
        try:
            self.heat = Heat(head, bodies, self.say)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.say(
                refusal(heat_id, f"the drive command is wrong: {type(error).__name__}: {error}")
            )
            return
        self.task = asyncio.create_task(self.run(self.heat))
        self.task.add_done_callback(self.look)

    async def run(self, heat: Heat) -> None:
        try:
            done = await heat.drive()
        finally:
            self.heat = None
        self.say(done)

    def look(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception():
            self.fault = task.exception()
            self.closed.set()


def refusal(heat_id: str, why: str) -> Done:
    """The end of a heat that never began."""
    return Done(
        id=heat_id,
        cancelled=False,
        error=why,
        source="none",
        tokens=0,
        chunks=0,
        chars=0,
        seconds=0.0,
        window=None,
        streams=(),
        itl=Gaps(None, None, None),
        client=ClientCost(0.0, 0.0, 0.0, 0.0),
    )


def log(text: str) -> None:
    sys.stderr.write(f"load: {text}\n")
    sys.stderr.flush()


async def serve() -> None:
    """Until stdin ends or somebody says exit."""
    loop = asyncio.get_running_loop()
    door = Door()
    door.out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    door.say(Ready(os.getpid()))
    await loop.connect_read_pipe(lambda: door, sys.stdin)
    await door.closed.wait()
    if door.heat:
        door.heat.cancel()
    if door.task:
        await asyncio.wait([door.task], timeout=0.5)
    if door.fault:
        raise door.fault


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker; then stdin ends
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
