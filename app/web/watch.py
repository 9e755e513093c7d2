"""Has the database changed since the last look? One kept connection, asked from threads.
Knows nothing of what changed."""

from typing import Any

from app.store.db import Database


class ChangeWatch:
    """Compares change marks. `forget` closes the connection; the next question opens another."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Any = None  # SQLAlchemy's type belongs to the store
        self._mark: object = None

    def has_changed(self) -> bool:
        """Whether another connection has committed since the last call (True where only reading
        tells)."""
        if self._connection is None:
            self._connection = self._database.engine.connect()
            self._mark = None
        mark = self._database.change_mark(self._connection)
        self._connection.rollback()  # an open transaction would see the same mark for ever
        before, self._mark = self._mark, mark
        return mark is None or mark != before

    def forget(self) -> None:
        """Close the kept connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
