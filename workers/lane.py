"""One lane: launch its server, prove it, warm it up, drive its heats, and leave nothing behind."""

import asyncio
import time
import uuid
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import httpx
import structlog

from app.config import resource
from app.domain.errors import LaunchError, LoadError, RecipeError, SlipstreamError
from app.domain.recipe import Recipe
from app.domain.snapshot import Failure, Now, WarmUp
from app.domain.states import HeatState, LaneState, LaunchStep
from app.domain.ticks import Tick
from app.store import progress
from app.store.progress import PlannedHeat
from workers import judge, prompting, ready, warmup
from workers.diagnose import diagnose
from workers.engines import ENGINES
from workers.engines.base import Engine, LaunchPlan, Seat
from workers.heat import Driven, HeatDriver, Second, summarise
from workers.host import Host
from workers.lane_gpus import LaneGpus
from workers.launchers import LAUNCHERS
from workers.launchers.base import Server
from workers.load.client import LoadProcess, LoadProcessError
from workers.meter import Meter, delta
from workers.pace import Pace
from workers.ports import HOST, free_port
from workers.recorder import Recorder, utc_now

log = structlog.get_logger()

LOG_LINES = 200
CANCELLED_GRACE_SECONDS = 0.5
DEATH_SECONDS = 3.0
FAILED_HEATS_IN_A_ROW = 3
OPEN_DEADLINE_SECONDS = 600.0


class EngineDiedError(SlipstreamError):
    """The server ended while it was being raced."""

    title = "The server died"


class LaneRace:
    """One lane of a claimed run on this host."""

    def __init__(
        self,
        recorder: Recorder,
        recipe: Recipe,
        lane: str,
        host: Host,
        client: httpx.AsyncClient,
        work_dir: Path,
        pace: Pace,
    ) -> None:
        self.recorder, self.recipe, self.lane = recorder, recipe, lane
        self.host, self.client, self.work_dir, self.pace = host, client, work_dir, pace
        self.engine: Engine = ENGINES[recipe.engine]
        self.gpus = LaneGpus(host.gpus)
        self._step = LaunchStep.PREFLIGHT
        self._pending: set[asyncio.Task[None]] = set()
        self._warmups: dict[int, WarmUp] = {}

    async def run(self) -> None:
        """Race the lane to its end; whatever fails is recorded, and the run goes on.

        When the task is cancelled, the server is stopped at once and nothing is recorded.
        """
        server: Server | None = None
        grace = CANCELLED_GRACE_SECONDS
        try:
            await self.recorder.write(progress.lane_reset, self.lane)
            self._go(LaunchStep.PREFLIGHT)
            plan = self._plan()
            await self._tell_plan(plan)
            launcher = LAUNCHERS[self.recipe.launcher.kind]
            server = await launcher.start(plan.argv, plan.env, self.work_dir)
            await self._race(plan, server)
            grace = plan.stop_grace_seconds
            await self._stop(server, grace)
            if not await self.gpus.wait_memory_back():
                log.warning("GPU memory is not back", lane=self.lane)
            await self._flush()
            await self.recorder.write(
                progress.lane_done, self.lane, log_tail=server.log_tail(LOG_LINES), now=utc_now()
            )
        except LoadProcessError as error:
            await self._fail(LoadError(str(error), remedy="Race again."), server)
        except (LaunchError, RecipeError, EngineDiedError) as error:
            await self._fail(error, server)
        finally:
            if server is not None:
                await _uncancelled(server.stop(grace))
            await self._flush()

    def _plan(self) -> LaunchPlan:
        seat = Seat(
            host=HOST,
            port=free_port(),
            served_model=f"slipstream-{uuid.uuid4().hex[:8]}",
            work_dir=self.work_dir,
            binaries=self.host.binaries,
            published_dir=resource("published"),
            secrets=self.host.secrets,
        )
        return self.engine.plan(self.recipe, self.lane, seat)

    async def _race(self, plan: LaunchPlan, server: Server) -> None:
        begun = time.monotonic()
        if not plan.argv:
            await ready.check_address(plan)
        is_ready = await ready.wait_ready(
            self.client, plan, server, self.engine, self.recipe.ready_seconds, self._go
        )
        self.pace.launched(time.monotonic() - begun)
        await self._flush()
        await self.recorder.write(
            progress.lane_facts,
            self.lane,
            {
                "engine_version": is_ready.version,
                "served_model": is_ready.model,
                "max_model_len": is_ready.max_model_len,
                "launch_seconds": round(is_ready.seconds, 3),
            },
        )
        heats = await self.recorder.read(progress.planned, self.recorder.held.run_id, self.lane)
        writer = prompting.Writer(
            self.client, plan, is_ready.model, self.engine, self.recipe, self.recorder.held.run_id
        )
        await writer.check_lengths(heats, is_ready.max_model_len)
        self.gpus.look(server)
        async with LoadProcess() as load:
            driver = HeatDriver(
                engine=self.engine,
                plan=plan,
                model=is_ready.model,
                load=load,
                meter=Meter(self.client, self.engine, plan),
                sample_gpu=self.gpus.sample,
                open_deadline_seconds=min(OPEN_DEADLINE_SECONDS, self.recipe.ready_seconds),
            )
            await self._warm_up(driver, writer, heats, server)
            await self._drive_all(driver, writer, heats, server, plan)

    async def _warm_up(
        self,
        driver: HeatDriver,
        writer: prompting.Writer,
        heats: list[PlannedHeat],
        server: Server,
    ) -> None:
        if not self.recipe.warmup_seconds or not heats:
            return
        self._go(LaunchStep.WARMING)
        begun = time.monotonic()
        longest = max(heat.context for heat in heats)
        for concurrency in sorted({heat.concurrency for heat in heats}):
            await self._say(f"{self.lane} · warming up at {concurrency} streams", heats)
            warmed = await warmup.warm_up(driver, writer, self.recipe, concurrency, longest)
            self._raise_if_dead(server)
            self._warmups[concurrency] = warmed
            facts = [item.model_dump(mode="json") for item in self._warmups.values()]
            await self._flush()
            await self.recorder.write(progress.lane_facts, self.lane, {"warmups": facts})
        self.pace.warmed(time.monotonic() - begun)

    async def _drive_all(
        self,
        driver: HeatDriver,
        writer: prompting.Writer,
        heats: list[PlannedHeat],
        server: Server,
        plan: LaunchPlan,
    ) -> None:
        self._go(LaunchStep.RACING)
        await self._flush()
        failures = 0
        for place, heat in enumerate(heats):
            begun = time.monotonic()
            await self._say(describe(heat, self.recipe.repeats), heats[place:], heat)
            failed = await self._drive(driver, writer, heat, server, plan)
            self.pace.drove(time.monotonic() - begun)
            failures = failures + 1 if failed else 0
            if failures >= FAILED_HEATS_IN_A_ROW:
                raise LaunchError(
                    f"{failures} heats in a row failed: {failed}",
                    step=LaunchStep.RACING.value,
                    remedy="See the heats' errors.",
                )

    async def _drive(
        self,
        driver: HeatDriver,
        writer: prompting.Writer,
        heat: PlannedHeat,
        server: Server,
        plan: LaunchPlan,
    ) -> str | None:
        """Drive one heat and record it. Returns the error when it failed, None when it counts."""
        shapes = await writer.shapes(heat)
        await self.recorder.write(progress.heat_begin, heat.id, now=utc_now())

        async def record(second: Second) -> None:
            await self.recorder.tick(make_tick(self.recorder.held.run_id, heat, second))

        decode = self.recipe.decode
        seconds = decode.seconds if decode.mode == "forced" else None
        driven = await driver.drive(f"h{heat.id}", shapes, seconds, record)
        died = await _has_died(server, driven)
        summary = summarise(driven)
        words = judge.flags(
            summary, self._asked(heat, plan), self._seen(driven, heat, server, died)
        )
        failed = summary.error or (None if summary.window else "no steady window")
        await self.recorder.write(
            progress.heat_end,
            heat.id,
            HeatState.FAILED if failed else HeatState.DONE,
            summary=summary,
            flags=words,
            error=failed,
            now=utc_now(),
        )
        if died:
            raise self._death(server)
        return failed

    def _asked(self, heat: PlannedHeat, plan: LaunchPlan) -> judge.Asked:
        decode = self.recipe.decode
        return judge.Asked(
            is_forced=decode.mode == "forced",
            seconds=decode.seconds,
            max_tokens=decode.max_tokens,
            context=heat.context,
            speculates=plan.expects_speculation,
            k=self.recipe.lanes[self.lane].k,
        )

    def _seen(self, driven: Driven, heat: PlannedHeat, server: Server, died: bool) -> judge.Seen:
        change = delta(driven.before.counters, driven.after.counters)
        warmed = self._warmups.get(heat.concurrency)
        running = [second for second in driven.steady if second.running is not None]
        return judge.Seen(
            is_warm=warmed is None or warmed.agreed,
            has_counters=driven.after.counters is not None,
            cached_tokens=change.cached_tokens,
            preemptions=change.preemptions,
            seconds_short=sum((one.running or 0) < heat.concurrency for one in running),
            seconds_with_others=sum((one.running or 0) > heat.concurrency for one in running),
            foreign_gpu_processes=self.gpus.foreign(server),
            engine_died=died,
            is_count_settled=driven.after.is_settled and driven.before.is_settled,
        )

    def _raise_if_dead(self, server: Server) -> None:
        if server.exited() is not None:
            raise self._death(server)

    def _death(self, server: Server) -> EngineDiedError:
        found = diagnose(self.recipe.engine, server.log_tail(LOG_LINES), server.exited())
        return EngineDiedError(found.cause, remedy=found.remedy)

    async def _fail(self, error: SlipstreamError, server: Server | None) -> None:
        """Stop the server first (its last words matter), then record why the lane failed."""
        step = error.step if isinstance(error, LaunchError) else self._step.value
        line = ""
        tail = ""
        if server is not None:
            await self._stop(server, CANCELLED_GRACE_SECONDS)
            tail = server.log_tail(LOG_LINES)
            line = diagnose(self.recipe.engine, tail, server.exited()).line
        failure = Failure(step=step, cause=error.message, remedy=error.remedy, line=line)
        log.warning("lane failed", lane=self.lane, step=step, cause=error.message)
        await self._flush()
        await self.recorder.write(
            progress.lane_failed, self.lane, failure, log_tail=tail, now=utc_now()
        )

    async def _stop(self, server: Server, grace_seconds: float) -> None:
        self._go(LaunchStep.STOPPING)
        await _uncancelled(server.stop(grace_seconds))

    async def _tell_plan(self, plan: LaunchPlan) -> None:
        await self.recorder.write(
            progress.lane_facts,
            self.lane,
            {"argv": list(plan.argv), "env": plan.env, "url": plan.base_url},
        )

    async def _say(
        self, text: str, left: list[PlannedHeat], heat: PlannedHeat | None = None
    ) -> None:
        now = Now(
            lane=self.lane,
            cell=heat.cell if heat else None,
            heat=heat.id if heat else None,
            ordinal=heat.ordinal if heat else None,
            text=text,
            since=utc_now(),
        )
        lanes = list(self.recipe.lanes)
        lanes_left = len(lanes) - lanes.index(self.lane) - 1
        per_lane = len(self.recipe.cells) * self.recipe.repeats
        eta = self.pace.eta_seconds(
            heats_left=len(left) + lanes_left * per_lane, lanes_left=lanes_left
        )
        await self._flush()
        await self.recorder.write(progress.set_now, now, eta_seconds=eta)

    def _go(self, step: LaunchStep) -> None:
        """Announce a step; the write follows in order, off this call."""
        self._step = step
        state = _STATE_OF_STEP.get(step, LaneState.LAUNCHING)
        write = self.recorder.write(progress.lane_step, self.lane, state, step.value, now=utc_now())
        self._pending.add(asyncio.ensure_future(write))

    async def _flush(self) -> None:
        """Wait for announced steps; raises what went wrong with them."""
        pending, self._pending = self._pending, set()
        if pending:
            await asyncio.gather(*pending)


_STATE_OF_STEP = {
    LaunchStep.RACING: LaneState.RACING,
    LaunchStep.STOPPING: LaneState.STOPPING,
}


def describe(heat: PlannedHeat, repeats: int) -> str:
    """A heat in words for people."""
    streams = "1 stream" if heat.concurrency == 1 else f"{heat.concurrency} streams"
    return (
        f"{heat.lane} · heat {heat.ordinal} of {repeats} · "
        f"{heat.workload}, {heat.context:,} tokens of context, {streams}"
    )


def make_tick(run_id: str, heat: PlannedHeat, second: Second) -> Tick:
    """One second as it is stored and broadcast."""
    counts, tick = second.acceptance, second.tick
    return Tick(
        run=run_id,
        lane=heat.lane,
        cell=heat.cell,
        heat=heat.id,
        second=tick.second,
        length_s=tick.length_s,
        tokens=tick.tokens,
        in_flight=tick.in_flight,
        running=second.running,
        drafts=counts.drafts if counts else None,
        drafted=counts.drafted if counts else None,
        accepted=counts.accepted if counts else None,
        accepted_per_position=counts.per_position if counts else None,
        text=tick.text,
        gpu=second.gpu,
    )


async def _has_died(server: Server, driven: Driven) -> bool:
    """Whether the server ended; after an error it gets a moment to do so."""
    failed = any(stream.finish == "error" for stream in driven.done.streams)
    deadline = time.monotonic() + (DEATH_SECONDS if failed else 0)
    while server.exited() is None:
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(0.05)
    return True


async def _uncancelled(work: Awaitable[Any]) -> None:
    """Finish `work` even when this task is cancelled meanwhile; the cancellation follows after."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
