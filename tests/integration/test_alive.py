"""A container's health check finds the worker of its own host, and no other."""

from datetime import UTC, datetime, timedelta

from app.store import workers as roster
from app.store.db import Database
from workers.alive import is_alive

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def beat(database: Database, host: str) -> None:
    view = roster.WorkerView(
        name=f"{host}-1",
        host=host,
        pid=1,
        started_at=NOON,
        seen_at=NOON,
        engines={},
        gpus=[],
        run_id=None,
    )
    with database.write() as session:
        roster.beat(session, view)


def test_a_worker_that_beat_just_now_is_alive_on_its_own_host_only(database: Database) -> None:
    beat(database, "gpu-a")

    assert is_alive(database, "gpu-a", now=NOON + timedelta(seconds=5))
    assert not is_alive(database, "gpu-b", now=NOON + timedelta(seconds=5))


def test_a_worker_that_fell_silent_is_not_alive(database: Database) -> None:
    beat(database, "gpu-a")

    assert not is_alive(database, "gpu-a", now=NOON + timedelta(seconds=60))
