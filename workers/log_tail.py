"""Follows a log file that grows and is rotated under us. Knows nothing of who writes it."""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

KEPT_LINES = 5_000
READ_BYTES = 1 << 20
LINE_BYTES = 16_384  # a longer line is cut into pieces
ROUNDS = 32  # of READ_BYTES in one call, so that a chatty server cannot hold us


class LogTail:
    """The last lines of a log, each with its number. Reads only what is new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._inode: int | None = None
        self._partial = b""
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._next = 0

    def lines(self, since: int = 0) -> tuple[int, Sequence[str]]:
        """Lines from number `since` on, as far as kept, and the number of the next one."""
        self._read_new()
        wanted = max(0, min(len(self._lines), self._next - since))
        return self._next, list(islice(self._lines, len(self._lines) - wanted, None))

    def tail(self, lines: int) -> str:
        """The last lines, with the unfinished one at the end."""
        self._read_new()
        kept = list(islice(self._lines, max(0, len(self._lines) - lines), None))
        unfinished = self._partial.decode("utf-8", "replace").strip()
        return "\n".join([*kept, unfinished] if unfinished else kept)

    def close(self) -> None:
        """Let go of the file; what was read stays readable."""
        self._read_new()
        if self._file is not None:
            self._file.close()
        self._file = None
        self._path = Path("/nonexistent")

    def _read_new(self) -> None:
        for _ in range(ROUNDS):
            if self._file is None and not self._open():
                return
            assert self._file is not None
            chunk = self._file.read(READ_BYTES)
            if chunk:
                self._take(chunk)
            elif self._is_current():
                return
            else:
                self._file.close()
                self._file = None

    def _open(self) -> bool:
        try:
            self._file = self._path.open("rb", buffering=0)
        except OSError:
            return False
        self._inode = self._path.stat().st_ino
        return True

    def _is_current(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return True  # in the middle of a rotation: look again next time

    def _take(self, chunk: bytes) -> None:
        """Progress bars redraw with CR: each state is a line. Empty lines carry nothing."""
        *whole, rest = (self._partial + chunk).replace(b"\r", b"\n").split(b"\n")
        while len(rest) > LINE_BYTES:
            whole.append(rest[:LINE_BYTES])
            rest = rest[LINE_BYTES:]
        self._partial = rest
        for raw in whole:
            for start in range(0, len(raw), LINE_BYTES):
                self._lines.append(raw[start : start + LINE_BYTES].decode("utf-8", "replace"))
                self._next += 1
