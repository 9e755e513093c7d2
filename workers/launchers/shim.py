"""The shim: the parent of one engine, which outlives a killed worker just long enough to clean up.

    worker --stdin: commands; its end is the death pipe--> shim --fork--> engine, and what it forks
           <--stdout: what happened-----------------------

It is a session leader and the *child subreaper*: a process whose parent dies becomes the shim's
own child, be it double-forked, in another session, or stripped of its environment. So the end is
exact: a shim without children has no descendants. Only the standard library, started by path, so
that it is up in some 30 ms.

    in:  {"argv": […], "env": {…}, "log": PATH, "log_limit_bytes": N}   the first line
         {"op": "stop", "grace_seconds": S}      SIGTERM once, grace, SIGKILL until none is left
         end of file                             the worker is dead: the same, with a short grace
    out: {"event": "started", "pid": N} | {"event": "failed", "error": "…"}
         {"event": "exit", "code": N|null, "signal": N|null}     the engine's first process ended
         {"event": "gone"}                       nothing is left; the shim ends
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, BinaryIO

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ORPHANED_GRACE_SECONDS = 0.5  # after the worker's death; everything is gone within 2 s
LINGER_SECONDS = 2.0  # for the rest of the tree once the engine's first process has ended
KILL_ROUND_SECONDS = 0.02
READ_BYTES = 65_536
AUTOGROUP = Path("/proc/self/autogroup")
AUTOGROUP_NICE = "10"
LIBC = ctypes.CDLL(None, use_errno=True)  # loaded here, since a forked child should not import


def main() -> int:
    """Run one engine as told by the first line of stdin."""
    become_reaper()
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    received = b""
    while b"\n" not in received:
        chunk = os.read(0, READ_BYTES)  # unbuffered: the next command may come right behind
        if not chunk:
            return 0
        received += chunk
    order, _, behind = received.partition(b"\n")
    return Shim(json.loads(order), behind).run()


def become_reaper() -> None:
    """Own session; orphans of the tree below become this process's children."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    if sys.platform == "linux":
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        yield_to_readers()


def yield_to_readers() -> None:
    """Let whoever reads the engine's tokens wake in time, where engine and reader share cores.

    With session autogroups a busy CPU engine kept its readers, in another session, from running
    for up to 2.1 s of a heat of 2.2 s; at autogroup nice 10 the longest gap was 8 ms (measured,
    docs/engines-cpu.md). Lowering needs no right; where there are no autogroups nothing happens.
    """
    with contextlib.suppress(OSError):
        AUTOGROUP.write_text(AUTOGROUP_NICE, encoding="ascii")


def descendants(root: int) -> list[int]:
    """Living processes below `root`, parents first; zombies are not alive."""
    children: dict[int, list[int]] = defaultdict(list)
    states: dict[int, str] = {}
    for pid, parent, state in _processes():
        children[parent].append(pid)
        states[pid] = state
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children[waiting.pop()]
        found += below
        waiting += below
    return [pid for pid in found if states[pid] not in "ZX"]


class Shim:
    """One engine's life: started, watched, stopped, and its whole tree gone."""

    def __init__(self, order: dict[str, Any], behind: bytes = b"") -> None:
        self.argv: list[str] = order["argv"]
        self.env: dict[str, str] = order["env"]
        self.log = Log(Path(order["log"]), int(order["log_limit_bytes"]))
        self.selector = selectors.DefaultSelector()
        self.engine: subprocess.Popen[bytes] | None = None
        self.is_engine_alive = False
        self.has_children = True
        self.is_asked_to_stop = False
        self.kill_at: float | None = None
        self.commands = behind

    def run(self) -> int:
        """Start the engine, and return when nothing of it is left."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _note)
        signal.signal(signal.SIGTERM, lambda *_: self.stop(ORPHANED_GRACE_SECONDS))
        if not self.start():
            return 1
        self.selector.register(wake_read, selectors.EVENT_READ, self.drain)
        self.selector.register(0, selectors.EVENT_READ, self.read_command)
        self.obey()
        while self.has_children or self.is_engine_alive:
            for key, _ in self.selector.select(self.patience()):
                key.data(key.fd)
            self.reap()
            self.kill_when_due()
        self.log.close()
        report({"event": "gone"})
        return 0

    def start(self) -> bool:
        """Start the engine; its output goes through a pipe, so that its log can be bounded."""
        try:
            self.engine = subprocess.Popen(
                self.argv,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=_die_with_parent,  # the shim has one thread
            )
        except (OSError, ValueError) as error:
            report({"event": "failed", "error": str(error)})
            return False
        self.is_engine_alive = True
        assert self.engine.stdout is not None
        os.set_blocking(self.engine.stdout.fileno(), False)
        self.selector.register(self.engine.stdout, selectors.EVENT_READ, self.copy_log)
        report({"event": "started", "pid": self.engine.pid})
        return True

    def patience(self) -> float | None:
        """How long to sleep: for ever while nothing is due, since every event wakes us."""
        if self.kill_at is None:
            return None
        return max(KILL_ROUND_SECONDS, self.kill_at - time.monotonic())

    def stop(self, grace_seconds: float) -> None:
        """SIGTERM to the engine's first process, once: vLLM heeds no second one."""
        self.kill_within(grace_seconds)
        if self.engine is not None and self.is_engine_alive and not self.is_asked_to_stop:
            os.kill(self.engine.pid, signal.SIGTERM)
        self.is_asked_to_stop = True

    def kill_within(self, seconds: float) -> None:
        """Set the moment of SIGKILL, or bring it forward."""
        due = time.monotonic() + seconds
        self.kill_at = due if self.kill_at is None else min(self.kill_at, due)

    def kill_when_due(self) -> None:
        """SIGKILL everything below; called until none is left, since orphans surface late."""
        if self.kill_at is None or time.monotonic() < self.kill_at:
            return
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended by itself in between

    def reap(self) -> None:
        """Collect ended children, ours and adopted, and note the engine's end."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.has_children = False
                return
            if pid == 0:
                self.has_children = True
                return
            if self.engine is not None and pid == self.engine.pid and self.is_engine_alive:
                self.note_exit(status)

    def note_exit(self, status: int) -> None:
        """The engine's first process ended; the rest of its tree may linger a moment."""
        assert self.engine is not None
        code = os.waitstatus_to_exitcode(status)
        self.engine.returncode = code
        self.is_engine_alive = False
        self.copy_log(-1)
        self.kill_within(LINGER_SECONDS)
        report(
            {
                "event": "exit",
                "code": code if code >= 0 else None,
                "signal": -code if code < 0 else None,
            }
        )

    def read_command(self, fd: int) -> None:
        """One or more lines from the worker, or the end of it."""
        chunk = os.read(fd, READ_BYTES)
        if not chunk:
            self.selector.unregister(fd)
            self.stop(ORPHANED_GRACE_SECONDS)
            return
        self.commands += chunk
        self.obey()

    def obey(self) -> None:
        """Do what the whole lines say; there is one command."""
        *lines, self.commands = self.commands.split(b"\n")
        for line in lines:
            self.stop(float(json.loads(line)["grace_seconds"]))

    def copy_log(self, _: int) -> None:
        """Move what the engine printed into the bounded log, at most 4 MiB in one turn."""
        assert self.engine is not None
        assert self.engine.stdout is not None
        if self.engine.stdout.closed:
            return
        for _round in range(64):
            try:
                chunk = os.read(self.engine.stdout.fileno(), READ_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                # It closed its output, which says nothing about whether it lives.
                self.selector.unregister(self.engine.stdout)
                self.engine.stdout.close()
                return
            self.log.write(chunk)

    def drain(self, fd: int) -> None:
        """Empty the pipe that signals wake us by."""
        try:
            while os.read(fd, READ_BYTES):
                pass
        except BlockingIOError:
            pass  # empty again


class Log:
    """A log file that keeps its tail: at half the limit it becomes FILE.1 and a new one begins."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.path = path
        self.half_bytes = max(1, limit_bytes // 2)
        self.file: BinaryIO = path.open("wb", buffering=0)
        self.size_bytes = 0

    def write(self, chunk: bytes) -> None:
        """Append; a full disk loses log lines, never the engine."""
        try:
            if self.size_bytes >= self.half_bytes:
                self.file.close()
                self.path.replace(f"{self.path}.1")
                self.file = self.path.open("wb", buffering=0)
                self.size_bytes = 0
            self.file.write(chunk)
            self.size_bytes += len(chunk)
        except (OSError, ValueError):
            pass  # the pipe must still be drained, or the engine blocks on its next line

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def report(event: dict[str, Any]) -> None:
    """Tell the worker, if there still is one."""
    try:
        os.write(1, json.dumps(event).encode() + b"\n")
    except OSError:
        pass  # the worker is dead; the death pipe says so too


def _processes() -> list[tuple[int, int, str]]:
    """(pid, parent, state) of every process on this host."""
    if not Path("/proc/self/stat").exists():
        return _processes_by_ps()
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208  # called in a tight loop
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:  # noqa: PTH123
                stat = file.read()
        except OSError:
            continue  # it ended while we looked
        state, parent = stat.rpartition(b")")[2].split()[:2]
        found.append((int(entry), int(parent), state.decode()))
    return found


def _processes_by_ps() -> list[tuple[int, int, str]]:
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=False
    )
    rows = (line.split() for line in listing.stdout.splitlines())
    return [(int(row[0]), int(row[1]), row[2][:1]) for row in rows if len(row) == 3]


def _die_with_parent() -> None:
    if sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _prctl(option: int, value: int) -> None:
    if LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _note(*_: object) -> None:
    """The wakeup pipe does the work; a handler must exist for it to be written."""


if __name__ == "__main__":
    sys.exit(main())
