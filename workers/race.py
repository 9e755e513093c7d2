"""One claimed run from its first unfinished lane to its frozen result: lane after lane."""

from collections.abc import Sequence
from pathlib import Path

import httpx
import structlog

from app.domain.recipe import Recipe
from app.domain.states import LaneState, RunState
from app.store import progress, results, runs
from app.store.db import Database
from app.store.queue import Claim
from workers import machine
from workers.host import Host
from workers.lane import LaneRace
from workers.pace import Pace
from workers.recorder import Recorder, utc_now
from workers.voice import Ahead

log = structlog.get_logger()

CONNECT_SECONDS = 10.0


async def race(database: Database, held: Claim, host: Host) -> RunState:
    """Race every unfinished lane of the run, then freeze it. Returns how the run ended.

    Cancelling this task stops the server at once and leaves the run's state to whoever cancelled.
    """
    recorder = Recorder(database, held)
    try:
        recipe = await recorder.read(progress.recipe_of, held.run_id)
        await recorder.write(progress.set_machine, machine.facts(host.gpu_facts))
        await _race_lanes(recorder, recipe, host)
        return await finish(recorder, host)
    finally:
        await recorder.close()


async def finish(recorder: Recorder, host: Host) -> RunState:
    """Close the run by what its lanes came to, and freeze it in the same transaction."""
    run_id = recorder.held.run_id
    snapshot = await recorder.read(runs.snapshot, run_id, now=utc_now())
    state, error = outcome([(lane.name, lane.state) for lane in snapshot.lanes])
    await recorder.write(results.finish, state, tool=host.tool, now=utc_now(), error=error)
    return state


def outcome(lanes: Sequence[tuple[str, LaneState]]) -> tuple[RunState, str | None]:
    """Finished when at least one lane raced to its end; failed lanes are named."""
    failed = [name for name, state in lanes if state is LaneState.FAILED]
    if len(failed) == len(lanes):
        return RunState.FAILED, f"Every lane failed: {', '.join(failed)}."
    return RunState.FINISHED, f"Failed lanes: {', '.join(failed)}." if failed else None


async def _race_lanes(recorder: Recorder, recipe: Recipe, host: Host) -> None:
    run_id = recorder.held.run_id
    work_dir = host.settings.runs_dir / run_id
    pace = Pace(recipe)
    timeout = httpx.Timeout(CONNECT_SECONDS)
    async with httpx.AsyncClient(timeout=timeout, trust_env=False) as client:
        lanes = await recorder.read(progress.unfinished_lanes, run_id)
        planned = [len(await recorder.read(progress.planned, run_id, lane)) for lane in lanes]
        for place, lane in enumerate(lanes):
            log.info("lane begins", run=run_id, lane=lane)
            ahead = Ahead(lanes=len(lanes) - place - 1, heats=sum(planned[place + 1 :]))
            folder = _lane_dir(work_dir, lane)
            await LaneRace(recorder, recipe, lane, host, client, folder, pace, ahead).run()


def _lane_dir(work_dir: Path, lane: str) -> Path:
    """A folder for this launch: a lane that is started again keeps its older logs."""
    for number in range(1, 1000):
        folder = work_dir / lane / str(number)
        if not folder.exists():
            folder.mkdir(parents=True)
            return folder
    raise RuntimeError(f"{work_dir / lane} is full of launches")
