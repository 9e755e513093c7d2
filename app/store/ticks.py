"""Ticks: one short transaction each, append-only, read in the order of their ids."""

from collections.abc import Collection

from sqlalchemy import insert
from sqlmodel import Session, col, select

from app.domain.ticks import GpuSample, Tick
from app.store.tables import TickRow

_TICKS = TickRow.__table__  # type: ignore[attr-defined]  # SQLModel sets it on table classes


def append(session: Session, tick: Tick) -> int:
    """Record one second of a heat; returns its id, which rises within a run."""
    values = tick.model_dump(mode="json", exclude={"id", "run", "cell", "heat"})
    values |= {"run_id": tick.run, "cell_id": tick.cell, "heat_id": tick.heat}
    result = session.execute(insert(_TICKS).values(**values).returning(_TICKS.c.id))
    return int(result.scalar_one())


def after(session: Session, run_id: str, last_id: int = 0, *, limit: int = 1000) -> list[Tick]:
    """At most `limit` ticks of a run with ids above `last_id`, oldest first."""
    rows = session.exec(
        select(TickRow)
        .where(TickRow.run_id == run_id, col(TickRow.id) > last_id)
        .order_by(col(TickRow.id))
        .limit(limit)
    )
    return [_tick(row) for row in rows]


def of_heats(session: Session, heat_ids: Collection[int]) -> list[Tick]:
    """All ticks of these heats, oldest first."""
    rows = session.exec(
        select(TickRow).where(col(TickRow.heat_id).in_(heat_ids)).order_by(col(TickRow.id))
    )
    return [_tick(row) for row in rows]


def tokens_of_heat(session: Session, heat_id: int) -> list[int]:
    """Tokens of each full second of a heat, in order; of a shorter heat what there is."""
    rows = session.exec(
        select(TickRow.tokens, TickRow.length_s)
        .where(TickRow.heat_id == heat_id)
        .order_by(col(TickRow.second))
    ).all()
    full = [tokens for tokens, length_s in rows if length_s >= 1]
    return full or [tokens for tokens, _ in rows]


def _tick(row: TickRow) -> Tick:
    return Tick(
        id=row.id or 0,
        run=row.run_id,
        lane=row.lane,
        cell=row.cell_id,
        heat=row.heat_id,
        second=row.second,
        length_s=row.length_s,
        tokens=row.tokens,
        in_flight=row.in_flight,
        is_steady=row.is_steady,
        running=row.running,
        drafts=row.drafts,
        drafted=row.drafted,
        accepted=row.accepted,
        accepted_per_position=tuple(row.accepted_per_position)
        if row.accepted_per_position
        else None,
        text=row.text,
        gpu=GpuSample.model_validate(row.gpu) if row.gpu else None,
    )
