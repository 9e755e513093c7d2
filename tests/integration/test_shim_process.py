"""The process launcher on a good day: exits, logs, environment, stopping twice."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from app.domain.engine_args import LauncherKind
from app.domain.errors import LaunchError
from tests.integration.shim_helpers import alive_in, fake_argv, pids_in, until
from workers.launchers import LAUNCHERS
from workers.launchers import process as process_launcher
from workers.launchers.base import Exit
from workers.launchers.process import ProcessLauncher


async def test_a_program_that_does_not_exist_is_a_launch_error(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no-such-program"):
        await ProcessLauncher().start(["/no-such-program"], {}, tmp_path)


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("import sys; sys.exit(7)", Exit(code=7)),
        ("import os; os.kill(os.getpid(), 9)", Exit(code=None, signal=9)),
        ("print('bye')", Exit(code=0)),
    ],
)
async def test_an_exit_is_told_as_it_was(code: str, ended: Exit, tmp_path: Path) -> None:
    server = await ProcessLauncher().start([sys.executable, "-c", code], {}, tmp_path)

    await until(lambda: server.exited() is not None)

    assert server.exited() == ended
    await server.stop(grace_seconds=0)


async def test_a_polite_engine_ends_within_its_grace(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5));"
        "print('up', flush=True); time.sleep(60)"
    )
    server = await ProcessLauncher().start([sys.executable, "-c", code], {}, tmp_path)
    await until(lambda: "up" in server.log_tail())

    await server.stop(grace_seconds=20)

    assert server.exited() == Exit(code=5)


async def test_stopping_twice_and_after_the_end_is_harmless(tmp_path: Path) -> None:
    server = await ProcessLauncher().start(
        fake_argv("plain", tmp_path / "pids"), {}, tmp_path / "r"
    )

    await asyncio.gather(server.stop(5), server.stop(5))
    await server.stop(5)

    assert server.exited() == Exit(code=None, signal=15)


async def test_the_log_is_read_piece_by_piece_and_stays_readable_after_the_end(
    tmp_path: Path,
) -> None:
    code = "import sys\nfor line in sys.argv[1:]: print(line, flush=True)"
    argv = [sys.executable, "-c", code, "one", "two\rthree", ""]
    server = await ProcessLauncher().start(argv, {}, tmp_path)
    await until(lambda: server.exited() is not None)

    following, lines = server.log_lines(0)
    later = server.log_lines(following)
    await server.stop(grace_seconds=0)

    assert list(lines) == ["one", "two", "three"]
    assert later == (following, [])
    assert server.log_tail(2) == "two\nthree"


async def test_a_log_beyond_its_limit_keeps_its_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_launcher, "LOG_LIMIT_BYTES", 200_000)
    server = await ProcessLauncher().start(
        fake_argv("chatty", tmp_path / "pids"), {}, tmp_path / "r"
    )

    await until(lambda: "the end" in server.log_tail(1))
    kept_bytes = sum(file.stat().st_size for file in (tmp_path / "r").glob("engine.log*"))
    await server.stop(grace_seconds=5)

    assert kept_bytes < 400_000
    assert server.log_tail(2).startswith("line 015999")


async def test_an_engine_sees_where_things_lie_but_none_of_our_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPSTREAM_KEY_BOX", "s3cret")
    monkeypatch.setenv("SOMETHING_ELSE", "x")
    argv = fake_argv("environment", tmp_path / "pids")
    server = await ProcessLauncher().start(argv, {"VLLM_X": "1"}, tmp_path / "r")
    await until(lambda: "cwd" in server.log_tail())

    names = server.log_tail().splitlines()
    await server.stop(grace_seconds=5)

    assert {"PATH", "VLLM_X", "SLIPSTREAM_LAUNCH"} <= set(names)
    assert not {"SLIPSTREAM_KEY_BOX", "SOMETHING_ELSE"} & set(names)
    assert names[-1] == f"cwd {Path.cwd()}"


async def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    starting = asyncio.create_task(
        ProcessLauncher().start(fake_argv("plain", tmp_path / "pids"), {}, tmp_path / "r")
    )
    await asyncio.sleep(0)

    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert alive_in(tmp_path / "pids") == set()


async def test_the_engine_gets_no_descriptor_of_ours(tmp_path: Path) -> None:
    code = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')), flush=True)"
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), False)
        server = await ProcessLauncher().start([sys.executable, "-c", code], {}, tmp_path / "r")
        await until(lambda: server.exited() is not None)

    assert server.log_tail(1) == "[0, 1, 2, 3]"
    await server.stop(grace_seconds=0)


async def test_the_launcher_of_attached_servers_starts_and_stops_nothing(tmp_path: Path) -> None:
    server = await LAUNCHERS[LauncherKind.NONE].start([], {}, tmp_path)

    await server.stop(grace_seconds=5)

    assert (server.pid, server.pids(), server.exited()) == (None, frozenset(), None)
    assert pids_in(tmp_path / "pids") == set()
