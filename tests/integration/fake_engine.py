"""Engines that misbehave: `fake_engine.py MODE FOLDER`. Each process leaves its pid in FOLDER."""

import os
import signal
import sys
import time
from pathlib import Path

FOLDER = Path(sys.argv[2])


def live() -> None:
    (FOLDER / str(os.getpid())).touch()
    while True:
        time.sleep(60)


def fork(child) -> None:
    if os.fork() == 0:
        child()
        os._exit(0)


def in_own_session(child) -> None:
    os.setsid()
    child()


def deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    live()


def family() -> None:
    """Three generations, the younger ones deaf."""

    def second() -> None:
        fork(deaf)
        deaf()

    fork(second)
    live()


def daemon() -> None:
    """Double-fork into another session; the first process stays."""
    fork(lambda: in_own_session(lambda: fork(deaf)))
    live()


def wiped() -> None:
    """A deaf grandchild in its own session, its environment empty, its output closed."""

    def bare() -> None:
        for fd in (0, 1, 2):
            os.close(fd)
        os.execve(sys.executable, [sys.executable, __file__, "deaf", str(FOLDER)], {})

    fork(lambda: in_own_session(lambda: fork(bare)))
    live()


def closed() -> None:
    """Closes everything it has inherited, and lives on."""
    os.closerange(0, 256)
    live()


def dead() -> None:
    """Dies at once and leaves a deaf child."""
    fork(lambda: in_own_session(deaf))
    while not list(FOLDER.iterdir()):
        time.sleep(0.005)
    (FOLDER / str(os.getpid())).touch()
    sys.exit(3)


def chatty() -> None:
    """A megabyte of numbered lines, then life."""
    for number in range(16_000):
        sys.stdout.write(f"line {number:06d} {'x' * 50}\n")
    sys.stdout.write("the end\n")
    sys.stdout.flush()
    live()


def environment() -> None:
    """Says what it can see."""
    sys.stdout.write("\n".join(sorted(os.environ)) + f"\ncwd {Path.cwd()}\n")
    sys.stdout.flush()
    live()


MODES = {
    "plain": live, "deaf": deaf, "family": family, "daemon": daemon, "wiped": wiped,
    "closed": closed, "dead": dead, "chatty": chatty, "environment": environment,
}  # fmt: skip

if __name__ == "__main__":
    MODES[sys.argv[1]]()
