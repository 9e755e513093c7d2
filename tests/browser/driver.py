"""Drives a run through the store as a worker would, second by second, under the test's control."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from app.domain.recipe import Recipe
from app.domain.result import ToolFacts
from app.domain.snapshot import Failure, Now, Snapshot, WarmUp
from app.domain.states import HeatState, LaneState, RunState
from app.store import progress, queue, results, runs, ticks, workers
from app.store.db import Database
from app.store.progress import PlannedHeat
from app.store.queue import Claim
from app.store.workers import WorkerView
from tests import builders

WORKER = "bench-1:4711"
FOR_EVER_S = 86_400
SWEEP = ("baseline", "mtp-k1", "mtp-k2", "mtp-k4", "mtp-k8")
FLAGS_OF: dict[str, tuple[str, ...]] = {"mtp-k1": ("throttled",), "mtp-k2": ("stopped-early",)}

Made = TypeVar("Made")


def now() -> datetime:
    return datetime.now(UTC)


def connect_worker(db: Database) -> None:
    """A worker that the dashboard takes for living."""
    view = WorkerView(WORKER, "bench-1", 4711, now(), now() + timedelta(days=1), {"replay": {}},
                      [{"name": "NVIDIA B300"}], None)  # fmt: skip
    with db.write() as session:
        workers.beat(session, view)


@dataclass
class Race:
    """One run under way."""

    db: Database
    recipe: Recipe = field(default_factory=builders.make_recipe)
    run_id: str = ""
    held: Claim | None = None

    def submit(self) -> "Race":
        with self.db.write() as session:
            made = runs.submit(session, self.recipe, provenance=builders.REPLAY, now=now())
        self.run_id = made.run_id
        return self

    def claim(self) -> "Race":
        with self.db.write() as session:
            self.held = queue.claim(
                session, WORKER, now=now(), lease_seconds=FOR_EVER_S, engines=["replay"],
                only=self.run_id,
            )  # fmt: skip
            progress.set_machine(session, self.claimed, builders.MACHINE)
        return self

    @property
    def claimed(self) -> Claim:
        assert self.held is not None
        return self.held

    def snapshot(self) -> Snapshot:
        with self.db.read() as session:
            return runs.snapshot(session, self.run_id, now=now())

    def step(self, lane: str, state: LaneState, name: str) -> None:
        with self.db.write() as session:
            progress.lane_step(session, self.claimed, lane, state, name, now=now())
            doing = Now(lane=lane, text=f"{lane} · {name}", since=now())
            progress.set_now(session, self.claimed, doing, eta_seconds=90)

    def launch(self, lane: str) -> None:
        for name in ("preflight", "starting", "loading weights", "ready", "warming up"):
            self.step(lane, LaneState.LAUNCHING, name)
        view = builders.make_lane(self.recipe, list(self.recipe.lanes).index(lane))
        facts = view.model_dump(
            mode="json", include={"argv", "engine_version", "launch_seconds", "max_model_len"}
        )
        facts["warmups"] = [
            WarmUp(concurrency=1, probes=(61.0, 99.2, 99.9), agreed=True).model_dump(mode="json")
        ]
        with self.db.write() as session:
            progress.lane_facts(session, self.claimed, lane, facts)
        self.step(lane, LaneState.RACING, "racing")

    def heats(self, lane: str) -> list[PlannedHeat]:
        with self.db.read() as session:
            return progress.planned(session, self.run_id, lane)

    def begin(self, heat: PlannedHeat) -> None:
        text = f"{heat.lane} · heat {heat.ordinal} of {self.recipe.repeats} · {heat.workload}"
        doing = Now(lane=heat.lane, cell=heat.cell, heat=heat.id, ordinal=heat.ordinal,
                    text=text, since=now())  # fmt: skip
        with self.db.write() as session:
            progress.heat_begin(session, self.claimed, heat.id, now=now())
            progress.set_now(session, self.claimed, doing, eta_seconds=60)

    def tick(self, heat: PlannedHeat, second: int, **more: Any) -> int:
        view = builders.make_heat(heat.id, heat.lane, heat.cell, heat.ordinal, speed=1)
        tick = builders.make_tick(self.snapshot(), view, second, gpu=True)
        with self.db.write() as session:
            return ticks.append(session, tick.model_copy(update=more))

    def end(self, heat: PlannedHeat, *flags: str) -> None:
        speed = builders.speed_of(heat.lane, heat.position, heat.ordinal, heat.concurrency)
        k = self.recipe.lanes[heat.lane].k or 0
        summary = builders.make_summary(speed, streams=heat.concurrency, k=k)
        with self.db.write() as session:
            progress.heat_end(
                session, self.claimed, heat.id, HeatState.DONE, summary=summary, flags=flags,
                error=None, now=now(),
            )  # fmt: skip

    def drive(self, lane: str, *, seconds: int = 12, flags: tuple[str, ...] = ()) -> None:
        """A whole lane: launch, every heat, done."""
        self.launch(lane)
        for heat in self.heats(lane):
            self.begin(heat)
            for second in range(seconds):
                self.tick(heat, second)
            self.end(heat, *flags)
        with self.db.write() as session:
            progress.lane_done(session, self.claimed, lane, log_tail="INFO bye", now=now())

    def fail(self, lane: str) -> None:
        failure = builders.make_failed().lanes[1].failure or Failure(step="", cause="")
        self.step(lane, LaneState.LAUNCHING, "loading weights")
        with self.db.write() as session:
            progress.lane_failed(
                session, self.claimed, lane, failure, log_tail="INFO loading\n" + failure.line,
                now=now(),
            )  # fmt: skip

    def finish(self, state: RunState = RunState.FINISHED) -> str:
        """End the run and freeze it; the result's slug."""
        with self.db.write() as session:
            progress.finish(session, self.claimed, state, now=now())
        with self.db.write() as session:
            tool = ToolFacts(version="0.1.0", commit="4119e63")
            return results.freeze(session, self.run_id, tool=tool, now=now()).slug


def finished(db: Database, **recipe_facts: Any) -> tuple[str, str]:
    """A whole race of two lanes: (run id, slug)."""
    race = Race(db, builders.make_recipe(**recipe_facts)).submit().claim()
    for lane in race.recipe.lanes:
        race.drive(lane)
    return race.run_id, race.finish()


def half_way(db: Database) -> tuple[Race, PlannedHeat]:
    """The baseline is done; the variant is in its second heat, seven seconds old."""
    race = Race(db).submit().claim()
    race.drive("baseline")
    race.launch("mtp-k4")
    first, second, *_ = race.heats("mtp-k4")
    race.begin(first)
    for moment in range(12):
        race.tick(first, moment)
    race.end(first)
    race.begin(second)
    for moment in range(7):
        race.tick(second, moment)
    return race, second


def every_state(db: Database, make: Callable[..., Made]) -> Made:
    """One run in every state."""
    run, slug = finished(db)
    sweep = Race(db, builders.make_recipe(SWEEP, concurrency=(1, 4, 8))).submit().claim()
    for lane in SWEEP:
        sweep.drive(lane, seconds=3, flags=FLAGS_OF.get(lane, ()))
    sweep_slug = sweep.finish()
    failed = Race(db).submit().claim()
    failed.drive("baseline", seconds=3)
    failed.fail("mtp-k4")
    failed_slug = failed.finish(RunState.FAILED)
    running, _ = half_way(db)
    launching = Race(db).submit().claim()
    launching.step("baseline", LaneState.LAUNCHING, "starting")
    launching.step("baseline", LaneState.LAUNCHING, "loading weights")
    return make(
        finished=run,
        slug=slug,
        sweep=sweep.run_id,
        sweep_slug=sweep_slug,
        failed=failed.run_id,
        failed_slug=failed_slug,
        running=running.run_id,
        launching=launching.run_id,
        queued=Race(db).submit().run_id,
    )
