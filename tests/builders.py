"""Builders of runs, snapshots and results for tests: plain domain models, nothing of the store.

make_snapshot(lanes=("baseline", "mtp-k4"), cells=2, repeats=3)   a finished run
make_running()                                                    the second lane is racing
make_queued() · make_launching() · make_failed()                  other states
make_result()                                                     the frozen document
make_ticks(snapshot)                                              seconds of every heat
"""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from app.domain import result as documents
from app.domain.acceptance import Acceptance
from app.domain.heats import ClientLoad, GapPercentiles, HeatSummary, StreamSummary, Window
from app.domain.recipe import Recipe, validate
from app.domain.result import Result, Spark, ToolFacts
from app.domain.snapshot import (
    Failure,
    LaneView,
    Now,
    Provenance,
    RunView,
    Snapshot,
    StepView,
    WarmUp,
)
from app.domain.states import HeatState, LaneState, RunState
from app.domain.summary import CellView, HeatView, cell_view, heat_view
from app.domain.ticks import GpuSample, Tick

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SPEEDS = {"baseline": 100.0, "mtp-k1": 131.0, "mtp-k2": 152.0, "mtp-k4": 183.0, "mtp-k8": 96.0}
WORDS = "def merge(left, right): take the smaller head until one list is empty; then the rest. "
REPLAY = Provenance(
    kind="replay",
    plays="Blackwell Shenanigans 003: Gemma 4 MTP on a B300 (blog post)",
    hardware="NVIDIA B300 SXM6 AC",
)
GPU = GpuSample(
    power_w=612.0, memory_mib=182_331, memory_total_mib=275_040, sm_clock_mhz=1920,
    temperature_c=61, utilisation_percent=97,
)  # fmt: skip
MACHINE: dict[str, Any] = {
    "host": "bench-1",
    "os": "Debian GNU/Linux 13",
    "cpu": "AMD EPYC 9654",
    "cores": 96,
    "memory_mib": 515_000,
    "python": "3.13.5",
    "gpus": [{"name": "NVIDIA B300", "memory_mib": 275_040, "driver": "580.126.09"}],
}


def make_recipe(
    lanes: tuple[str, ...] = ("baseline", "mtp-k4"),
    *,
    contexts: tuple[int, ...] = (0, 8192),
    concurrency: tuple[int, ...] = (1, 4),
    repeats: int = 3,
    name: str = "Gemma 4 26B-A4B, one B300",
    **more: Any,
) -> Recipe:
    """A replay recipe with these lanes (mtp-kN drafts N tokens)."""
    return validate(
        {
            "name": name,
            "model": "google/gemma-4-26B-A4B-it",
            "engine": "replay",
            "args": {"race": "b300-sglang-gemma4-26b-a4b"},
            "lanes": {lane: _lane_spec(lane) for lane in lanes},
            "matrix": {"contexts": list(contexts), "concurrency": list(concurrency)},
            "decode": {"seconds": 12},
            "repeats": repeats,
            **more,
        }
    )


def _lane_spec(lane: str) -> dict[str, Any]:
    return {} if lane == "baseline" else {"k": int(lane.rpartition("k")[2])}


def make_summary(speed: float, *, streams: int = 1, k: int = 0, seconds: float = 12) -> HeatSummary:
    """What a heat at `speed` tokens per second left behind."""
    tokens = round(speed * seconds)
    drafts = round(tokens / (1 + 0.7 * k)) if k else 0
    kept = tuple(round(drafts * 0.86**place) for place in range(1, k + 1))
    return HeatSummary(
        tokens=tokens,
        chunks=tokens // 2,
        chars=tokens * 4,
        seconds=seconds,
        window=Window(open_s=0.2, close_s=seconds, tokens=speed * (seconds - 0.2)),
        streams=tuple(
            StreamSummary(
                stream=place, tokens=tokens // streams, prompt_tokens=16, ttft_s=0.11 + 0.01 * place
            )
            for place in range(streams)
        ),
        gaps=GapPercentiles(p50_ms=9.1, p95_ms=11.8, p99_ms=14.2),
        client=ClientLoad(cpu_seconds=0.4, cpu_share=0.03, loop_lag_p99_ms=0.4, rss_mb=31),
        acceptance=Acceptance(
            drafts=drafts, drafted=drafts * k, accepted=sum(kept), per_position=kept
        )
        if k
        else None,
        sample_text=WORDS * 3,
    )


def make_heat(
    id: int,
    lane: str,
    cell: int,
    ordinal: int,
    *,
    speed: float,
    state: HeatState = HeatState.DONE,
    streams: int = 1,
    words: tuple[str, ...] = (),
) -> HeatView:
    """One heat; it has a summary when it is done."""
    k = int(lane.rpartition("k")[2]) if lane != "baseline" else 0
    done = state is HeatState.DONE
    return heat_view(
        id=id,
        lane=lane,
        cell=cell,
        ordinal=ordinal,
        attempt=1,
        state=state,
        summary=make_summary(speed, streams=streams, k=k) if done else None,
        words=words,
    )


def speed_of(lane: str, cell: int, ordinal: int, streams: int) -> float:
    """The speed that builders give a heat: lanes differ, cells slow down, heats wobble by 1 %."""
    wobble = 1 + 0.01 * math.sin(7 * cell + 3 * ordinal + len(lane))
    return SPEEDS.get(lane, 120.0) * streams**0.8 * (1 - 0.06 * cell) * wobble


def make_cells(
    recipe: Recipe,
    *,
    done: int | None = None,
    running: bool = False,
    words: dict[tuple[str, int], tuple[str, ...]] | None = None,
) -> tuple[CellView, ...]:
    """Cells of a recipe; the first `done` heats (lane by lane) have ended, the next one runs."""
    lanes = tuple(recipe.lanes)
    by_cell: dict[int, list[HeatView]] = {place: [] for place in range(len(recipe.cells))}
    count = 0
    for lane in lanes:
        for place, (_, _, streams) in enumerate(recipe.cells):
            for ordinal in range(1, recipe.repeats + 1):
                count += 1
                heat = make_heat(
                    count,
                    lane,
                    place + 1,
                    ordinal,
                    speed=speed_of(lane, place, ordinal, streams),
                    state=_state(count, done, running),
                    streams=streams,
                    words=(words or {}).get((lane, place), ()),
                )
                by_cell[place].append(heat)
    return tuple(
        cell_view(
            id=place + 1,
            position=place,
            workload=workload,
            context=context,
            concurrency=streams,
            lanes=lanes,
            heats=by_cell[place],
        )
        for place, (workload, context, streams) in enumerate(recipe.cells)
    )


def _state(count: int, done: int | None, running: bool) -> HeatState:
    if done is None or count <= done:
        return HeatState.DONE
    return HeatState.RUNNING if running and count == done + 1 else HeatState.PLANNED


def make_lane(
    recipe: Recipe, position: int, state: LaneState = LaneState.DONE, **more: Any
) -> LaneView:
    """One lane of a recipe as it stands in `state`."""
    name = list(recipe.lanes)[position]
    spec = recipe.lanes[name]
    argv = ("replay-server", "--race", "b300", "--port", str(8100 + position), "--seed", "42")
    extra = ("--speculative-num-steps", str(spec.k)) if spec.k else ()
    waits = state is LaneState.WAITING
    return LaneView(
        id=position + 1,
        name=name,
        position=position,
        is_baseline=name == "baseline",
        speculates=spec.speculates,
        drafter="google/gemma-4-26B-A4B-it-assistant" if spec.speculates else None,
        k=spec.k,
        state=state,
        steps=() if waits else make_steps(),
        argv=() if waits else argv + extra,
        engine_version=None if waits else "1.0",
        launch_seconds=None if waits else 3.4,
        max_model_len=None if waits else 262_144,
        warmups=() if waits else (WarmUp(concurrency=1, probes=(61.0, 99.2, 99.9), agreed=True),),
        **more,
    )


def make_steps(*, is_launching: bool = False) -> tuple[StepView, ...]:
    """Launch steps; the last one is under way when the lane is launching."""
    names = ("preflight", "starting", "loading weights", "ready", "warming up")
    steps = tuple(
        StepView(name=name, started_at=NOON + timedelta(seconds=2 * place), seconds=2.0)
        for place, name in enumerate(names)
    )
    return (*steps[:2], steps[2].model_copy(update={"seconds": None})) if is_launching else steps


def make_run(
    recipe: Recipe | None = None,
    state: RunState = RunState.FINISHED,
    *,
    provenance: Provenance = REPLAY,
    **more: Any,
) -> RunView:
    """A run in a list."""
    recipe = recipe or make_recipe()
    total = len(recipe.lanes) * len(recipe.cells) * recipe.repeats
    facts: dict[str, Any] = {
        "id": "abcdefgh2345",
        "name": recipe.name,
        "model": recipe.model,
        "engine": recipe.engine.value,
        "state": state,
        "provenance": provenance,
        "created_at": NOON,
        "started_at": None if state is RunState.QUEUED else NOON + timedelta(seconds=5),
        "finished_at": NOON + timedelta(minutes=9) if state is RunState.FINISHED else None,
        "lanes": tuple(recipe.lanes),
        "heats_done": total if state is RunState.FINISHED else 0,
        "heats_total": total,
    }
    return RunView(**{**facts, **more})


def make_snapshot(
    lanes: tuple[str, ...] = ("baseline", "mtp-k4"),
    *,
    words: dict[tuple[str, int], tuple[str, ...]] | None = None,
    provenance: Provenance = REPLAY,
    **recipe_facts: Any,
) -> Snapshot:
    """A run that has finished, with every heat done."""
    recipe = make_recipe(lanes, **recipe_facts)
    return Snapshot(
        run=make_run(recipe, provenance=provenance, slug="gemma-4-26b-abcdefgh2345"),
        recipe=recipe,
        lanes=tuple(make_lane(recipe, place) for place in range(len(lanes))),
        cells=make_cells(recipe, words=words),
        version=40,
        machine=MACHINE,
    )


def make_running(lanes: tuple[str, ...] = ("baseline", "mtp-k4")) -> Snapshot:
    """The baseline is done; the second lane drives its second heat of the first cell."""
    recipe = make_recipe(lanes)
    done = len(recipe.cells) * recipe.repeats + 1
    states = [LaneState.DONE, LaneState.RACING, *[LaneState.WAITING] * (len(lanes) - 2)]
    return Snapshot(
        run=make_run(recipe, RunState.RUNNING, heats_done=done, eta_seconds=184.0),
        recipe=recipe,
        lanes=tuple(make_lane(recipe, place, state) for place, state in enumerate(states)),
        cells=make_cells(recipe, done=done, running=True),
        now=Now(
            lane=lanes[1],
            cell=1,
            heat=done + 1,
            ordinal=2,
            text=f"{lanes[1]} · heat 2 of 3 · code, no context, 1 stream",
            since=NOON,
        ),
        worker="bench-1:4711",
        version=20,
        machine=MACHINE,
    )


def make_launching() -> Snapshot:
    """The baseline's server is loading weights; nothing has been raced."""
    recipe = make_recipe()
    baseline = make_lane(recipe, 0, LaneState.LAUNCHING)
    baseline = baseline.model_copy(update={"steps": make_steps(is_launching=True), "warmups": ()})
    return Snapshot(
        run=make_run(recipe, RunState.RUNNING),
        recipe=recipe,
        lanes=(baseline, make_lane(recipe, 1, LaneState.WAITING)),
        cells=make_cells(recipe, done=0),
        now=Now(lane="baseline", text="baseline · loading weights", since=NOON),
        worker="bench-1:4711",
        version=4,
    )


def make_queued() -> Snapshot:
    """Second in the queue."""
    recipe = make_recipe()
    return Snapshot(
        run=make_run(recipe, RunState.QUEUED, queue_position=2),
        recipe=recipe,
        lanes=tuple(make_lane(recipe, place, LaneState.WAITING) for place in range(2)),
        cells=make_cells(recipe, done=0),
    )


def make_failed() -> Snapshot:
    """The variant never came up; the baseline's numbers stand."""
    recipe = make_recipe()
    half = len(recipe.cells) * recipe.repeats
    failure = Failure(
        step="loading weights",
        cause="CUDA out of memory while loading the drafter.",
        remedy="Lower mem-fraction-static, or race on a GPU with more memory.",
        line="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    )
    lane = make_lane(recipe, 1, LaneState.FAILED, failure=failure)
    log = "INFO loading drafter\nINFO 12.1 GiB free\n" + failure.line
    return Snapshot(
        run=make_run(recipe, RunState.FAILED, heats_done=half, error="lane mtp-k4 failed"),
        recipe=recipe,
        lanes=(make_lane(recipe, 0), lane.model_copy(update={"log_tail": log})),
        cells=make_cells(recipe, done=half),
        version=30,
    )


def make_tick(
    snapshot: Snapshot, heat: HeatView, second: int, *, id: int = 0, gpu: bool = False
) -> Tick:
    """Second `second` of a heat of this snapshot."""
    cell = next(one for one in snapshot.cells if one.id == heat.cell)
    speed = speed_of(heat.lane, cell.position, heat.ordinal, cell.concurrency)
    lane = next(one for one in snapshot.lanes if one.name == heat.lane)
    tokens = round(speed * (0.86 if second == 0 else 1 + 0.03 * math.sin(second + heat.id)))
    drafts = round(tokens / (1 + 0.7 * lane.k)) if lane.k else None
    kept = tuple(round((drafts or 0) * 0.86**n) for n in range(1, (lane.k or 0) + 1))
    return Tick(
        id=id, run=snapshot.run.id, lane=heat.lane, cell=heat.cell, heat=heat.id, second=second,
        tokens=tokens,
        in_flight=cell.concurrency,
        drafts=drafts,
        drafted=drafts * (lane.k or 0) if drafts is not None else None,
        accepted=sum(kept) if drafts is not None else None,
        accepted_per_position=kept or None,
        text=WORDS,
        gpu=GPU if gpu else None,
    )  # fmt: skip


def make_ticks(snapshot: Snapshot, *, seconds: int = 12, gpu: bool = False) -> list[Tick]:
    """Every second of every heat that has run, oldest first; a running heat is half way."""
    ticks: list[Tick] = []
    heats = [heat for cell in snapshot.cells for lane in cell.lanes.values() for heat in lane.heats]
    for heat in sorted(heats, key=lambda one: one.id):
        length = {HeatState.DONE: seconds, HeatState.RUNNING: seconds // 2}.get(heat.state, 0)
        for second in range(length):
            ticks.append(make_tick(snapshot, heat, second, id=len(ticks) + 1, gpu=gpu))
    return ticks


def make_result(snapshot: Snapshot | None = None) -> Result:
    """The frozen document of a finished run."""
    snapshot = snapshot or make_snapshot()
    head, ticks = documents.headline(snapshot.cells), make_ticks(snapshot)
    sparks = tuple(
        Spark(
            lane=lane,
            cell=head.cell or 0,
            tokens=tuple(
                tick.tokens
                for tick in ticks
                if tick.lane == lane and tick.cell == (head.cell or 0) + 1
            )[:12],
        )
        for lane in (("baseline", head.lane) if head.lane else ())
    )
    return documents.build(snapshot, ToolFacts(version="0.1.0", commit="4119e63"), sparks)
