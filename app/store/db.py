"""Opening the database, SQLite or PostgreSQL, and its transactions.
All dialect quirks live here."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlmodel import Session

from app.config import resource
from app.domain.errors import StoreError

BUSY_SECONDS = 15
WAL_PAUSE_SECONDS = 0.01


class Database:
    """One open database. `write` and `read` give short sessions; close() releases the pool."""

    def __init__(self, url: str) -> None:
        try:
            self.url = make_url(url)
        except ArgumentError:
            raise StoreError(
                "SLIPSTREAM_DATABASE_URL is not a database URL.",
                remedy="Write sqlite:////path/file.db or postgresql+psycopg://user@host/name.",
            ) from None
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _make_engine(self.url.render_as_string(hide_password=False), self.is_sqlite)

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One short write transaction, committed on success (SQLite: BEGIN IMMEDIATE)."""
        try:
            with Session(self.engine, expire_on_commit=False) as session, session.begin():
                if self.is_sqlite:
                    session.connection(execution_options={"slipstream_begin": "IMMEDIATE"})
                yield session
        except IntegrityError:
            raise
        except (DBAPIError, PoolTimeoutError) as error:
            raise explain(error, str(self.url)) from error

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that only reads, on one consistent snapshot."""
        try:
            with Session(self.engine, expire_on_commit=False) as session:
                yield session
        except (DBAPIError, PoolTimeoutError) as error:
            raise explain(error, str(self.url)) from error

    def change_mark(self, connection: Connection) -> object:
        """A value that changes when another connection has committed;
        None where only polling helps."""
        if not self.is_sqlite:
            return None
        return connection.execute(text("PRAGMA data_version")).scalar()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_database(url: str, *, migrate: bool = True) -> Database:
    """Open and, if asked, bring to the newest version; StoreError says what is wrong and what to
    do."""
    database = Database(url)
    if database.is_sqlite and database.url.database:
        _make_folder(Path(database.url.database))
    try:
        if migrate:
            upgrade(database)
        else:
            check_version(database)
    except (DBAPIError, PoolTimeoutError) as error:
        database.close()
        raise explain(error, str(database.url)) from error
    except SQLAlchemyError as error:
        database.close()
        raise StoreError(
            f"{database.url} is not a Slipstream database: {error}.",
            remedy="Name another file, or move this one away.",
        ) from error
    except StoreError:
        database.close()
        raise
    return database


def upgrade(database: Database) -> None:
    """Run the migrations that are missing; several processes may try at once."""
    config = alembic_config()
    with database.engine.connect() as connection:
        if current_version(connection) == head_version():
            return
        _refuse_newer(connection)
    options = {"slipstream_begin": "IMMEDIATE"}
    with database.engine.connect().execution_options(**options) as connection, connection.begin():
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(5177)"))
        if current_version(connection) != head_version():
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def check_version(database: Database) -> None:
    """StoreError unless the database is exactly at this program's version."""
    with database.engine.connect() as connection:
        if current_version(connection) == head_version():
            return
        _refuse_newer(connection)
    raise StoreError("The database is older than this program.", remedy="Run `slipstream up` once.")


def alembic_config() -> Config:
    """Alembic without its ini file: the folder of migrations is all it needs."""
    config = Config()
    config.set_main_option("script_location", str(resource("migrations")))
    config.set_main_option("path_separator", "os")
    return config


def head_version() -> str | None:
    """Newest migration of this program."""
    return ScriptDirectory.from_config(alembic_config()).get_current_head()


def current_version(connection: Connection) -> str | None:
    """Version stamped into the database; None when it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def explain(error: DBAPIError | PoolTimeoutError, where: str) -> StoreError:
    """A database error in words for people, with the remedy."""
    reason = str(getattr(error, "orig", None) or error)
    for sign, message, remedy in _REASONS:
        if sign in reason:
            return StoreError(f"{message} ({where}: {reason}).", remedy=remedy)
    return StoreError(
        f"The database failed ({where}: {reason}).", remedy="Run `slipstream doctor`."
    )


_REASONS = (
    ("readonly", "The database is read-only", "Make the file and its folder writable."),
    (
        "unable to open",
        "The database cannot be opened",
        "Check SLIPSTREAM_DATA_DIR and its rights.",
    ),
    ("database is locked", "The database is locked by another program", "End that program."),
    ("disk is full", "The disk is full", "Free some space; nothing that was committed is lost."),
    ("not a database", "The file is not a database", "Name another file, or move this one away."),
    ("malformed", "The database file is damaged", "Restore a copy; see docs/operating.md."),
    (
        "Connection refused",
        "PostgreSQL does not answer",
        "Start it; check SLIPSTREAM_DATABASE_URL.",
    ),
)


def _refuse_newer(connection: Connection) -> None:
    stamped = current_version(connection)
    if stamped is None:
        return
    known = {
        script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()
    }
    if stamped not in known:
        raise StoreError(
            f"The database was made by a newer Slipstream (migration {stamped}).",
            remedy="Update Slipstream, or name another database in SLIPSTREAM_DATABASE_URL.",
        )


def _make_folder(file: Path) -> None:
    """Folder and file for their owner alone: recipes, logs and sessions are nobody else's."""
    if str(file).startswith(("file:", ":memory:")):
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not file.exists():
            file.touch(mode=0o600)
    except OSError as error:
        raise StoreError(
            f"The folder of the database cannot be made ({error}).",
            remedy="Set SLIPSTREAM_DATA_DIR to a folder you may write to.",
        ) from error


def _make_engine(url: str, is_sqlite: bool) -> Engine:
    if not is_sqlite:
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False})
    event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_sqlite_begin)
    return engine


def _on_sqlite_connect(connection: sqlite3.Connection, _record: object) -> None:
    # autocommit at the driver, so that our own BEGIN decides (SQLAlchemy docs,
    # "pysqlite transactions")
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
    _use_wal(cursor)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _use_wal(cursor: sqlite3.Cursor) -> None:
    """Switch a new file to WAL. The switch needs the file alone and does not wait for it by itself
    (busy_timeout is not asked), so two processes that open a new file at once take turns here."""
    deadline = time.monotonic() + BUSY_SECONDS
    while cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "readonly" in str(error):
                return
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(WAL_PAUSE_SECONDS)
        else:
            return


def _on_sqlite_begin(connection: Connection) -> None:
    mode = connection.get_execution_options().get("slipstream_begin", "DEFERRED")
    connection.exec_driver_sql(f"BEGIN {mode}")
