"""Driven warm-up: probes until two in a row agree, with prompts that are not measured (rule 6)."""

import time

from app.domain.recipe import Recipe
from app.domain.snapshot import WarmUp
from workers.heat import HeatDriver, summarise
from workers.prompting import Writer

AGREEMENT = 0.05
PROBE_SECONDS = 1.5


async def warm_up(
    driver: HeatDriver, writer: Writer, recipe: Recipe, concurrency: int, longest_context: int
) -> WarmUp:
    """Probe at this concurrency until two successive probes agree within 5 % or time is up.

    The first probe is the cold figure. Before the probes one request takes the longest context
    once, so that what compiles for long prompts compiles now.
    """
    deadline = time.monotonic() + recipe.warmup_seconds
    seconds = min(PROBE_SECONDS, recipe.decode.seconds)
    name = f"w{concurrency}"
    if longest_context:
        shapes = await writer.warm_shapes(longest_context, 1, "longest")
        await driver.drive(f"{name}-longest", shapes, 0.0)
    probes: list[float] = []
    agreed = False
    while not agreed and (not probes or time.monotonic() < deadline):
        shapes = await writer.warm_shapes(0, concurrency, f"probe{len(probes)}")
        driven = await driver.drive(f"{name}-{len(probes)}", shapes, seconds)
        speed = summarise(driven).tokens_per_second
        if not speed:
            break  # nothing came in the window: the heats will say why
        probes.append(speed)
        agreed = len(probes) > 1 and abs(probes[-1] / probes[-2] - 1) <= AGREEMENT
    return WarmUp(concurrency=concurrency, probes=tuple(probes), agreed=agreed)
