"""Which workers are there, and what they found on their hosts."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from app.store.tables import WorkerRow


@dataclass(frozen=True)
class WorkerView:
    """A worker as the dashboard shows it."""

    name: str
    host: str
    pid: int
    started_at: datetime
    seen_at: datetime
    engines: dict[str, dict[str, Any]]
    gpus: list[dict[str, Any]]
    run_id: str | None


def beat(session: Session, worker: WorkerView) -> None:
    """Say that this worker is alive (adds it when it is new)."""
    session.merge(
        WorkerRow(
            name=worker.name,
            host=worker.host,
            pid=worker.pid,
            started_at=worker.started_at,
            seen_at=worker.seen_at,
            engines=worker.engines,
            gpus=worker.gpus,
            run_id=worker.run_id,
        )
    )


def leave(session: Session, name: str) -> None:
    """This worker ends politely."""
    row = session.get(WorkerRow, name)
    if row is not None:
        session.delete(row)


def of_host(session: Session, host: str) -> tuple[WorkerView, ...]:
    """All workers ever heard of on this host that have not left."""
    rows = session.exec(select(WorkerRow).where(WorkerRow.host == host))
    return tuple(_view(row) for row in rows)


def living(
    session: Session, *, now: datetime, within_seconds: float = 15
) -> tuple[WorkerView, ...]:
    """Workers heard of lately, by name."""
    since = now - timedelta(seconds=within_seconds)
    rows = session.exec(
        select(WorkerRow).where(col(WorkerRow.seen_at) >= since).order_by(col(WorkerRow.name))
    )
    return tuple(_view(row) for row in rows)


def _view(row: WorkerRow) -> WorkerView:
    return WorkerView(
        name=row.name,
        host=row.host,
        pid=row.pid,
        started_at=row.started_at,
        seen_at=row.seen_at,
        engines=row.engines,
        gpus=row.gpus,
        run_id=row.run_id,
    )
