"""The worker's pen: every write is one short transaction, in order, off the event loop."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Concatenate, ParamSpec, TypeVar

import structlog
from sqlmodel import Session

from app.domain.errors import SlipstreamError, StoreError
from app.domain.ticks import Tick
from app.store import progress
from app.store.db import Database
from app.store.queue import Claim

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger()

PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.5


class LostRunError(SlipstreamError):
    """Another worker holds the run now: stop the server and write nothing more."""

    title = "The run belongs to another worker"


class Recorder:
    """Writes for one claim. A write that finds the claim gone raises LostRunError.

    A database that does not answer is asked again for PATIENCE_SECONDS before StoreError gets out.
    """

    def __init__(self, database: Database, held: Claim) -> None:
        self.database = database
        self.held = held
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recorder")

    async def write(
        self,
        question: Callable[Concatenate[Session, Claim, P], bool],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Run one of the store's writes under our claim."""

        def work() -> bool:
            with self.database.write() as session:
                return question(session, self.held, *args, **kwargs)

        if not await self._run(work):
            raise LostRunError(f"Run {self.held.run_id} is no longer ours.")

    async def read(
        self,
        question: Callable[Concatenate[Session, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Ask the store something."""

        def work() -> T:
            with self.database.read() as session:
                return question(session, *args, **kwargs)

        return await self._run(work)

    async def tick(self, tick: Tick) -> None:
        """Record one second."""
        await self.write(progress.tick, tick)

    async def close(self) -> None:
        """Finish what is queued."""
        await asyncio.to_thread(self._thread.shutdown, wait=True)

    async def _run(self, work: Callable[[], T]) -> T:
        # Shielded: a transaction that has begun is finished even while the race is being cancelled.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            begun = asyncio.get_running_loop().run_in_executor(self._thread, work)
            try:
                return await asyncio.shield(begun)
            except StoreError as error:
                if time.monotonic() > deadline:
                    raise
                log.warning("database does not answer, asked again", error=error.message)
                await asyncio.sleep(PAUSE_SECONDS)


def utc_now() -> datetime:
    """UTC stamp for people; spans are measured by time.monotonic."""
    return datetime.now(UTC)
