"""Reads a server's counters over HTTP and turns readings into deltas. Knows no recipe."""

import asyncio
import time
from dataclasses import dataclass

import httpx

from app.domain.acceptance import Acceptance
from workers.engines.base import Counters, Engine, LaunchPlan
from workers.http import ask

SCRAPE_SECONDS = 5.0
SETTLE_POLL_SECONDS = 0.05


class Meter:
    """One lane's counters. Every reading may fail; a failed reading is None, never a zero."""

    def __init__(self, client: httpx.AsyncClient, engine: Engine, plan: LaunchPlan) -> None:
        self._client = client
        self._engine = engine
        self._plan = plan

    async def read(self) -> Counters | None:
        """The counters now; None when the server has none or does not answer."""
        if self._plan.metrics_path is None:
            return None
        try:
            answer = await ask(
                self._client,
                "GET",
                self._plan.base_url + self._plan.metrics_path,
                headers=self._plan.headers,
                seconds=SCRAPE_SECONDS,
            )
        except httpx.HTTPError:
            return None
        if answer.status_code != httpx.codes.OK:
            return None
        counters = self._engine.read(answer.text, "")
        return counters if counters.generation_tokens is not None else None

    async def settled(self, deadline_seconds: float) -> "Settled":
        """Wait until nothing runs and the count stands still; gives the last reading either way."""
        deadline = time.monotonic() + deadline_seconds
        last: Counters | None = None
        while True:
            counters = await self.read()
            if counters is None:
                return Settled(None, is_settled=False)
            if _is_idle(counters) and last is not None and _same(counters, last):
                return Settled(counters, is_settled=True)
            if time.monotonic() > deadline:
                return Settled(counters, is_settled=False)
            last = counters
            await asyncio.sleep(SETTLE_POLL_SECONDS)


@dataclass(frozen=True)
class Settled:
    """A reading, and whether the server had come to rest."""

    counters: Counters | None
    is_settled: bool


@dataclass(frozen=True)
class Delta:
    """What happened between two readings; None where the server does not tell."""

    tokens: int | None
    prompt_tokens: int | None
    cached_tokens: int
    preemptions: int
    acceptance: Acceptance | None


def delta(before: Counters | None, after: Counters | None) -> Delta:
    """after - before. Counters that fell were reset: nothing can be said."""
    if before is None or after is None:
        return Delta(None, None, 0, 0, None)
    return Delta(
        tokens=_difference(before.generation_tokens, after.generation_tokens),
        prompt_tokens=_difference(before.prompt_tokens, after.prompt_tokens),
        cached_tokens=_difference(before.cached_tokens, after.cached_tokens) or 0,
        preemptions=_difference(before.preemptions, after.preemptions) or 0,
        acceptance=acceptance_delta(before.acceptance, after.acceptance),
    )


def acceptance_delta(before: Acceptance | None, after: Acceptance | None) -> Acceptance | None:
    """Drafts since `before`; None when either is unknown or the counters were reset."""
    if before is None or after is None or after.drafts < before.drafts:
        return None
    return after.minus(before)


def _difference(before: int | None, after: int | None) -> int | None:
    if before is None or after is None or after < before:
        return None
    return after - before


def _is_idle(counters: Counters) -> bool:
    return not counters.running and not counters.waiting


def _same(one: Counters, other: Counters) -> bool:
    return one.generation_tokens == other.generation_tokens and one.acceptance == other.acceptance
