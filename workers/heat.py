"""Drives one heat: sends the prompts through the load process,
merges counters and GPU into ticks."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Self

from app.domain.acceptance import Acceptance
from app.domain.heats import (
    ClientLoad,
    GapPercentiles,
    GpuSummary,
    HeatSummary,
    StreamSummary,
    Window,
)
from app.domain.ticks import GpuSample, clip
from workers.engines.base import Counters, Engine, LaunchPlan, RequestShape
from workers.load import messages
from workers.load.client import LoadProcess, LoadProcessError
from workers.meter import Meter, Settled, acceptance_delta, delta

SETTLE_SECONDS = 10.0
SAMPLE_CHARACTERS = 600
SAMPLE_BYTES = 4096
FRESH_SECONDS = 0.5

Sampler = Callable[[], GpuSample | None]


@dataclass(frozen=True)
class Second:
    """One tick of the load process with what counters and GPU said at its end."""

    tick: messages.Tick
    is_steady: bool = False
    """Whether all of it came after the window had opened."""
    running: int | None = None
    waiting: int | None = None
    acceptance: Acceptance | None = None
    """Drafts of this second; seconds of a heat add up to the heat's."""
    gpu: GpuSample | None = None


@dataclass(frozen=True)
class Driven:
    """A heat that has been driven: everything that was seen, nothing judged yet."""

    done: messages.Done
    seconds: tuple[Second, ...]
    before: Settled
    after: Settled

    @property
    def steady(self) -> list[Second]:
        """Full seconds inside the steady window."""
        window = self.done.window
        if window is None:
            return []
        return [
            second
            for second in self.seconds
            if window.open_s <= second.tick.second and second.tick.second + 1 <= window.close_s
        ]


@dataclass
class HeatDriver:
    """Drives heats on one ready server, one after the other."""

    engine: Engine
    plan: LaunchPlan
    model: str
    load: LoadProcess
    meter: Meter
    sample_gpu: Sampler
    open_deadline_seconds: float
    _last: Counters | None = field(default=None, init=False)
    _held: messages.Tick | None = field(default=None, init=False)
    _open_s: float | None = field(default=None, init=False)

    async def drive(
        self,
        name: str,
        shapes: Sequence[RequestShape],
        seconds: float | None,
        on_second: Callable[[Second], Awaitable[None]] | None = None,
    ) -> Driven:
        """Drive all streams at once and come back when the server rests again.

        `on_second` gets every second as it ends; the last one after the server has come to rest,
        so that the acceptance of all seconds adds up to the heat's.
        """
        before = await self.meter.settled(SETTLE_SECONDS)
        self._last = before.counters
        order = self._plan_drive(name, shapes, seconds)
        async with _Writer(on_second) as writer, aclosing(self.load.drive(order)) as events:
            done = await self._follow(events, writer)
            after = await self.meter.settled(SETTLE_SECONDS)
            last = self._held or _empty_tick(done, writer.seen)
            writer.put(await self._merge(last, after.counters, is_fresh=False))
        return Driven(done, tuple(writer.seen), before, after)

    async def _follow(
        self, events: AsyncGenerator[messages.Event], writer: "_Writer"
    ) -> messages.Done:
        """Merge every full second as it ends; the partial one is kept for the counters' rest."""
        self._held, t0, self._open_s = None, time.monotonic(), None
        async for event in events:
            match event:
                case messages.Started():
                    t0 = event.t0_monotonic
                case messages.WindowOpen():
                    self._open_s = event.at_s
                case messages.Tick(partial=True):
                    self._held = event
                case messages.Tick():
                    counters = await self.meter.read()
                    late = time.monotonic() - (t0 + event.second + event.length_s)
                    is_fresh = late < FRESH_SECONDS
                    writer.put(await self._merge(event, counters, is_fresh=is_fresh))
                case messages.Done():
                    return event
                case _:
                    continue
        raise LoadProcessError("the load process ended a heat without saying so")

    async def _merge(
        self, tick: messages.Tick, counters: Counters | None, *, is_fresh: bool
    ) -> Second:
        """A reading that comes late still counts drafts, but says nothing about who was running."""
        earlier, gpu = self._last, await asyncio.to_thread(self.sample_gpu)
        is_steady = self._open_s is not None and tick.second >= self._open_s and not tick.partial
        if counters is None:
            return Second(tick, is_steady=is_steady, gpu=gpu)
        self._last = counters
        return Second(
            tick,
            is_steady=is_steady,
            running=counters.running if is_fresh else None,
            waiting=counters.waiting if is_fresh else None,
            acceptance=(
                acceptance_delta(earlier.acceptance, counters.acceptance) if earlier else None
            ),
            gpu=gpu,
        )

    def _plan_drive(
        self, name: str, shapes: Sequence[RequestShape], seconds: float | None
    ) -> messages.Drive:
        requests = [self.engine.request(shape, self.model) for shape in shapes]
        return messages.Drive(
            id=name,
            base_url=self.plan.base_url,
            path=requests[0][0],
            bodies=tuple(body for _, body in requests),
            headers=dict(self.plan.headers),
            seconds=seconds,
            open_deadline_s=self.open_deadline_seconds,
        )


class _Writer:
    """Hands seconds on in order without holding up who reads the next one."""

    def __init__(self, on_second: Callable[[Second], Awaitable[None]] | None) -> None:
        self.seen: list[Second] = []
        self._on_second = on_second
        self._queue: asyncio.Queue[Second | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._hand_on())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._task is None:
            return
        if kind is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            return
        self._queue.put_nowait(None)
        await self._task

    def put(self, second: Second) -> None:
        """Take one more second; raises what went wrong with an earlier one."""
        if self._task is not None and self._task.done():
            self._task.result()
        self.seen.append(second)
        self._queue.put_nowait(second)

    async def _hand_on(self) -> None:
        while (second := await self._queue.get()) is not None:
            if self._on_second is not None:
                await self._on_second(second)


def summarise(driven: Driven, clean: Callable[[str], str] = str) -> HeatSummary:
    """The raw counts of a driven heat as they are stored; `clean` takes secrets out of texts."""
    done = driven.done
    change = delta(driven.before.counters, driven.after.counters)
    errors = [stream.error for stream in done.streams if stream.finish == "error"]
    return HeatSummary(
        tokens=done.tokens,
        chunks=done.chunks,
        chars=done.chars,
        seconds=done.seconds,
        source=done.source,
        window=Window(**asdict(done.window)) if done.window else None,
        streams=tuple(_stream(one, clean) for one in done.streams),
        gaps=GapPercentiles.model_validate(asdict(done.itl)),
        client=ClientLoad.model_validate(asdict(done.client)),
        acceptance=change.acceptance,
        counter_tokens=change.tokens,
        counter_prompt_tokens=change.prompt_tokens,
        gpu=_gpu_summary([second.gpu for second in driven.steady if second.gpu is not None]),
        sample_text=clean(
            clip("".join(second.tick.text for second in driven.seconds), SAMPLE_BYTES)
        )[-SAMPLE_CHARACTERS:],
        error=_cleaned(done.error or next((error for error in errors if error), None), clean),
    )


def _stream(one: messages.StreamEnd, clean: Callable[[str], str]) -> StreamSummary:
    return StreamSummary.model_validate(asdict(one) | {"error": _cleaned(one.error, clean)})


def _cleaned(text: str | None, clean: Callable[[str], str]) -> str | None:
    return None if text is None else clean(text)


def _empty_tick(done: messages.Done, seen: list[Second]) -> messages.Tick:
    """A heat that ended on a full second still owes the counters of its last moments."""
    following = seen[-1].tick.second + 1 if seen else 0
    return messages.Tick(
        id=done.id,
        second=following,
        tokens=0,
        chunks=0,
        in_flight=0,
        text="",
        partial=True,
        length_s=0.0,
    )


def _gpu_summary(samples: list[GpuSample]) -> GpuSummary | None:
    if not samples:
        return None
    reasons = {reason for sample in samples for reason in sample.throttle_reasons}
    return GpuSummary(
        samples=len(samples),
        power_w=_mean([sample.power_w for sample in samples]),
        memory_mib=max((sample.memory_mib or 0 for sample in samples), default=0) or None,
        sm_clock_mhz=_mean([sample.sm_clock_mhz for sample in samples]),
        temperature_c=_mean([sample.temperature_c for sample in samples]),
        memory_bus_percent=_mean([sample.memory_bus_percent for sample in samples]),
        throttle_reasons=tuple(sorted(reasons)),
    )


def _mean(values: Sequence[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None
