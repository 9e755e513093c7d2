"""What a lane tells its viewers: launch steps, what is being done, and when it may end."""

import asyncio
from dataclasses import dataclass

from app.domain.recipe import Recipe
from app.domain.snapshot import Now
from app.domain.states import LaneState, LaunchStep
from app.store import progress
from app.store.progress import PlannedHeat
from workers.pace import Pace
from workers.recorder import Recorder, utc_now

_STATE_OF_STEP = {
    LaunchStep.RACING: LaneState.RACING,
    LaunchStep.STOPPING: LaneState.STOPPING,
}


@dataclass(frozen=True)
class Ahead:
    """What comes after this lane: lanes still to be launched, and their heats."""

    lanes: int
    heats: int


class Voice:
    """Announcements are written in order; `flush` waits for them and raises what went wrong."""

    def __init__(
        self, recorder: Recorder, recipe: Recipe, lane: str, pace: Pace, ahead: Ahead
    ) -> None:
        self._recorder, self._recipe, self._lane = recorder, recipe, lane
        self._pace, self._ahead = pace, ahead
        self._pending: set[asyncio.Task[None]] = set()
        self.step = LaunchStep.PREFLIGHT

    def go(self, step: LaunchStep) -> None:
        """The next step begins; the write follows off this call."""
        self.step = step
        state = _STATE_OF_STEP.get(step, LaneState.LAUNCHING)
        write = self._recorder.write(
            progress.lane_step, self._lane, state, step.value, now=utc_now()
        )
        self._pending.add(asyncio.ensure_future(write))

    async def launching(self, heats_left: int) -> None:
        """The lane's server is about to start."""
        await self._say(f"{self._lane} · launching", heats_left, lanes_left=1)

    async def warming(self, concurrency: int, heats_left: int) -> None:
        """Warm-up at this concurrency."""
        await self._say(f"{self._lane} · warming up at {_streams(concurrency)}", heats_left)

    async def driving(self, heat: PlannedHeat, heats_left: int) -> None:
        """A heat is about to be driven; it counts as left."""
        await self._say(describe(heat, self._recipe.repeats), heats_left, heat=heat)

    async def flush(self) -> None:
        """Wait for all announcements."""
        pending, self._pending = self._pending, set()
        if pending:
            await asyncio.gather(*pending)

    async def hush(self) -> None:
        """Drop what is still to be announced: the lane is over, one way or another."""
        pending, self._pending = self._pending, set()
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _say(
        self,
        text: str,
        heats_left: int,
        *,
        lanes_left: int = 0,
        heat: PlannedHeat | None = None,
    ) -> None:
        now = Now(
            lane=self._lane,
            cell=heat.cell if heat else None,
            heat=heat.id if heat else None,
            ordinal=heat.ordinal if heat else None,
            text=text,
            since=utc_now(),
        )
        eta = self._pace.eta_seconds(
            heats_left=heats_left + self._ahead.heats, lanes_left=lanes_left + self._ahead.lanes
        )
        await self.flush()
        await self._recorder.write(progress.set_now, now, eta_seconds=eta)


def describe(heat: PlannedHeat, repeats: int) -> str:
    """A heat in words for people."""
    return (
        f"{heat.lane} · heat {heat.ordinal} of {repeats} · "
        f"{heat.workload}, {heat.context:,} tokens of context, {_streams(heat.concurrency)}"
    )


def _streams(count: int) -> str:
    return "1 stream" if count == 1 else f"{count} streams"
