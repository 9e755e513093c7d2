"""A dashboard with a database of its own, for tests: in this process or as a real one."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from starlette.testclient import TestClient

from app.config import Settings
from app.domain.recipe import validate
from app.domain.result import ToolFacts
from app.domain.snapshot import Provenance
from app.domain.ticks import Tick
from app.main import create_app
from app.store import results, runs, ticks, tokens, workers
from app.store.db import Database, open_database
from app.store.tokens import TokenKind
from app.store.workers import WorkerView

DEADLINE_SECONDS = 20
ROOT = Path(__file__).parents[2]

RECIPE: dict[str, Any] = {
    "name": "Two servers",
    "model": "some/model",
    "engine": "attach",
    "lanes": {
        "baseline": {"url": "http://127.0.0.1:8000"},
        "mtp-k4": {"url": "http://127.0.0.1:8001"},
    },
    "matrix": {"concurrency": [1]},
    "repeats": 1,
}


def now() -> datetime:
    return datetime.now(UTC)


def open_house(folder: Path) -> Database:
    return open_database(f"sqlite:///{folder / 'slipstream.db'}")


def make_run(db: Database, **changes: Any) -> str:
    recipe = validate({**RECIPE, **changes})
    with db.write() as session:
        return runs.submit(session, recipe, provenance=Provenance(), now=now()).run_id


def make_worker(db: Database, *engines: str, host: str = "elsewhere") -> None:
    worker = WorkerView("w1", host, 1, now(), now(), {name: {} for name in engines}, [], None)
    with db.write() as session:
        workers.beat(session, worker)


def make_ticks(
    db: Database, run_id: str, count: int, *, first: int = 0, text: str = ""
) -> list[int]:
    with db.read() as session:
        cell = runs.snapshot(session, run_id, now=now()).cells[0]
    heat = cell.lanes["baseline"].heats[0].id
    made = []
    for second in range(first, first + count):
        tick = Tick(
            run=run_id, lane="baseline", cell=cell.id, heat=heat, second=second,
            tokens=second, in_flight=1, text=text,
        )  # fmt: skip
        with db.write() as session:
            made.append(ticks.append(session, tick))
    return made


def cancel_run(db: Database, run_id: str) -> None:
    with db.write() as session:
        runs.request_cancel(session, run_id, now=now())


def freeze_run(db: Database, run_id: str) -> results.Frozen:
    with db.write() as session:
        return results.freeze(session, run_id, tool=ToolFacts(version="0"), now=now())


def make_result(db: Database, **changes: Any) -> results.Frozen:
    run_id = make_run(db, **changes)
    cancel_run(db, run_id)
    return freeze_run(db, run_id)


def mint(db: Database, kind: TokenKind, *, ttl: timedelta | None = timedelta(hours=1)) -> str:
    with db.write() as session:
        return tokens.mint(session, kind, now=now(), ttl=ttl)


def bearer(db: Database) -> dict[str, str]:
    return {"Authorization": f"Bearer {mint(db, TokenKind.BEARER)}"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def settings_for(folder: Path, **changes: Any) -> Settings:
    return Settings(data_dir=folder, allowed_hosts=["testserver", "127.0.0.1"], **changes)


@dataclass
class Dashboard:
    """A dashboard in a process of its own."""

    folder: Path
    port: int = field(default_factory=free_port)
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "dashboard.log").read_text()

    def start(self) -> None:
        with (self.folder / "dashboard.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app.cli", "up", "--no-worker"],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "SLIPSTREAM_DATA_DIR": str(self.folder),
                    "SLIPSTREAM_PORT": str(self.port),
                    "SLIPSTREAM_LIVE_POLL_SECONDS": "0.02",
                    **self.env,
                },
            )
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self._answers():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def stop(self, sign: int = signal.SIGTERM) -> float:
        """Ends the process; how long that took."""
        assert self.process is not None
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(sign)
            self.process.wait(timeout=DEADLINE_SECONDS)
        return time.monotonic() - began

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/api/v1/ready", timeout=2).status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def dashboard(folder: Path, **env: str) -> Iterator[Dashboard]:
    served = Dashboard(folder, env=env)
    served.start()
    try:
        yield served
    finally:
        served.stop(signal.SIGKILL)


@dataclass
class Told:
    """What a viewer was told."""

    ids: list[int] = field(default_factory=list)
    ticks: list[dict[str, Any]] = field(default_factory=list)
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    farewell: str | None = None

    @property
    def last_id(self) -> int:
        return self.ids[-1] if self.ids else 0


@contextmanager
def watch(
    served: Dashboard, run_id: str, headers: dict[str, str], query: str = ""
) -> Iterator[Iterator[Told]]:
    """A viewer; the iterator gives what it was told so far, after every event."""
    url = f"{served.url}/api/v1/runs/{run_id}/events{query}"
    with httpx.stream("GET", url, headers=headers, timeout=DEADLINE_SECONDS) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _listen(response)


def _listen(response: httpx.Response) -> Iterator[Told]:
    told = Told()
    event: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
            continue
        if "data" in event:
            _note(told, event)
            yield told
        event = {}


def _note(told: Told, event: dict[str, str]) -> None:
    data = json.loads(event["data"])
    if event["event"] == "tick":
        assert int(event["id"]) == data["id"]
        told.ids.append(data["id"])
        told.ticks.append(data)
    elif event["event"] == "snapshot":
        assert "id" not in event
        told.snapshots.append(data)
    else:
        told.farewell = data["reason"]


@contextmanager
def visit(folder: Path, **changes: Any) -> Iterator[tuple[TestClient, Database]]:
    """A client of a dashboard in this process, and its database."""
    settings = settings_for(folder, **changes)
    db = open_house(folder)
    try:
        with TestClient(create_app(settings, db), base_url="http://testserver") as client:
            yield client, db
    finally:
        db.close()
