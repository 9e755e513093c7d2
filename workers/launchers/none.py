"""The launcher that starts nothing: an attached server already runs, and is left running."""

import time
from collections.abc import Sequence
from pathlib import Path

from workers.launchers.base import Exit, Server


class NoLauncher:
    """Starts nothing."""

    async def start(self, argv: Sequence[str], env: dict[str, str], work_dir: Path) -> Server:
        """Hand over a server that somebody else runs."""
        return ForeignServer()


class ForeignServer:
    """Somebody else's server: it has no pid, no log and no end that we can see."""

    pid: int | None = None

    def __init__(self) -> None:
        self.started_at = time.time()

    def exited(self) -> Exit | None:
        """Never known."""
        return None

    def pids(self) -> frozenset[int]:
        """None of ours."""
        return frozenset()

    def log_lines(self, since: int = 0) -> tuple[int, Sequence[str]]:
        """No log."""
        return 0, ()

    def log_tail(self, lines: int = 200) -> str:
        """No log."""
        return ""

    async def stop(self, grace_seconds: float) -> None:
        """Nothing to stop: it is not ours."""
