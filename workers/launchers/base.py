"""What a launcher is: it starts a plan, watches its life and log, and leaves nothing behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Exit:
    """How a server ended. `code` is None when the launcher cannot know."""

    code: int | None
    signal: int | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"killed by signal {self.signal}"
        return "ended" if self.code is None else f"exit code {self.code}"


class Server(Protocol):
    """A started server. `stop` returns only when no descendant is alive."""

    started_at: float
    """Unix seconds of the launch."""

    @property
    def pid(self) -> int | None:
        """Pid of the engine's first process; None when there is none of ours."""
        ...

    def exited(self) -> Exit | None:
        """How it ended; None while it lives."""
        ...

    def pids(self) -> frozenset[int]:
        """All living processes of this server."""
        ...

    def log_lines(self, since: int = 0) -> tuple[int, Sequence[str]]:
        """Lines of its log from line number `since` on, and the number of the next line."""
        ...

    def log_tail(self, lines: int = 200) -> str:
        """The last lines of its log."""
        ...

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM, grace, SIGKILL, repeated until no descendant is left."""
        ...


class Launcher(Protocol):
    """One row of LAUNCHERS."""

    async def start(self, argv: Sequence[str], env: dict[str, str], work_dir: Path) -> Server:
        """Start it; LaunchError when it cannot even be started (binary missing)."""
        ...
