"""A worker whose database is locked, or whose run breaks it, lives on."""

import asyncio
from pathlib import Path

import pytest
from sqlmodel import Session

from app.config import Settings
from app.domain.errors import StoreError
from app.domain.states import RunState
from app.store import queue, runs
from app.store.db import Database
from tests.integration.test_store import MEASURED, make_recipe
from workers import recorder as recorders
from workers.gpus import Gpus
from workers.host import find_host
from workers.loop import Worker
from workers.recorder import Recorder, utc_now


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits a minute for a database."""
    monkeypatch.setattr(recorders, "PAUSE_SECONDS", 0.01)


def submit(database: Database) -> str:
    """A queued run."""
    with database.write() as session:
        return runs.submit(session, make_recipe(), provenance=MEASURED, now=utc_now()).run_id


async def test_a_write_is_asked_again_until_the_database_answers(
    database: Database, impatient: None
) -> None:
    run_id = submit(database)
    with database.write() as session:
        held = queue.claim(session, "w", now=utc_now(), lease_seconds=60, engines=["replay"])
    assert held is not None
    refusals = iter([StoreError("The database is locked")] * 3)
    recorder = Recorder(database, held)

    def give_back(session: Session, claim: queue.Claim) -> bool:
        for refusal in refusals:
            raise refusal
        return queue.give_back(session, claim, now=utc_now())

    await recorder.write(give_back)

    await recorder.close()
    with database.read() as session:
        assert runs.view(session, run_id, now=utc_now()).state is RunState.QUEUED


async def test_a_run_that_breaks_the_worker_is_closed_and_the_worker_lives(
    database: Database, tmp_path: Path
) -> None:
    run_id = submit(database)
    stopping = asyncio.Event()
    with database.write() as session:
        broken = runs.get(session, run_id)
        broken.recipe = {"not": "a recipe"}

    with Gpus() as gpus:
        host = find_host(Settings(data_dir=tmp_path, poll_seconds=0.01), gpus)
        worker = Worker(database, host, stopping)
        living = asyncio.create_task(worker.live())
        async with asyncio.timeout(10):
            while await asyncio.to_thread(state_of, database, run_id) != RunState.FAILED.value:
                await asyncio.sleep(0.01)
        assert not living.done()
        stopping.set()
        await living


def state_of(database: Database, run_id: str) -> str:
    """The row's own word: the snapshot cannot read this recipe."""
    with database.read() as session:
        return runs.get(session, run_id).state
