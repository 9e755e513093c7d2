"""One worker per host and data folder: two races at once on one machine would bend each other."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from app.domain.errors import ConflictError, SettingsError


class HostLock:
    """A lock that ends with its process, however that ends."""

    def __init__(self, data_dir: Path) -> None:
        self._file = data_dir / "worker.lock"
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        if not self.take():
            raise ConflictError(
                f"Another worker (pid {self.holder()}) races here already.",
                remedy="End it, or give this one another SLIPSTREAM_DATA_DIR.",
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def take(self) -> bool:
        """Try to take it; False when another worker has it."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SettingsError(
                f"SLIPSTREAM_DATA_DIR cannot be written to ({error}).",
                remedy="Name another folder.",
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let the next one have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def holder(self) -> str:
        """Pid of who has it, as it was written down."""
        try:
            return self._file.read_text(encoding="ascii").strip() or "unknown"
        except OSError:
            return "unknown"
