"""Keeps a worker process running beside the dashboard, however often it ends."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0
LOOK_SECONDS = 0.2
END_SECONDS = 30.0

WORKER = (sys.executable, "-m", "workers", "--with-parent")


class WorkerKeeper(threading.Thread):
    """Starts the worker and starts it again when it ends: at once at first, then ever more slowly.

    The worker gets a session of its own, so that Ctrl-C reaches it through us, and it ends when our
    end of its standard input closes, so that it never outlives us.
    """

    def __init__(self, say: Callable[[str], None], argv: Sequence[str] = WORKER) -> None:
        super().__init__(name="worker-keeper", daemon=True)
        self._say, self._argv = say, tuple(argv)
        self._stopping = threading.Event()
        self._worker: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Keep it running until told to stop."""
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                self._worker = self._start()
            except OSError as error:
                self._say(f"The worker cannot be started ({error}); tried again in {pause:g} s.")
                self._stopping.wait(pause)
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2)
                continue
            while self._worker.poll() is None and not self._stopping.wait(LOOK_SECONDS):
                continue
            if self._stopping.is_set():
                return
            _close(self._worker)
            if time.monotonic() - begun > STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            self._say(
                f"The worker has ended (exit code {self._worker.returncode}); "
                f"it is started again in {pause:g} s."
            )
            self._stopping.wait(pause)
            pause = min(LONGEST_PAUSE_SECONDS, pause * 2)

    def stop(self) -> None:
        """End the worker politely, then not."""
        self._stopping.set()
        if self.is_alive():
            self.join()
        worker = self._worker
        if worker is None:
            return
        _close(worker)
        try:
            worker.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._argv, stdin=subprocess.PIPE, start_new_session=True)


def _close(worker: "subprocess.Popen[bytes]") -> None:
    if worker.stdin is not None:
        worker.stdin.close()
