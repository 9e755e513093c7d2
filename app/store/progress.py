"""What the worker writes while it races. Every write checks the claim;
False = the run is not ours."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from app.domain.heats import HeatSummary
from app.domain.recipe import Recipe
from app.domain.snapshot import Failure, Now, StepView
from app.domain.states import ENDED_HEATS, HeatState, LaneState, RunState
from app.domain.text import storable
from app.domain.ticks import Tick
from app.store import queue, runs, ticks
from app.store.queue import Claim
from app.store.tables import Cell, Heat, Lane, Run

_OPEN_HEATS = (HeatState.PLANNED.value, HeatState.RUNNING.value)


@dataclass(frozen=True)
class PlannedHeat:
    """A heat that is still to be driven."""

    id: int
    lane: str
    cell: int
    position: int
    workload: str
    context: int
    concurrency: int
    ordinal: int
    attempt: int


def recipe_of(session: Session, run_id: str) -> Recipe:
    """The recipe as it was submitted."""
    return Recipe.model_validate(runs.get(session, run_id).recipe)


def unfinished_lanes(session: Session, run_id: str) -> list[str]:
    """Lanes with heats to drive, in order; a failed lane is not tried again."""
    lanes = session.exec(select(Lane).where(Lane.run_id == run_id).order_by(col(Lane.position)))
    return [
        lane.name
        for lane in lanes
        if LaneState(lane.state) is LaneState.WAITING and planned(session, run_id, lane.name)
    ]


def planned(session: Session, run_id: str, lane: str) -> list[PlannedHeat]:
    """Heats of a lane that are still to be driven, cell by cell."""
    rows = session.exec(
        select(Heat, Cell)
        .join(Cell, col(Cell.id) == Heat.cell_id)
        .join(Lane, col(Lane.id) == Heat.lane_id)
        .where(Heat.run_id == run_id, Lane.name == lane, Heat.state == HeatState.PLANNED.value)
        .order_by(col(Cell.position), col(Heat.ordinal))
    )
    return [
        PlannedHeat(
            id=heat.id or 0,
            lane=lane,
            cell=cell.id or 0,
            position=cell.position,
            workload=cell.workload,
            context=cell.context,
            concurrency=cell.concurrency,
            ordinal=heat.ordinal,
            attempt=heat.attempt,
        )
        for heat, cell in rows
    ]


def set_machine(session: Session, held: Claim, machine: dict[str, Any]) -> bool:
    """Record the machine that races."""
    run = queue.owned(session, held)
    if run is None:
        return False
    run.machine = machine
    runs.touch(run)
    return True


def set_now(session: Session, held: Claim, now: Now, *, eta_seconds: float | None) -> bool:
    """Say what is being done and when it may be finished."""
    run = queue.owned(session, held)
    if run is None:
        return False
    run.now = now.model_dump(mode="json")
    run.eta_seconds = eta_seconds
    runs.touch(run)
    return True


def lane_step(
    session: Session, held: Claim, lane: str, state: LaneState, step: str, *, now: datetime
) -> bool:
    """A lane's next launch step begins; the one before it gets its length."""
    run = queue.owned(session, held)
    if run is None:
        return False
    row = _lane(session, held.run_id, lane)
    steps = _ended_steps(row, now)
    if not steps or steps[-1].name != step:
        steps.append(StepView(name=step, started_at=now))
    row.steps = [item.model_dump(mode="json") for item in steps]
    row.state = state.value
    runs.touch(run)
    return True


def lane_facts(session: Session, held: Claim, lane: str, facts: dict[str, Any]) -> bool:
    """Add facts (argv, env, url, engine_version, served_model, max_model_len, launch_seconds,
    warmups)."""
    run = queue.owned(session, held)
    if run is None:
        return False
    row = _lane(session, held.run_id, lane)
    row.facts = {**row.facts, **facts}
    runs.touch(run)
    return True


def lane_reset(session: Session, held: Claim, lane: str) -> bool:
    """A lane starts (again): its old launch steps and facts go."""
    run = queue.owned(session, held)
    if run is None:
        return False
    row = _lane(session, held.run_id, lane)
    row.steps, row.facts, row.failure, row.log_tail = [], {}, None, ""
    runs.touch(run)
    return True


def lane_done(session: Session, held: Claim, lane: str, *, log_tail: str, now: datetime) -> bool:
    """A lane has driven all its heats and its server is gone."""
    return _close_lane(session, held, lane, LaneState.DONE, log_tail, None, now)


def lane_failed(
    session: Session, held: Claim, lane: str, failure: Failure, *, log_tail: str, now: datetime
) -> bool:
    """A lane cannot go on: its open heats fail with it, the other lanes go on."""
    return _close_lane(session, held, lane, LaneState.FAILED, log_tail, failure, now)


def heat_begin(session: Session, held: Claim, heat: int, *, now: datetime) -> bool:
    """A heat starts."""
    run = queue.owned(session, held)
    row = session.get(Heat, heat)
    if run is None or row is None or row.state != HeatState.PLANNED.value:
        return False
    row.state = HeatState.RUNNING.value
    row.started_at = now
    runs.touch(run)
    return True


def heat_end(
    session: Session,
    held: Claim,
    heat: int,
    state: HeatState,
    *,
    summary: HeatSummary | None,
    flags: tuple[str, ...],
    error: str | None,
    now: datetime,
) -> bool:
    """A heat has ended with these counts and flags."""
    run = queue.owned(session, held)
    row = session.get(Heat, heat)
    if run is None or row is None or HeatState(row.state) in ENDED_HEATS:
        return False
    row.state = state.value
    row.summary = summary.model_dump(mode="json") if summary is not None else None
    row.flags = list(flags)
    row.error = storable(error) if error is not None else None
    row.finished_at = now
    session.flush()
    _count(session, run)
    runs.touch(run)
    return True


def tick(session: Session, held: Claim, second: Tick) -> bool:
    """Record one second of a heat."""
    if queue.owned(session, held) is None:
        return False
    ticks.append(session, second)
    return True


def finish(
    session: Session, held: Claim, state: RunState, *, now: datetime, error: str | None = None
) -> bool:
    """Close the run, if it is still ours."""
    run = queue.owned(session, held)
    if run is None:
        return False
    runs.end(session, run, state, now=now, error=error)
    return True


def _close_lane(
    session: Session,
    held: Claim,
    lane: str,
    state: LaneState,
    log_tail: str,
    failure: Failure | None,
    now: datetime,
) -> bool:
    run = queue.owned(session, held)
    if run is None:
        return False
    row = _lane(session, held.run_id, lane)
    row.steps = [item.model_dump(mode="json") for item in _ended_steps(row, now)]
    row.state = state.value
    row.log_tail = storable(log_tail)
    row.failure = failure.model_dump(mode="json") if failure is not None else None
    if failure is not None:
        for heat in session.exec(
            select(Heat).where(Heat.lane_id == row.id, col(Heat.state).in_(_OPEN_HEATS))
        ):
            heat.state = HeatState.FAILED.value
            heat.error = storable(failure.cause)
            heat.finished_at = now
        session.flush()
        _count(session, run)
    runs.touch(run)
    return True


def _ended_steps(row: Lane, now: datetime) -> list[StepView]:
    """The lane's steps, the current one ended at this moment."""
    steps = [StepView.model_validate(item) for item in row.steps]
    if steps and steps[-1].seconds is None:
        length = (now - steps[-1].started_at).total_seconds()
        steps[-1] = steps[-1].model_copy(update={"seconds": max(0.0, length)})
    return steps


def _count(session: Session, run: Run) -> None:
    done = [HeatState.DONE.value, HeatState.FAILED.value, HeatState.CANCELLED.value]
    run.heats_done = session.exec(
        select(func.count())
        .select_from(Heat)
        .where(Heat.run_id == run.id, col(Heat.state).in_(done))
    ).one()


def _lane(session: Session, run_id: str, name: str) -> Lane:
    return session.exec(select(Lane).where(Lane.run_id == run_id, Lane.name == name)).one()
