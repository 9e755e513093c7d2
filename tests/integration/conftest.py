"""Databases for integration tests: one migrated SQLite file, and one real PostgreSQL server."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from app.store.db import Database, open_database
from workers.ports import free_port

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
POSTGRES_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file without rows."""
    file = tmp_path_factory.mktemp("db") / "empty.db"
    open_database(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def database(empty_database: Path, tmp_path: Path) -> Iterator[Database]:
    """A fresh migrated SQLite database of the test's own."""
    file = tmp_path / "slipstream.db"
    shutil.copy(empty_database, file)
    opened = open_database(f"sqlite:///{file}")
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a real PostgreSQL with a migrated template database, on a loopback port."""
    if not POSTGRES_FOLDERS:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    binaries = POSTGRES_FOLDERS[-1]
    home = tmp_path_factory.mktemp("postgres")
    for folder in (home, *list(home.parents)[:2]):
        folder.chmod(0o755)
    if os.geteuid() == 0:
        shutil.chown(home, "postgres")
    data, port = home / "data", free_port()
    _as_postgres([binaries / "initdb", "-D", data, "-U", "slipstream", "-A", "trust", "-N"])
    options = f"-p {port} -h 127.0.0.1 -k {home} -c fsync=off"
    control: list[str | Path] = [binaries / "pg_ctl", "-D", data, "-w", "-l", home / "log"]
    _as_postgres([*control, "-o", options, "start"])
    try:
        url = f"postgresql+psycopg://slipstream@127.0.0.1:{port}"
        _sql(url, "CREATE DATABASE migrated")
        open_database(f"{url}/migrated").close()
        yield url
    finally:
        _as_postgres([*control, "-m", "immediate", "stop"])


@pytest.fixture
def postgres(postgres_server: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A fresh migrated PostgreSQL database of the test's own."""
    _sql(postgres_server, "DROP DATABASE IF EXISTS test WITH (FORCE)")
    _sql(postgres_server, "CREATE DATABASE test TEMPLATE migrated")
    opened = open_database(f"{postgres_server}/test")
    yield opened
    opened.close()


def _as_postgres(argv: Sequence[str | Path]) -> None:
    runuser = shutil.which("runuser", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "runuser"
    prefix = [runuser, "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*prefix, *map(str, argv)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if "initdb" in str(argv[0]) else subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def _sql(url: str, statement: str) -> None:
    plain = url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(f"{plain}/postgres", autocommit=True) as connection:
        connection.execute(statement.encode())
