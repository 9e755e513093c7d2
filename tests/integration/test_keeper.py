"""The worker beside the dashboard is kept running, and ends with it."""

import sys
from pathlib import Path

import pytest

from app import keeper
from app.keeper import WorkerKeeper
from tests.acceptance.house import wait_for

COUNT = "import pathlib, sys; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text() + 'x'); "
CRASH = COUNT + "sys.exit(3)"
STAY = COUNT + "sys.stdin.read()"


def test_a_worker_that_ends_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "FIRST_PAUSE_SECONDS", 0.01)
    starts = tmp_path / "starts"
    starts.write_text("")
    said: list[str] = []

    kept = WorkerKeeper(said.append, [sys.executable, "-c", CRASH, str(starts)])
    kept.start()
    wait_for(lambda: len(starts.read_text()) >= 3)
    kept.stop()

    assert "exit code 3" in said[0]


def test_stopping_ends_the_worker_by_closing_its_input(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    starts.write_text("")

    kept = WorkerKeeper(print, [sys.executable, "-c", STAY, str(starts)])
    kept.start()
    wait_for(lambda: starts.read_text() == "x")
    kept.stop()

    assert kept._worker is not None
    assert kept._worker.returncode == 0
