"""Starts an engine as a process of this host, under a shim that leaves nothing behind.

Knows no engine. Who cleans up when somebody is killed with SIGKILL:

    the engine  -> the shim: it collects the rest of the tree and reports the exit
    the worker  -> the shim: its death pipe closes, and everything is gone within 2 s
    the shim    -> the kernel kills the engine's first process (PR_SET_PDEATHSIG); the worker
                   sweeps the rest: found by session, by SLIPSTREAM_LAUNCH in the environment,
                   and by the pids it has seen below the shim
    shim and worker at the same moment -> the kernel, but only the first process. That is
                   the limit: nobody is left to do more
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from app.domain.errors import LaunchError
from workers.launchers.base import Exit, Server
from workers.launchers.shim import descendants
from workers.log_tail import LogTail

LOG_NAME = "engine.log"
LOG_LIMIT_BYTES = 64 << 20
MARKER = "SLIPSTREAM_LAUNCH"
START_SECONDS = 20.0  # for the shim to start the first process; it takes 50 ms
KILL_SECONDS = (
    30.0  # beyond the grace, for SIGKILL to be obeyed (a process in the driver takes a while)
)
POLL_SECONDS = 0.02
SWEEP_ROUNDS = 250

BASE_ENV = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SHELL",
        "VIRTUAL_ENV", "PYTHONPATH", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD",
        "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
        "CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
        "TRITON_PTXAS_PATH", "TRITON_CACHE_DIR", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR",
        "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "VLLM_CACHE_ROOT",
        "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_TOKEN", "HF_HUB_OFFLINE",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    }
)  # fmt: skip
"""What an engine inherits from the worker: where things lie. No setting or key of Slipstream's."""


class ProcessLauncher:
    """Starts a server on this host."""

    async def start(self, argv: Sequence[str], env: dict[str, str], work_dir: Path) -> Server:
        """Start it below a shim, its log in work_dir; LaunchError when it cannot be run."""
        server = ProcessServer(argv, env, work_dir)
        try:
            await server.wait_started(START_SECONDS)
        except BaseException:
            await asyncio.shield(server.stop(0))
            raise
        return server


class ProcessServer:
    """A server below its shim. Not thread-safe; every method but `stop` returns at once."""

    def __init__(self, argv: Sequence[str], env: dict[str, str], work_dir: Path) -> None:
        work_dir.mkdir(parents=True, exist_ok=True)
        self.started_at = time.time()
        self._id = uuid.uuid4().hex
        self._argv = list(argv)
        self._log = LogTail(work_dir / LOG_NAME)
        self._pid: int | None = None
        self._exit: Exit | None = None
        self._error: str | None = None
        self._is_gone = False
        self._is_told_to_stop = False
        self._seen: dict[int, float] = {}
        self._unread = b""
        self._shim = _spawn_shim(work_dir)
        self._send(
            {
                "argv": self._argv,
                "env": {**base_env(), **env, MARKER: self._id},
                "log": str(work_dir / LOG_NAME),
                "log_limit_bytes": LOG_LIMIT_BYTES,
            }
        )

    @property
    def pid(self) -> int | None:
        """Pid of the engine's first process."""
        self._listen()
        return self._pid

    async def wait_started(self, timeout_seconds: float) -> None:
        """Return when the first process runs; LaunchError when it cannot."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            self._listen()
            if self._pid is not None:
                return
            if self._error is not None:
                raise LaunchError(
                    f"{self._argv[0]} cannot be started: {self._error}.",
                    remedy="Check that the program exists and is executable.",
                )
            if self._shim.poll() is not None or time.monotonic() > deadline:
                raise LaunchError(
                    "The shim that starts servers did not answer.",
                    remedy="Look into shim.log in the run's folder.",
                )
            await asyncio.sleep(0.005)

    def exited(self) -> Exit | None:
        """How the first process ended; None while it lives."""
        is_shim_dead = self._shim.poll() is not None
        self._listen()
        if self._exit is None and is_shim_dead:
            self._exit = Exit(code=None)
        return self._exit

    def pids(self) -> frozenset[int]:
        """All living processes of this server (the shim is not one)."""
        if self._is_gone:
            return frozenset()
        if self._shim.poll() is not None:
            return frozenset(self._strays())
        found = descendants(self._shim.pid)
        self._seen = {pid: stamp for pid in found if (stamp := _born(pid)) is not None}
        return frozenset(found)

    def log_lines(self, since: int = 0) -> tuple[int, Sequence[str]]:
        """Lines of its log from line number `since` on, and the number of the next line."""
        return self._log.lines(since)

    def log_tail(self, lines: int = 200) -> str:
        """The last lines of its log."""
        return self._log.tail(lines)

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM once, grace, SIGKILL until nothing is left; safe to call again."""
        if not self._is_told_to_stop:
            self.pids()
        self._is_told_to_stop = True
        self._send({"op": "stop", "grace_seconds": grace_seconds})
        deadline = time.monotonic() + grace_seconds + KILL_SECONDS
        while self._shim.poll() is None:
            self._listen()
            if time.monotonic() > deadline:
                self._shim.kill()
            await asyncio.sleep(POLL_SECONDS)
        self._listen()
        if not self._is_gone:
            await self._sweep()
        self._close()

    def _listen(self) -> None:
        """Read what the shim has reported."""
        pipe = self._shim.stdout
        if pipe is None or pipe.closed:
            return
        try:
            while chunk := os.read(pipe.fileno(), 65_536):
                self._unread += chunk
        except BlockingIOError:
            pass  # nothing more for now
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._note(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "started":
                self._pid = event["pid"]
            case "failed":
                self._error = event["error"]
                self._is_gone = True
            case "exit":
                self._exit = Exit(code=event["code"], signal=event["signal"])
            case "gone":
                self._is_gone = True

    def _send(self, message: dict[str, Any]) -> None:
        if self._shim.stdin is None or self._shim.stdin.closed:
            return
        try:
            self._shim.stdin.write(json.dumps(message).encode() + b"\n")
            self._shim.stdin.flush()
        except BrokenPipeError:
            pass  # the shim has ended, which its exit tells better

    async def _sweep(self) -> None:
        """The shim was killed: do its work from here, as well as it can be done."""
        for _ in range(SWEEP_ROUNDS):
            strays = self._strays()
            if not strays:
                self._is_gone = True
                return
            for pid in strays:
                _kill(pid)
            await asyncio.sleep(POLL_SECONDS)
        raise LaunchError(
            f"Processes {sorted(self._strays())} of this server cannot be killed.",
            step="stopping",
            remedy="End them by hand, or restart the machine, before the next race.",
        )

    def _strays(self) -> set[int]:
        """What is left of this server without its shim."""
        strays = {pid for pid, stamp in self._seen.items() if _born(pid) == stamp}
        marker = f"{MARKER}={self._id}"
        for process in psutil.process_iter():
            if _session(process.pid) == self._shim.pid or _has_env(process.pid, marker):
                strays.add(process.pid)
        return {pid for pid in strays if _is_alive(pid)} - {self._shim.pid}

    def _close(self) -> None:
        self._exit = self._exit or Exit(code=None)
        self._log.close()
        for pipe in (self._shim.stdin, self._shim.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass  # unsent bytes to a shim that has ended


def base_env() -> dict[str, str]:
    """The part of the worker's environment that engines may see."""
    return {name: os.environ[name] for name in sorted(BASE_ENV & os.environ.keys())}


def _spawn_shim(work_dir: Path) -> subprocess.Popen[bytes]:
    """By path and isolated (-I -S): it starts in some 30 ms and imports nothing of ours."""
    shim = Path(__file__).with_name("shim.py")
    with (work_dir / "shim.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(shim)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env=base_env(),
        )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    return process


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended by itself in between


def _born(pid: int) -> float | None:
    """Start time, which tells a process from a later one with the same pid."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _has_env(pid: int, marker: str) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False  # ended, somebody else's, or no /proc here
    return marker.encode() in environ.split(b"\0")
