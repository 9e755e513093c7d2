"""Alembic's door: runs on the connection that app.store.db hands over; batch mode for SQLite."""

from typing import Literal

from alembic import context
from sqlmodel import SQLModel
from sqlmodel.sql.sqltypes import AutoString

from app.store import tables


def _render(kind: str, item: object, _context: object) -> str | Literal[False]:
    """Migrations name plain SQLAlchemy types, so that they outlive our own classes."""
    if kind == "type" and isinstance(item, tables.UtcDateTime):
        return "sa.DateTime(timezone=True)"
    if kind == "type" and isinstance(item, AutoString):
        return f"sa.String(length={item.length})" if item.length else "sa.String()"
    return False


connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("migrations are run by app.store.db.upgrade(); `slipstream up` calls it")

context.configure(
    connection=connection,
    target_metadata=SQLModel.metadata,
    render_as_batch=True,
    compare_type=True,
    render_item=_render,
)
with context.begin_transaction():
    context.run_migrations()
