"""Databases for integration tests: one migrated file per session, copied for each test."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.store.db import Database, open_database

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file without rows."""
    file = tmp_path_factory.mktemp("db") / "empty.db"
    open_database(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def database(empty_database: Path, tmp_path: Path) -> Iterator[Database]:
    """A fresh migrated database of the test's own."""
    file = tmp_path / "slipstream.db"
    shutil.copy(empty_database, file)
    opened = open_database(f"sqlite:///{file}")
    yield opened
    opened.close()
