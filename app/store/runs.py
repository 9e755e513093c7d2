"""Runs: submitting, listing, reading whole, cancelling, deleting."""

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, func, or_
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from app.domain.errors import ConflictError, FieldProblem, NotFoundError, RecipeError
from app.domain.recipe import Recipe
from app.domain.snapshot import Provenance, RunView, Snapshot
from app.domain.states import ENDED_LANES, ENDED_RUNS, HeatState, LaneState, RunState
from app.domain.text import storable
from app.store import names, views
from app.store.tables import Cell, Heat, Lane, ResultRow, Run, TickRow

IDEMPOTENCY_KEY_CHARS = 200
_OPEN_HEATS = (HeatState.PLANNED.value, HeatState.RUNNING.value)


@dataclass(frozen=True)
class Submitted:
    """The run that a submission made, or had made before with the same key."""

    run_id: str
    is_new: bool


@dataclass(frozen=True)
class RunPage:
    """Runs, newest first, and where the next page begins."""

    runs: tuple[RunView, ...]
    next_cursor: str | None


@dataclass(frozen=True)
class Mark:
    """What the live tail compares to know whether a run has news."""

    version: int
    state: RunState
    last_tick: int


def submit(
    session: Session,
    recipe: Recipe,
    *,
    provenance: Provenance,
    now: datetime,
    idempotency_key: str | None = None,
    request_sha256: str | None = None,
) -> Submitted:
    """Queue a run with its lanes, cells and heats planned; the same key gives the same run
    again."""
    if idempotency_key is not None:
        known = _known_submission(session, idempotency_key, request_sha256)
        if known is not None:
            return Submitted(known, is_new=False)
    run = Run(
        id=names.run_id(),
        name=recipe.name,
        model=recipe.model,
        engine=recipe.engine.value,
        state=RunState.QUEUED.value,
        recipe=recipe.model_dump(mode="json"),
        provenance=provenance.model_dump(mode="json"),
        created_at=now,
        heats_total=len(recipe.lanes) * len(recipe.cells) * recipe.repeats,
        idempotency_key=idempotency_key,
        request_sha256=request_sha256,
    )
    try:
        with session.begin_nested():
            session.add(run)
    except IntegrityError:
        # Somebody sent the same key in the same moment and was quicker.
        known = _known_submission(session, idempotency_key or "", request_sha256)
        if known is None:
            raise
        return Submitted(known, is_new=False)
    _plan(session, run.id, recipe)
    return Submitted(run.id, is_new=True)


def list_runs(
    session: Session,
    *,
    now: datetime,
    limit: int = 50,
    cursor: str | None = None,
    state: RunState | None = None,
) -> RunPage:
    """One page of runs, newest first."""
    query = select(Run).order_by(col(Run.created_at).desc(), col(Run.id).desc()).limit(limit + 1)
    if state is not None:
        query = query.where(Run.state == state.value)
    if cursor is not None:
        created_at, run_id = _decode_cursor(cursor)
        query = query.where(
            or_(
                col(Run.created_at) < created_at,
                and_(col(Run.created_at) == created_at, col(Run.id) < run_id),
            )
        )
    rows = list(session.exec(query))
    more = rows[limit - 1] if len(rows) > limit else None
    page = rows[:limit]
    return RunPage(
        runs=tuple(_run_views(session, page)),
        next_cursor=_encode_cursor(more.created_at, more.id) if more is not None else None,
    )


def view(session: Session, run_id: str, *, now: datetime) -> RunView:
    """One run in short."""
    return _run_views(session, [get(session, run_id)])[0]


def snapshot(session: Session, run_id: str, *, now: datetime) -> Snapshot:
    """Everything about one run at this moment."""
    run = get(session, run_id)
    lanes = list(
        session.exec(select(Lane).where(Lane.run_id == run_id).order_by(col(Lane.position)))
    )
    cells = list(
        session.exec(select(Cell).where(Cell.run_id == run_id).order_by(col(Cell.position)))
    )
    heats = list(session.exec(select(Heat).where(Heat.run_id == run_id).order_by(col(Heat.id))))
    recipe = Recipe.model_validate(run.recipe)
    return Snapshot(
        run=_run_views(session, [run])[0],
        recipe=recipe,
        lanes=tuple(views.lane_view(lane, recipe) for lane in lanes),
        cells=views.cell_views(cells, lanes, heats),
        now=views.now_view(run.now),
        worker=run.worker,
        version=run.version,
        last_tick=_last_tick(session, run_id),
        machine=run.machine,
    )


def marks(session: Session, run_ids: list[str]) -> dict[str, Mark]:
    """Version, state and newest tick of these runs; a run that is gone is left out."""
    if not run_ids:
        return {}
    rows = session.exec(select(Run.id, Run.version, Run.state).where(col(Run.id).in_(run_ids)))
    return {
        run_id: Mark(version, RunState(state), _last_tick(session, run_id))
        for run_id, version, state in rows
    }


def request_cancel(session: Session, run_id: str, *, now: datetime) -> RunView:
    """Cancel a queued run at once; ask the worker to cancel a running one.
    Twice is as good as once."""
    run = get(session, run_id, for_update=True)
    if RunState(run.state) in ENDED_RUNS and run.state != RunState.CANCELLED.value:
        raise ConflictError(
            f"Run {run_id} has ended ({run.state}).", remedy="There is nothing to cancel."
        )
    if run.state == RunState.QUEUED.value:
        end(session, run, RunState.CANCELLED, now=now)
    elif run.state == RunState.RUNNING.value and _is_abandoned(run, now):
        run.epoch += 1  # should its worker come back after all, the run is no longer its own
        end(session, run, RunState.CANCELLED, now=now)
    elif run.state == RunState.RUNNING.value and run.cancel_requested_at is None:
        run.cancel_requested_at = now
        touch(run)
    session.flush()
    return _run_views(session, [run])[0]


def delete(session: Session, run_id: str) -> None:
    """Remove an ended run with its ticks; a frozen result stays."""
    run = get(session, run_id, for_update=True)
    if RunState(run.state) not in ENDED_RUNS:
        raise ConflictError(
            f"Run {run_id} is {run.state}.", remedy="Cancel it first, then delete it."
        )
    session.delete(run)


def get(session: Session, run_id: str, *, for_update: bool = False) -> Run:
    """The row itself; NotFoundError when there is none."""
    run = session.get(Run, run_id, with_for_update=for_update or None)
    if run is None:
        raise NotFoundError(
            f"There is no run {run_id[:40]!r}.", remedy="GET /api/v1/runs lists them."
        )
    return run


def touch(run: Run) -> None:
    """Tell viewers that the run has changed."""
    run.version += 1


def end(
    session: Session, run: Run, state: RunState, *, now: datetime, error: str | None = None
) -> None:
    """Close a run and whatever of it is still open."""
    run.state = state.value
    run.finished_at = now
    run.error = storable(error) if error is not None else None
    run.eta_seconds = None
    run.now = {}
    run.lease_until = None
    run.worker = None
    still_open = session.exec(
        select(Heat).where(Heat.run_id == run.id, col(Heat.state).in_(_OPEN_HEATS))
    ).all()
    cut_lanes = {heat.lane_id for heat in still_open}
    for lane in session.exec(select(Lane).where(Lane.run_id == run.id)):
        if LaneState(lane.state) not in ENDED_LANES:
            lane.state = _closing(state, has_open_heats=lane.id in cut_lanes).value
    for heat in still_open:
        heat.state = HeatState.CANCELLED.value
    touch(run)


def _closing(state: RunState, *, has_open_heats: bool) -> LaneState:
    """What an open lane comes to; one that drove all its heats has raced to its end."""
    if state is RunState.CANCELLED:
        return LaneState.CANCELLED
    if state is RunState.FINISHED and not has_open_heats:
        return LaneState.DONE
    return LaneState.FAILED


def _is_abandoned(run: Run, now: datetime) -> bool:
    """Whether the run's worker fell silent and nobody else has taken the run."""
    return run.lease_until is None or run.lease_until < now


def _plan(session: Session, run_id: str, recipe: Recipe) -> None:
    lanes = [
        Lane(run_id=run_id, name=name, position=place, state=LaneState.WAITING.value)
        for place, name in enumerate(recipe.lanes)
    ]
    cells = [
        Cell(run_id=run_id, position=place, workload=workload, context=context, concurrency=streams)
        for place, (workload, context, streams) in enumerate(recipe.cells)
    ]
    session.add_all([*lanes, *cells])
    session.flush()
    session.add_all(
        Heat(
            run_id=run_id,
            lane_id=lane.id or 0,
            cell_id=cell.id or 0,
            ordinal=ordinal,
            state=HeatState.PLANNED.value,
        )
        for lane in lanes
        for cell in cells
        for ordinal in range(1, recipe.repeats + 1)
    )


def _known_submission(session: Session, key: str, request_sha256: str | None) -> str | None:
    if not 0 < len(key) <= IDEMPOTENCY_KEY_CHARS:
        raise RecipeError(
            [FieldProblem("Idempotency-Key", "is empty or too long.", "Use 1 to 200 characters.")]
        )
    known = session.exec(select(Run).where(Run.idempotency_key == key)).first()
    if known is None:
        return None
    if known.request_sha256 != request_sha256:
        raise ConflictError(
            "This Idempotency-Key was used for another request.", remedy="Use a new key."
        )
    return known.id


def _run_views(session: Session, runs: list[Run]) -> list[RunView]:
    ids = [run.id for run in runs]
    results = {
        run_id: (slug, sentence)
        for run_id, slug, sentence in session.exec(
            select(ResultRow.run_id, ResultRow.slug, ResultRow.sentence).where(
                col(ResultRow.run_id).in_(ids)
            )
        )
    }
    lanes: dict[str, list[str]] = {}
    for run_id, name in session.exec(
        select(Lane.run_id, Lane.name).where(col(Lane.run_id).in_(ids)).order_by(col(Lane.position))
    ):
        lanes.setdefault(run_id, []).append(name)
    return [
        views.run_view(
            run, lanes.get(run.id, []), results.get(run.id), _queue_position(session, run)
        )
        for run in runs
    ]


def _queue_position(session: Session, run: Run) -> int | None:
    if run.state != RunState.QUEUED.value:
        return None
    before = session.exec(
        select(func.count())
        .select_from(Run)
        .where(
            Run.state == RunState.QUEUED.value,
            or_(
                col(Run.created_at) < run.created_at,
                and_(col(Run.created_at) == run.created_at, col(Run.id) < run.id),
            ),
        )
    ).one()
    return before + 1


def _last_tick(session: Session, run_id: str) -> int:
    newest = session.exec(select(func.max(TickRow.id)).where(TickRow.run_id == run_id)).one()
    return newest or 0


def _encode_cursor(created_at: datetime, run_id: str) -> str:
    return base64.urlsafe_b64encode(f"{created_at.isoformat()}|{run_id}".encode()).decode()


def _decode_cursor(cursor: str) -> tuple[datetime, str]:
    try:
        stamp, run_id = base64.urlsafe_b64decode(cursor.encode()).decode().split("|")
        created_at = datetime.fromisoformat(stamp)
        if created_at.tzinfo is None:
            raise ValueError(stamp)
    except (ValueError, binascii.Error):
        raise RecipeError(
            [FieldProblem("cursor", "is not one that this server gave.", "Start without a cursor.")]
        ) from None
    return created_at, run_id
