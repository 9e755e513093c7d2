"""The store's own tests again, on a real PostgreSQL: the same code, one setting."""

import threading

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlmodel import SQLModel

from app.store import queue, runs
from app.store.db import Database
from tests.integration import test_store as on_sqlite
from tests.integration import test_store_claims as claims_on_sqlite
from tests.integration.test_store import LATER, MEASURED, NOON, make_recipe, submit


@pytest.fixture
def database(postgres: Database) -> Database:
    """What the store's tests call the database."""
    return postgres


def test_migrations_make_exactly_the_tables(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = compare_metadata(context, SQLModel.metadata)

    assert differences == []


def test_many_workers_claim_every_run_exactly_once(database: Database) -> None:
    ids = {submit(database) for _ in range(6)}
    claimed: list[str] = []

    def work(name: str) -> None:
        while True:
            with database.write() as session:
                held = queue.claim(session, name, now=LATER, lease_seconds=600, engines=["replay"])
            if held is None:
                return
            claimed.append(held.run_id)

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(claimed) == sorted(ids)


def test_two_submissions_with_one_key_at_once_make_one_run(database: Database) -> None:
    made: list[str] = []
    barrier = threading.Barrier(4)

    def send() -> None:
        barrier.wait()
        with database.write() as session:
            sent = runs.submit(
                session,
                make_recipe(),
                provenance=MEASURED,
                now=NOON,
                idempotency_key="k",
                request_sha256="a",
            )
        made.append(sent.run_id)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 4
    assert len(set(made)) == 1


for _module in (on_sqlite, claims_on_sqlite):
    for _name in dir(_module):
        if _name.startswith("test_"):
            globals()[_name] = getattr(_module, _name)
