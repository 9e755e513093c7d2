"""The worker's life: beat, claim, race, be told to stop. One run at a time."""

import asyncio
import os
import signal
import socket
import sys
import time
from datetime import datetime

import psutil
import structlog

from app.config import Settings
from app.domain.errors import StoreError
from app.domain.states import RunState
from app.store import progress, queue, results, workers
from app.store.db import Database, open_database
from app.store.queue import Claim, Renewal
from workers.gpus import Gpus
from workers.host import Host, find_host
from workers.lock import HostLock
from workers.race import race
from workers.recorder import LostRunError, utc_now

log = structlog.get_logger()

WATCH_SECONDS = 0.25
BEAT_SECONDS = 5.0
LOST_DATABASE_SECONDS = 2.0
CLOCK_SLACK_SECONDS = 2.0


async def serve(settings: Settings, stopping: asyncio.Event) -> None:
    """Claim and race runs until told to stop; gives an unfinished run back."""
    with HostLock(settings.data_dir), Gpus() as gpus:
        database = await asyncio.to_thread(open_database, settings.database)
        try:
            await Worker(database, find_host(settings, gpus), stopping).live()
        finally:
            database.close()


class Worker:
    """One worker on this host."""

    def __init__(self, database: Database, host: Host, stopping: asyncio.Event) -> None:
        self.database, self.host, self.stopping = database, host, stopping
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.started_at = utc_now()
        self.run_id: str | None = None

    async def live(self) -> None:
        """Beat and race until `stopping` is set."""
        log.info("worker is there", worker=self.name, engines=sorted(self.host.binaries))
        await asyncio.to_thread(self._adopt_orphans)
        beating = asyncio.create_task(self._beat_for_ever())
        try:
            while not self.stopping.is_set():
                await self._live_once()
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            await asyncio.to_thread(self._leave)
            log.info("worker has left", worker=self.name)

    async def _live_once(self) -> None:
        """Claim and race, or wait. Whatever goes wrong with one run, the worker lives on."""
        try:
            held = await asyncio.to_thread(self._claim)
            if held is not None:
                await self.race_claimed(held)
            else:
                await _wait(self.stopping, self.host.settings.poll_seconds)
        except StoreError as error:
            log.warning("database does not answer", error=error.message)
            await _wait(self.stopping, LOST_DATABASE_SECONDS)
        except Exception:
            log.exception("the worker goes on after an error")
            await _wait(self.stopping, LOST_DATABASE_SECONDS)

    async def race_claimed(self, held: Claim) -> RunState | None:
        """Race a claimed run under watch. None when it was given back or lost to another worker."""
        self.run_id = held.run_id
        task = asyncio.create_task(race(self.database, held, self.host))
        watching = asyncio.create_task(self._watch(held, task))
        try:
            return await task
        except asyncio.CancelledError:
            return await self._after_cancel(held, task)
        except LostRunError:
            log.warning("run was lost to another worker", run=held.run_id)
            return None
        except StoreError as error:
            # Not the run's fault: it goes on where it was, once the database answers again.
            log.warning("run put back: no database", run=held.run_id, error=error.message)
            await self._put_back(held)
            return None
        except Exception as error:
            # The door of the worker: a run that breaks us is closed, so that it cannot do it again.
            log.exception("run failed", run=held.run_id)
            return await asyncio.to_thread(self._close, held, RunState.FAILED, _say(error))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self.run_id = None

    async def _after_cancel(self, held: Claim, task: "asyncio.Task[RunState]") -> RunState | None:
        """The race was stopped: by its owner, because we must stop, or because it is not ours."""
        if not task.cancelled():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        renewal = await asyncio.to_thread(self._renew, held)
        if renewal.is_cancelled:
            return await asyncio.to_thread(self._close, held, RunState.CANCELLED, None)
        if renewal.is_ours:
            await asyncio.to_thread(self._give_back, held)
        return None

    async def _put_back(self, held: Claim) -> None:
        """Give the run back as soon as the database takes it; its lease ends anyway."""
        while True:
            try:
                await asyncio.to_thread(self._give_back, held)
                return
            except StoreError:
                if self.stopping.is_set():
                    return
                await _wait(self.stopping, LOST_DATABASE_SECONDS)

    async def _watch(self, held: Claim, task: "asyncio.Task[RunState]") -> None:
        """Renew the lease; cancel the race when it is cancelled, lost, or when we must stop."""
        lease = time.monotonic()
        while not task.done():
            must_end = self.stopping.is_set()
            try:
                renewal = await asyncio.to_thread(self._look, held)
                if time.monotonic() - lease >= self.host.settings.heartbeat_seconds:
                    renewal = await asyncio.to_thread(self._renew, held)
                    lease = time.monotonic()
                must_end = must_end or renewal.is_cancelled or not renewal.is_ours
            except StoreError as error:
                log.warning("the run's watch cannot look", error=error.message)
            except Exception:
                log.exception("the run's watch goes on after an error")
            if must_end:
                task.cancel()
                return
            await _wait(self.stopping, WATCH_SECONDS)

    def _claim(self) -> Claim | None:
        with self.database.read() as session:
            if not queue.has_work(session, now=utc_now(), engines=self.host.kinds):
                return None
        with self.database.write() as session:
            return queue.claim(
                session,
                self.name,
                now=utc_now(),
                lease_seconds=self.host.settings.lease_seconds,
                engines=self.host.kinds,
            )

    def _look(self, held: Claim) -> Renewal:
        with self.database.read() as session:
            return queue.look(session, held)

    def _renew(self, held: Claim) -> Renewal:
        with self.database.write() as session:
            return queue.renew(
                session, held, now=utc_now(), lease_seconds=self.host.settings.lease_seconds
            )

    def _give_back(self, held: Claim) -> None:
        with self.database.write() as session:
            queue.give_back(session, held, now=utc_now())
        log.info("run given back", run=held.run_id)

    def _close(self, held: Claim, state: RunState, error: str | None) -> RunState:
        try:
            with self.database.write() as session:
                results.finish(
                    session, held, state, tool=self.host.tool, now=utc_now(), error=error
                )
        except StoreError:
            raise
        except Exception:
            # A run that cannot be frozen is closed all the same, or it would be raced for ever.
            log.exception("run could not be frozen", run=held.run_id)
            with self.database.write() as session:
                progress.finish(session, held, state, now=utc_now(), error=error)
        return state

    async def _beat_for_ever(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._beat, utc_now())
            except StoreError as error:
                log.warning("no heartbeat could be written", error=error.message)
            except Exception:
                log.exception("the heart beats on after an error")
            await asyncio.sleep(BEAT_SECONDS)

    def _beat(self, now: datetime) -> None:
        with self.database.write() as session:
            workers.beat(
                session,
                workers.WorkerView(
                    name=self.name,
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    started_at=self.started_at,
                    seen_at=now,
                    engines=self.host.engines,
                    gpus=self.host.gpu_facts,
                    run_id=self.run_id,
                ),
            )

    def _adopt_orphans(self) -> None:
        """Runs of workers of this host whose process is gone need not wait for their lease."""
        with self.database.write() as session:
            for row in workers.of_host(session, socket.gethostname()):
                if not _is_alive(row.pid, row.started_at):
                    queue.expire(session, row.name, now=utc_now())
                    workers.leave(session, row.name)

    def _leave(self) -> None:
        try:
            with self.database.write() as session:
                workers.leave(session, self.name)
        except StoreError as error:
            log.warning("could not sign off", error=error.message)


def stop_on_signals(stopping: asyncio.Event) -> None:
    """SIGTERM and SIGINT ask for a polite end; a second one is not needed and changes nothing."""
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)


async def stop_with_parent(stopping: asyncio.Event) -> asyncio.Task[None]:
    """End when standard input closes: the parent is gone, however it went. Keep what it gives."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def wait_for_the_end() -> None:
        while await reader.read(1024):
            continue
        stopping.set()

    return asyncio.create_task(wait_for_the_end())


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _is_alive(pid: int, started_at: datetime) -> bool:
    """Whether that worker still runs; a process younger than its row has only got its pid."""
    try:
        born = psutil.Process(pid).create_time()
    except psutil.Error:
        return False
    return born <= started_at.timestamp() + CLOCK_SLACK_SECONDS


def _say(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2000]
