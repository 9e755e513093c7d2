"""A house of the test's own: data folder, short recipes, and the real `slipstream` command."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import psutil
import yaml

from app.domain.snapshot import Snapshot
from app.domain.ticks import Tick
from app.recipes import read_recipe
from app.store import results, runs, ticks
from app.store.db import Database, open_database

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 60.0


def make_recipe(**changes: Any) -> dict[str, Any]:
    """Two lanes of the replayed B300 race, one cell, two heats of 0.7 s: some seconds in all."""
    recipe = {
        "name": "A short replay",
        "model": "google/gemma-4-26B-A4B-it",
        "engine": "replay",
        "args": {"race": "b300-sglang-gemma4-26b-a4b", "load-seconds": 0},
        "lanes": {"baseline": {}, "mtp-k5": {"k": 5}},
        "matrix": {"contexts": [0], "concurrency": [2], "workloads": ["code"]},
        "decode": {"seconds": 0.7, "max_tokens": 8192},
        "repeats": 2,
        "warmup_seconds": 0,
    }
    return recipe | changes


@dataclass
class House:
    """One data folder and what runs on it."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def write(self, **changes: Any) -> Path:
        """A recipe file."""
        file = self.folder / "recipe.yaml"
        file.write_text(yaml.safe_dump(make_recipe(**changes)), encoding="utf-8")
        return file

    @property
    def environment(self) -> dict[str, str]:
        """Ours, with this house's folder."""
        kept = {name: value for name, value in os.environ.items() if name[:11] != "SLIPSTREAM_"}
        data = {"SLIPSTREAM_DATA_DIR": str(self.folder / "data"), "COLUMNS": "200"}
        return kept | data | self.env

    def slipstream(
        self, *args: str | Path, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """The command, run to its end."""
        return subprocess.run(
            [sys.executable, "-m", "app.cli", *map(str, args)],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    @contextmanager
    def running(self, *argv: str | Path, log: str = "log") -> Iterator["subprocess.Popen[bytes]"]:
        """A process of ours; what is left of its tree at the end is killed."""
        with (self.folder / f"{log}.txt").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *map(str, argv)],
                cwd=ROOT,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                kill_tree(process.pid)
                process.wait()

    def worker(self) -> Any:
        """A worker process."""
        return self.running("workers", log="worker")

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The house's database."""
        opened = open_database(f"sqlite:///{self.folder}/data/slipstream.db")
        yield opened
        opened.close()

    def submit(self, **changes: Any) -> str:
        """Queue a run."""
        asked = read_recipe(str(self.write(**changes)))
        with self.database() as database, database.write() as session:
            return runs.submit(
                session, asked.recipe, provenance=asked.provenance, now=datetime.now(UTC)
            ).run_id

    def snapshot(self, run_id: str) -> Snapshot:
        """The run as it is now."""
        with self.database() as database, database.read() as session:
            return runs.snapshot(session, run_id, now=datetime.now(UTC))

    def ticks(self, run_id: str) -> list[Tick]:
        """All ticks of a run."""
        with self.database() as database, database.read() as session:
            return ticks.after(session, run_id, limit=100_000)

    def document(self, run_id: str) -> dict[str, Any]:
        """The frozen document."""
        with self.database() as database, database.read() as session:
            frozen = results.of_run(session, run_id)
        assert frozen is not None
        data: dict[str, Any] = json.loads(frozen.document)
        return data

    def cancel(self, run_id: str) -> None:
        """Ask for the run's end."""
        with self.database() as database, database.write() as session:
            runs.request_cancel(session, run_id, now=datetime.now(UTC))

    def wait(
        self, run_id: str, until: Callable[[Snapshot], T | None], seconds: float = DEADLINE_SECONDS
    ) -> T:
        """Look at the run until `until` is true of it; gives what that said."""
        return wait_for(lambda: until(self.snapshot(run_id)), seconds, self.log)

    def log(self) -> str:
        """What our processes printed."""
        return "\n".join(file.read_text() for file in sorted(self.folder.glob("*.txt")))


def wait_for(
    condition: Callable[[], T | None],
    seconds: float = DEADLINE_SECONDS,
    explain: Callable[[], str] = str,
) -> T:
    """Poll until true; the assertion shows the log."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {seconds} s in vain\n{explain()}"
        time.sleep(0.02)


def kill_tree(pid: int) -> None:
    """SIGKILL to a process and all below it."""
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in tree:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


def tree_of(pid: int) -> list[psutil.Process]:
    """Everything below a process: shim, engine, load process and what they started."""
    return psutil.Process(pid).children(recursive=True)


def is_alive(process: psutil.Process) -> bool:
    """Whether this very process (not a later one with its pid) still runs."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
