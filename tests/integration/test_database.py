"""Opening databases: migrations equal tables, and every refusal names the remedy."""

import sqlite3
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text
from sqlmodel import SQLModel

from app.domain.errors import StoreError
from app.store import tables
from app.store.db import Database, open_database

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def test_migrations_make_exactly_the_tables(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = compare_metadata(context, SQLModel.metadata)

    assert differences == []
    assert tables.Run.__tablename__ == "run"


def test_a_database_from_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    open_database(f"sqlite:///{file}").close()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = file.read_bytes()

    with pytest.raises(StoreError, match="newer Slipstream"):
        open_database(f"sqlite:///{file}")

    assert file.read_bytes() == before


def test_a_read_only_database_is_named_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "ro.db"
    open_database(f"sqlite:///{file}").close()
    database = open_database(f"sqlite:///file:{file}?mode=ro&uri=true")

    with pytest.raises(StoreError, match=r"read-only.*writable"), database.write() as session:
        session.add(
            tables.TokenRow(
                hash="x",
                kind="bearer",
                created_at=NOW,
            )
        )
    database.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("these are my notes, not a database\n" * 50)

    with pytest.raises(StoreError, match="not a database"):
        open_database(f"sqlite:///{file}")

    assert file.read_text().startswith("these are my notes")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="SLIPSTREAM_DATA_DIR"):
        open_database(f"sqlite:///{tmp_path}/file/x.db")


def test_two_processes_may_migrate_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/both.db"
    errors: list[BaseException] = []

    def migrate() -> None:
        try:
            open_database(url).close()
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []


def test_writers_wait_for_each_other_instead_of_failing(database: Database) -> None:
    def add(number: int) -> None:
        for step in range(20):
            with database.write() as session:
                session.add(
                    tables.WorkerRow(
                        name=f"{number}-{step}",
                        host="h",
                        pid=1,
                        started_at=NOW,
                        seen_at=NOW,
                    )
                )

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with database.engine.connect() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM worker").scalar()
    assert count == 80


def test_a_damaged_file_is_told_in_words_in_reads_too(tmp_path: Path) -> None:
    file = tmp_path / "damaged.db"
    database = open_database(f"sqlite:///{file}")
    with database.write() as session:
        session.add(tables.TokenRow(hash="x", kind="bearer", created_at=NOW))
    database.close()
    raw = bytearray(file.read_bytes())
    raw[4096 * 2 :] = b"\xff" * (len(raw) - 4096 * 2)
    file.write_bytes(raw)

    damaged = Database(f"sqlite:///{file}")

    with pytest.raises(StoreError, match="damaged"), damaged.read() as session:
        session.execute(text("SELECT count(*) FROM token, worker, tick")).all()
    damaged.close()
