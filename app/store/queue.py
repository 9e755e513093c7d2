"""The queue is the run table itself: claiming with lease and epoch.
Knows nothing of engines or HTTP."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import and_, or_, update
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from app.domain.states import ENDED_LANES, HeatState, LaneState, RunState
from app.store import runs
from app.store.tables import Heat, Lane, Run


@dataclass(frozen=True)
class Claim:
    """Proof that a worker holds a run: every write names the epoch, and a newer epoch wins."""

    run_id: str
    worker: str
    epoch: int


@dataclass(frozen=True)
class Renewal:
    """Answer to a heartbeat: still ours? asked to cancel?"""

    is_ours: bool
    is_cancelled: bool


def claim(
    session: Session,
    worker: str,
    *,
    now: datetime,
    lease_seconds: float,
    engines: Collection[str],
    only: str | None = None,
) -> Claim | None:
    """Give the oldest waiting run, or one whose worker fell silent, to `worker`;
    None when there is none.

    `engines` are the kinds this worker can start; `only` names one run (headless races).
    """
    query = _claimable(now, engines).limit(1).with_for_update(skip_locked=True)
    if only is not None:
        query = query.where(Run.id == only)
    run = session.exec(query).first()
    if run is None:
        return None
    run.state = RunState.RUNNING.value
    run.worker = worker
    run.epoch += 1
    run.lease_until = now + timedelta(seconds=lease_seconds)
    run.started_at = run.started_at or now
    runs.touch(run)
    _reopen(session, run.id, now)
    return Claim(run.id, worker, run.epoch)


def renew(session: Session, held: Claim, *, now: datetime, lease_seconds: float) -> Renewal:
    """Keep the run for another lease; tells whether it is still ours and whether to cancel."""
    done = session.execute(
        update(Run)
        .where(
            col(Run.id) == held.run_id,
            col(Run.epoch) == held.epoch,
            col(Run.state) == RunState.RUNNING.value,
        )
        .values(lease_until=now + timedelta(seconds=lease_seconds))
        .returning(col(Run.cancel_requested_at))
    ).first()
    return Renewal(is_ours=done is not None, is_cancelled=done is not None and done[0] is not None)


def look(session: Session, held: Claim) -> Renewal:
    """Whether the run is still ours and whether it shall be cancelled, without writing."""
    row = session.exec(
        select(Run.epoch, Run.state, Run.cancel_requested_at).where(Run.id == held.run_id)
    ).first()
    is_ours = row is not None and (row[0], row[1]) == (held.epoch, RunState.RUNNING.value)
    return Renewal(is_ours=is_ours, is_cancelled=is_ours and row is not None and row[2] is not None)


def has_work(session: Session, *, now: datetime, engines: Collection[str]) -> bool:
    """Whether a claim could find something; asks without locking anything."""
    return session.exec(_claimable(now, engines).limit(1)).first() is not None


def expire(session: Session, worker: str, *, now: datetime) -> None:
    """End the leases of a worker that is known to be dead."""
    session.execute(
        update(Run)
        .where(col(Run.worker) == worker, col(Run.state) == RunState.RUNNING.value)
        .values(lease_until=now - timedelta(seconds=1))
    )


def give_back(session: Session, held: Claim, *, now: datetime) -> bool:
    """Return an unfinished run to the queue (the worker is told to stop);
    False if it was not ours."""
    run = owned(session, held)
    if run is None:
        return False
    if run.cancel_requested_at is not None:
        runs.end(session, run, RunState.CANCELLED, now=now)
        return True
    run.state = RunState.QUEUED.value
    run.worker = None
    run.lease_until = None
    run.now = {}
    run.eta_seconds = None
    runs.touch(run)
    _reopen(session, run.id, now)
    return True


def owned(session: Session, held: Claim) -> Run | None:
    """The run, when this claim still holds it; None once somebody else has it or it has ended."""
    run = session.get(Run, held.run_id, with_for_update=True)
    if run is None or run.epoch != held.epoch or run.state != RunState.RUNNING.value:
        return None
    return run


def _claimable(now: datetime, engines: Collection[str]) -> SelectOfScalar[Run]:
    """Runs that wait, and runs whose worker fell silent; oldest first."""
    waiting = col(Run.state) == RunState.QUEUED.value
    orphaned = and_(col(Run.state) == RunState.RUNNING.value, col(Run.lease_until) < now)
    return (
        select(Run)
        .where(or_(waiting, orphaned), col(Run.engine).in_(engines))
        .order_by(col(Run.created_at), col(Run.id))
    )


def _reopen(session: Session, run_id: str, now: datetime) -> None:
    """Heats that were cut off get a new attempt; lanes that were under way wait again.

    A lane that has no heat left is done, and a failed lane is not tried again.
    """
    lanes = session.exec(select(Lane).where(Lane.run_id == run_id)).all()
    failed = {lane.id for lane in lanes if LaneState(lane.state) is LaneState.FAILED}
    cut = session.exec(
        select(Heat).where(Heat.run_id == run_id, Heat.state == HeatState.RUNNING.value)
    ).all()
    for heat in cut:
        heat.finished_at = now
        if heat.lane_id in failed:
            heat.state = HeatState.FAILED.value
            continue
        heat.state = HeatState.INTERRUPTED.value
        session.add(
            Heat(
                run_id=run_id,
                lane_id=heat.lane_id,
                cell_id=heat.cell_id,
                ordinal=heat.ordinal,
                attempt=heat.attempt + 1,
                state=HeatState.PLANNED.value,
            )
        )
    session.flush()
    for lane in lanes:
        if LaneState(lane.state) in ENDED_LANES:
            continue
        left = session.exec(
            select(Heat.id)
            .where(Heat.lane_id == lane.id, Heat.state == HeatState.PLANNED.value)
            .limit(1)
        ).first()
        lane.state = (LaneState.WAITING if left is not None else LaneState.DONE).value
