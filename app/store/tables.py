"""Every table. JSON columns hold models of app.domain; raw counts only,
rates are derived at the edge."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    Text,
    UniqueConstraint,
    true,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC datetimes in every database (SQLite forgets time zones)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("naive datetime: give UTC")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


BigId = BigInteger().with_variant(Integer, "sqlite")  # SQLite autoincrements INTEGER only


class Run(SQLModel, table=True):
    """One submitted recipe. The queue is this table: state queued, oldest first."""

    __tablename__ = "run"
    __table_args__ = (Index("ix_run_state_created", "state", "created_at"),)

    id: str = Field(primary_key=True, max_length=24)
    name: str
    model: str
    engine: str
    state: str = Field(max_length=16)
    recipe: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    provenance: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    machine: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    now: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    created_at: datetime = Field(sa_type=UtcDateTime)
    started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    heats_done: int = 0
    heats_total: int = 0
    eta_seconds: float | None = None
    cancel_requested_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    error: str | None = Field(default=None, sa_type=Text)
    version: int = 0
    worker: str | None = None
    epoch: int = 0
    lease_until: datetime | None = Field(default=None, sa_type=UtcDateTime)
    idempotency_key: str | None = Field(default=None, unique=True, max_length=200)
    request_sha256: str | None = Field(default=None, max_length=64)


class Lane(SQLModel, table=True):
    """One lane of a run and how its server stands."""

    __tablename__ = "lane"
    __table_args__ = (UniqueConstraint("run_id", "name"),)

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True, ondelete="CASCADE")
    name: str = Field(max_length=40)
    position: int
    state: str = Field(max_length=16)
    steps: list[dict[str, Any]] = Field(
        default_factory=list, sa_column=Column(JSON, nullable=False)
    )
    facts: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    """url, argv, env, engine_version, served_model, max_model_len, launch_seconds, warmups."""
    failure: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON, nullable=True))
    log_tail: str = Field(default="", sa_type=Text)


class Cell(SQLModel, table=True):
    """One point of the matrix."""

    __tablename__ = "cell"
    __table_args__ = (UniqueConstraint("run_id", "position"),)

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True, ondelete="CASCADE")
    position: int
    workload: str = Field(max_length=32)
    context: int
    concurrency: int


class Heat(SQLModel, table=True):
    """One lane driving one cell once. A heat that was cut off stays, and a new attempt is added."""

    __tablename__ = "heat"
    __table_args__ = (UniqueConstraint("lane_id", "cell_id", "ordinal", "attempt"),)

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True, ondelete="CASCADE")
    lane_id: int = Field(foreign_key="lane.id", ondelete="CASCADE")
    cell_id: int = Field(foreign_key="cell.id", ondelete="CASCADE")
    ordinal: int
    attempt: int = 1
    state: str = Field(max_length=16)
    started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    summary: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON, nullable=True))
    flags: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    error: str | None = Field(default=None, sa_type=Text)


class TickRow(SQLModel, table=True):
    """One second of one heat. Append-only; the id is the SSE event id."""

    __tablename__ = "tick"
    __table_args__ = (
        UniqueConstraint("heat_id", "second"),
        Index("ix_tick_run_id", "run_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: int | None = Field(
        default=None, sa_column=Column(BigId, primary_key=True, autoincrement=True)
    )
    run_id: str = Field(foreign_key="run.id", ondelete="CASCADE")
    lane: str = Field(max_length=40)
    cell_id: int
    heat_id: int = Field(foreign_key="heat.id", ondelete="CASCADE")
    second: int
    length_s: float = 1.0
    tokens: int
    in_flight: int
    is_steady: bool = Field(
        default=True, sa_column=Column(Boolean, nullable=False, server_default=true())
    )
    running: int | None = None
    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    accepted_per_position: list[int] | None = Field(
        default=None, sa_column=Column(JSON(none_as_null=True), nullable=True)
    )
    text: str = Field(default="", sa_type=Text)
    gpu: dict[str, Any] | None = Field(
        default=None, sa_column=Column(JSON(none_as_null=True), nullable=True)
    )


class ResultRow(SQLModel, table=True):
    """A frozen document. Never updated; a deleted run keeps its result unless that is deleted
    too."""

    __tablename__ = "result"

    slug: str = Field(primary_key=True, max_length=80)
    run_id: str = Field(index=True, unique=True, max_length=24)
    sha256: str = Field(max_length=64)
    document: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    created_at: datetime = Field(sa_type=UtcDateTime)
    title: str
    sentence: str = Field(sa_type=Text)
    provenance: str = Field(max_length=16)


class TokenRow(SQLModel, table=True):
    """A secret, by its sha256: bearer token, one-use link or browser session."""

    __tablename__ = "token"

    hash: str = Field(primary_key=True, max_length=64)
    kind: str = Field(max_length=16)
    label: str = ""
    created_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    used_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class WorkerRow(SQLModel, table=True):
    """A worker that is or was there: heartbeat, host, and the engines found on it."""

    __tablename__ = "worker"

    name: str = Field(primary_key=True, max_length=120)
    host: str
    pid: int
    started_at: datetime = Field(sa_type=UtcDateTime)
    seen_at: datetime = Field(sa_type=UtcDateTime)
    engines: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    gpus: list[dict[str, Any]] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    run_id: str | None = None
