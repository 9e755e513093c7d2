"""From rows to the views of app.domain: no queries here, no arithmetic that the domain does not
do."""

from collections.abc import Sequence
from typing import Any

from app.domain.heats import HeatSummary
from app.domain.recipe import BASELINE, Recipe
from app.domain.snapshot import Failure, LaneView, Now, Provenance, RunView, StepView
from app.domain.states import HeatState, LaneState, RunState
from app.domain.summary import CellView, HeatView, cell_view, heat_view
from app.store.tables import Cell, Heat, Lane, Run


def run_view(
    run: Run, lanes: Sequence[str], result: tuple[str, str] | None, queue_position: int | None
) -> RunView:
    """A run in a list. `result` is (slug, sentence) of its frozen document."""
    return RunView(
        id=run.id,
        name=run.name,
        model=run.model,
        engine=run.engine,
        state=RunState(run.state),
        provenance=Provenance.model_validate(run.provenance),
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        lanes=tuple(lanes),
        heats_done=run.heats_done,
        heats_total=run.heats_total,
        eta_seconds=run.eta_seconds,
        queue_position=queue_position,
        is_cancelling=run.cancel_requested_at is not None and run.state == RunState.RUNNING.value,
        error=run.error,
        slug=result[0] if result else None,
        headline=result[1] if result else None,
    )


def lane_view(lane: Lane, recipe: Recipe) -> LaneView:
    """A lane with its launch steps and facts."""
    spec = recipe.lanes[lane.name]
    facts: dict[str, Any] = lane.facts
    return LaneView(
        id=lane.id or 0,
        name=lane.name,
        position=lane.position,
        is_baseline=lane.name == BASELINE,
        speculates=spec.speculates,
        drafter=spec.drafter,
        k=spec.k,
        state=LaneState(lane.state),
        steps=tuple(StepView.model_validate(step) for step in lane.steps),
        failure=Failure.model_validate(lane.failure) if lane.failure else None,
        log_tail=lane.log_tail,
        **facts,
    )


def cell_views(
    cells: Sequence[Cell], lanes: Sequence[Lane], heats: Sequence[Heat]
) -> tuple[CellView, ...]:
    """All cells; of a heat that was driven again only the last attempt counts."""
    names = {lane.id: lane.name for lane in lanes}
    latest: dict[tuple[int, int, int], Heat] = {}
    for heat in heats:
        key = (heat.cell_id, heat.lane_id, heat.ordinal)
        if key not in latest or latest[key].attempt < heat.attempt:
            latest[key] = heat
    shown: dict[int, list[HeatView]] = {}
    for heat in sorted(latest.values(), key=lambda heat: (heat.ordinal, heat.id or 0)):
        shown.setdefault(heat.cell_id, []).append(_heat_view(heat, names[heat.lane_id]))
    order = [lane.name for lane in lanes]
    return tuple(
        cell_view(
            id=cell.id or 0,
            position=cell.position,
            workload=cell.workload,
            context=cell.context,
            concurrency=cell.concurrency,
            lanes=order,
            heats=shown.get(cell.id or 0, []),
        )
        for cell in cells
    )


def now_view(now: dict[str, Any]) -> Now:
    """What the worker does at this moment."""
    return Now.model_validate(now)


def _heat_view(heat: Heat, lane: str) -> HeatView:
    return heat_view(
        id=heat.id or 0,
        lane=lane,
        cell=heat.cell_id,
        ordinal=heat.ordinal,
        attempt=heat.attempt,
        state=HeatState(heat.state),
        summary=HeatSummary.model_validate(heat.summary) if heat.summary else None,
        words=heat.flags,
        error=heat.error,
    )
