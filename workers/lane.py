"""One lane: launch its server, prove it, warm it up, drive its heats, and leave nothing behind."""

import asyncio
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import httpx
import structlog

from app.config import resource
from app.domain.engine_args import ENGINE_RULES
from app.domain.errors import LaunchError, LoadError, RecipeError, SlipstreamError, StoreError
from app.domain.heats import HeatSummary
from app.domain.recipe import Recipe
from app.domain.snapshot import Failure, WarmUp
from app.domain.states import HeatState, LaunchStep
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
from workers.paths import presentable
from workers.ports import HOST, free_port
from workers.recorder import LostRunError, Recorder, utc_now
from workers.voice import Ahead, Voice

log = structlog.get_logger()

LOG_LINES = 200
CANCELLED_GRACE_SECONDS = 0.5
FAILED_GRACE_SECONDS = 2.0
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
        ahead: Ahead,
    ) -> None:
        self.recorder, self.recipe, self.lane = recorder, recipe, lane
        self.host, self.client, self.work_dir, self.pace = host, client, work_dir, pace
        self.engine: Engine = ENGINES[recipe.engine]
        self.gpus = LaneGpus(host.gpus, is_used=ENGINE_RULES[recipe.engine].uses_gpus)
        self.voice = Voice(recorder, recipe, lane, pace, ahead)
        self._warmups: dict[int, WarmUp] = {}

    async def run(self) -> None:
        """Race the lane to its end; whatever fails is recorded, and the run goes on.

        When the task is cancelled, the run lost or the database gone, the server is stopped at
        once and nothing is recorded.
        """
        server: Server | None = None
        try:
            await self.recorder.write(progress.lane_reset, self.lane)
            self.voice.go(LaunchStep.PREFLIGHT)
            plan = self._plan()
            await self._tell_plan(plan)
            launcher = LAUNCHERS[self.recipe.launcher.kind]
            server = await launcher.start(plan.argv, plan.env, self.work_dir)
            await self._race(plan, server)
            await self._stop(server, plan.stop_grace_seconds)
            await self.recorder.write(
                progress.lane_done, self.lane, log_tail=self._tail(server), now=utc_now()
            )
        except (LostRunError, StoreError):
            raise
        except (LaunchError, RecipeError, EngineDiedError) as error:
            await self._fail(error, server)
        except LoadProcessError as error:
            await self._fail(LoadError(str(error), remedy="Race again."), server)
        except Exception as error:
            # The lane's door: what nobody foresaw fails this lane, and the others go on.
            log.exception("lane broke", lane=self.lane)
            await self._fail(LoadError(f"{type(error).__name__}: {error}"), server)
        finally:
            if server is not None:
                await _stop_soon(server)
            await self.voice.hush()

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
            self.client, plan, server, self.engine, self.recipe.ready_seconds, self.voice.go
        )
        self.pace.launched(time.monotonic() - begun)
        await self.voice.flush()
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
            self.client,
            plan,
            is_ready.model,
            self.engine,
            self.recipe,
            self.recorder.held.run_id,
            self.lane,
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
        self.voice.go(LaunchStep.WARMING)
        begun = time.monotonic()
        longest = max(heat.context for heat in heats)
        for concurrency in sorted({heat.concurrency for heat in heats}):
            await self.voice.warming(concurrency, len(heats))
            warmed = await warmup.warm_up(driver, writer, self.recipe, concurrency, longest)
            if server.exited() is not None:
                raise self._death(server)
            self._warmups[concurrency] = warmed
            facts = [item.model_dump(mode="json") for item in self._warmups.values()]
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
        self.voice.go(LaunchStep.RACING)
        failures = 0
        for place, heat in enumerate(heats):
            begun = time.monotonic()
            await self.voice.driving(heat, len(heats) - place)
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
        await self.recorder.write(progress.heat_begin, heat.id, now=utc_now())

        async def record(second: Second) -> None:
            await self.recorder.tick(
                make_tick(self.recorder.held.run_id, heat, second, self.host.redact)
            )

        decode = self.recipe.decode
        seconds = decode.seconds if decode.mode == "forced" else None
        try:
            shapes = await writer.shapes(heat)
        except LaunchError as error:  # no prompts for this heat; the next one may get them
            await self._end_heat(heat, HeatState.FAILED, error=self.host.redact(error.message))
            return error.message
        driven = await driver.drive(f"h{heat.id}", shapes, seconds, record)
        died = await _has_died(server, driven)
        summary = summarise(driven, self.host.redact)
        words = judge.flags(
            summary, self._asked(heat, plan), self._seen(driven, heat, server, died)
        )
        failed = summary.error or (None if summary.window else "no steady window")
        state = HeatState.FAILED if failed else HeatState.DONE
        await self._end_heat(heat, state, summary=summary, flags=words, error=failed)
        if died:
            raise self._death(server)
        return failed

    async def _end_heat(
        self,
        heat: PlannedHeat,
        state: HeatState,
        *,
        summary: HeatSummary | None = None,
        flags: tuple[str, ...] = (),
        error: str | None = None,
    ) -> None:
        await self.recorder.write(
            progress.heat_end,
            heat.id,
            state,
            summary=summary,
            flags=flags,
            error=error,
            now=utc_now(),
        )

    def _asked(self, heat: PlannedHeat, plan: LaunchPlan) -> judge.Asked:
        decode, spec = self.recipe.decode, self.recipe.lanes[self.lane]
        return judge.Asked(
            is_forced=decode.mode == "forced",
            seconds=decode.seconds,
            max_tokens=decode.max_tokens,
            context=heat.context,
            speculates=plan.expects_speculation,
            k=spec.k,
            drafts_every_step=bool(plan.argv) and spec.method in (None, "mtp"),
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
            steady_seconds=len(running),
            seconds_with_others=sum((one.running or 0) > heat.concurrency for one in running),
            foreign_gpu_processes=self.gpus.foreign(server),
            engine_died=died,
            is_count_settled=driven.after.is_settled and driven.before.is_settled,
        )

    def _death(self, server: Server) -> EngineDiedError:
        found = diagnose(self.recipe.engine, self._tail(server), server.exited())
        return EngineDiedError(found.cause, remedy=found.remedy)

    async def _fail(self, error: SlipstreamError, server: Server | None) -> None:
        """Stop the server first (its last words matter), then record why the lane failed."""
        step = error.step if isinstance(error, LaunchError) else self.voice.step.value
        clean = self.host.redact
        line, tail = "", ""
        if server is not None:
            await self._stop(server, FAILED_GRACE_SECONDS)
            tail = self._tail(server)
            line = diagnose(self.recipe.engine, tail, server.exited()).line
        failure = Failure(
            step=step,
            cause=clean(error.message),
            remedy=clean(error.remedy),
            line=clean(line),
        )
        log.warning("lane failed", lane=self.lane, step=step, cause=failure.cause)
        await self.voice.flush()
        await self.recorder.write(
            progress.lane_failed, self.lane, failure, log_tail=tail, now=utc_now()
        )

    async def _stop(self, server: Server, grace_seconds: float) -> None:
        """Stop the server and wait until the GPUs are as empty as before its launch."""
        self.voice.go(LaunchStep.STOPPING)
        await server.stop(grace_seconds)
        if not await self.gpus.wait_memory_back():
            log.warning("GPU memory is not back", lane=self.lane)
        await self.voice.flush()

    def _tail(self, server: Server) -> str:
        return self.host.redact(server.log_tail(LOG_LINES))

    async def _tell_plan(self, plan: LaunchPlan) -> None:
        facts = {
            "argv": [presentable(piece) for piece in plan.argv],
            "env": plan.env,
            "url": plan.base_url,
        }
        await self.recorder.write(progress.lane_facts, self.lane, facts)
        heats = await self.recorder.read(progress.planned, self.recorder.held.run_id, self.lane)
        await self.voice.launching(len(heats))


def make_tick(run_id: str, heat: PlannedHeat, second: Second, clean: Callable[[str], str]) -> Tick:
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
        is_steady=second.is_steady,
        running=second.running,
        drafts=counts.drafts if counts else None,
        drafted=counts.drafted if counts else None,
        accepted=counts.accepted if counts else None,
        accepted_per_position=counts.per_position if counts else None,
        text=clean(tick.text),
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


async def _stop_soon(server: Server) -> None:
    """Make sure that nothing of the server is left, even while this task is being cancelled.

    Stopping twice does no harm: a server that is gone is gone, and a shorter grace wins.
    """
    task = asyncio.ensure_future(server.stop(CANCELLED_GRACE_SECONDS))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
