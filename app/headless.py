"""`slipstream race`: submit, race in this process (or follow the worker that is there),
write the result."""

import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.config import Settings, resource
from app.domain.errors import (
    ConflictError,
    FieldProblem,
    LaunchError,
    NotFoundError,
    RecipeError,
    SlipstreamError,
    StoreError,
)
from app.domain.snapshot import Snapshot
from app.domain.states import ENDED_RUNS, RunState
from app.logs import set_up_logs
from app.recipes import Asked, read_recipe
from app.store import queue, results, runs
from app.store.db import Database, open_database
from app.store.queue import Claim
from app.terminal import Screen
from workers.engines import check_here
from workers.engines.base import Seat
from workers.gpus import Gpus
from workers.host import Host, find_host
from workers.lock import HostLock
from workers.loop import Worker
from workers.ports import HOST, free_port

LOOK_SECONDS = 0.25
LOST_DATABASE_SECONDS = 1.0
OK, FAILED, CANCELLED = 0, 1, 130
_EXITS = {RunState.FINISHED: OK, RunState.FAILED: FAILED, RunState.CANCELLED: CANCELLED}


def race_here(
    settings: Settings, name: str, overrides: Sequence[str], out: Path | None, *, as_json: bool
) -> int:
    """Race a recipe and leave DIR/result.json; returns the exit code."""
    set_up_logs("info" if settings.log_level == "debug" else "warning")
    asked = read_recipe(name, overrides)
    if out is not None:
        _check_folder(out)
    with Gpus() as gpus:
        host = find_host(settings, gpus)
        check_host(asked, host)
        database = open_database(settings.database)
        try:
            return _race(database, host, asked, out, as_json=as_json)
        finally:
            database.close()


def check_host(asked: Asked, host: Host) -> None:
    """RecipeError when this host cannot race the recipe: no engine, no model folder, no key."""
    seat = Seat(
        host=HOST,
        port=free_port(),
        served_model="check",
        work_dir=host.settings.runs_dir,
        binaries=host.binaries,
        published_dir=resource("published"),
        secrets=host.secrets,
    )
    try:
        check_here(asked.recipe, seat)
    except LaunchError as error:
        raise RecipeError([FieldProblem("engine", error.message, error.remedy)]) from error


def _race(database: Database, host: Host, asked: Asked, out: Path | None, *, as_json: bool) -> int:
    lock = HostLock(host.settings.data_dir)
    is_ours = lock.take()
    worker = Worker(database, host, asyncio.Event())
    try:
        run_id, held = _submit(database, asked, worker if is_ours else None)
        screen = Screen(quiet=as_json)
        screen.note(f"Run {run_id}" + ("" if is_ours else "; the worker that is there races it"))
        state = asyncio.run(_Following(database, worker, lock, run_id, screen).follow(held))
    finally:
        lock.release()
    try:
        document = _document(database, run_id)
    except StoreError:
        if state is RunState.FINISHED:
            raise
        document = None
    if document is not None:
        _hand_out(document, out, screen, as_json=as_json)
    return _EXITS[state]


def _hand_out(document: bytes, out: Path | None, screen: Screen, *, as_json: bool) -> None:
    """Print first: a full disk must not cost the document too."""
    if as_json:
        sys.stdout.write(document.decode() + "\n")
        sys.stdout.flush()
    if out is None:
        return
    file = out / "result.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
        file.write_bytes(document)
    except OSError as error:
        raise SlipstreamError(
            f"The race has ended, but {file} cannot be written ({error}).",
            remedy="The result is kept: `slipstream up` shows it, and lets you download it.",
        ) from error
    screen.note(f"Wrote {file}")


def _submit(database: Database, asked: Asked, worker: Worker | None) -> tuple[str, Claim | None]:
    """Queue the run and, when we race it ourselves, claim it before anybody else can."""
    now = datetime.now(UTC)
    with database.write() as session:
        run_id = runs.submit(session, asked.recipe, provenance=asked.provenance, now=now).run_id
        if worker is None:
            return run_id, None
        session.flush()
        held = queue.claim(session, worker.name, **_terms(worker, run_id))
    return run_id, held


def _terms(worker: Worker, run_id: str) -> dict[str, Any]:
    """On what terms this process claims its run."""
    settings = worker.host.settings
    return {
        "now": datetime.now(UTC),
        "lease_seconds": settings.lease_seconds,
        "engines": worker.host.kinds,
        "only": run_id,
    }


class _Following:
    """Races a run, or watches who does, until it has ended.

    Ctrl-C cancels the run; a second one ends this process even when no database answers.
    """

    def __init__(
        self, database: Database, worker: Worker, lock: HostLock, run_id: str, screen: Screen
    ) -> None:
        self._database, self._worker, self._lock = database, worker, lock
        self._run_id, self._screen = run_id, screen
        self._racing: asyncio.Task[RunState | None] | None = None
        self._has_lock = False
        self._cancel = asyncio.Event()
        self._is_dropped = False
        self._is_silent = False
        self._seen, self._pause = -1, LOOK_SECONDS

    async def follow(self, held: Claim | None) -> RunState:
        """How the run ended; CANCELLED when it was dropped."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, self._interrupt)
        self._has_lock = held is not None
        self._race(held)
        asking = asyncio.create_task(_cancel_when_asked(self._database, self._run_id, self._cancel))
        try:
            with self._screen:
                return await self._until_the_end()
        finally:
            asking.cancel()
            if self._racing is not None:
                self._racing.cancel()
            await asyncio.gather(*filter(None, (asking, self._racing)), return_exceptions=True)

    def _race(self, held: Claim | None) -> None:
        if held is not None:
            self._racing = asyncio.create_task(self._worker.race_claimed(held))

    def _interrupt(self) -> None:
        if not self._cancel.is_set():
            self._cancel.set()
            self._screen.note("Cancelling the race; Ctrl-C again drops it at once.")
            return
        self._is_dropped = True
        if self._racing is not None:
            self._racing.cancel()

    async def _until_the_end(self) -> RunState:
        while True:
            state = await self._look()
            if state in ENDED_RUNS:
                return state
            self._reap()
            if self._racing is None and self._is_dropped:
                return RunState.CANCELLED
            if self._racing is None:
                await self._take_over()
            await self._rest()

    async def _look(self) -> RunState | None:
        """Draw what is new, and never spend more than a tenth of the time on it.
        None: no answer."""
        try:
            mark = await asyncio.to_thread(_mark, self._database, self._run_id)
            if mark.version != self._seen:
                begun = time.monotonic()
                snapshot = await asyncio.to_thread(_snapshot, self._database, self._run_id)
                self._screen.show(snapshot)
                self._seen = mark.version
                self._pause = max(LOOK_SECONDS, 10 * (time.monotonic() - begun))
        except StoreError as error:
            self._complain(error)
            return None
        self._is_silent = False
        return mark.state

    def _reap(self) -> None:
        """Let go of a race that is over. The database says how it ended; if that has not ended the
        run, it was put back or lost, and is somebody's to take."""
        if self._racing is None or not self._racing.done():
            return
        done, self._racing = self._racing, None
        error = None if done.cancelled() else done.exception()
        if isinstance(error, StoreError):
            self._complain(error)
        elif error is not None:
            raise error

    async def _take_over(self) -> None:
        """Race a run that nobody here races: it waits, or its worker fell silent."""
        try:
            held = await asyncio.to_thread(self._claim)
        except StoreError as error:
            self._complain(error)
            return
        if held is not None:
            self._screen.note("No worker is there for the run any more; it is raced here.")
            self._race(held)

    def _claim(self) -> Claim | None:
        """The lock is kept only with a claim: without one, a worker may start here."""
        kinds, now = self._worker.host.kinds, datetime.now(UTC)
        with self._database.read() as session:
            if not queue.has_work(session, now=now, engines=kinds):
                return None
        if not self._has_lock and not self._lock.take():
            return None
        self._has_lock, held = True, None
        try:
            with self._database.write() as session:
                terms = _terms(self._worker, self._run_id)
                held = queue.claim(session, self._worker.name, **terms)
        finally:
            if held is None:
                self._lock.release()
                self._has_lock = False
        return held

    async def _rest(self) -> None:
        pause = LOST_DATABASE_SECONDS if self._is_silent else self._pause
        if self._racing is not None:
            await asyncio.wait({self._racing}, timeout=pause)
        else:
            await asyncio.sleep(pause)

    def _complain(self, error: StoreError) -> None:
        """Once per silence."""
        if not self._is_silent:
            self._screen.note(f"The database does not answer, asked again: {error.message}")
        self._is_silent = True


async def _cancel_when_asked(database: Database, run_id: str, cancel: asyncio.Event) -> None:
    await cancel.wait()

    def ask() -> None:
        with database.write() as session:
            runs.request_cancel(session, run_id, now=datetime.now(UTC))

    while True:
        try:
            await asyncio.to_thread(ask)
        except (ConflictError, NotFoundError):
            return  # it ended, or was deleted, in the same moment
        except StoreError:
            await asyncio.sleep(LOST_DATABASE_SECONDS)
        else:
            return


def _mark(database: Database, run_id: str) -> runs.Mark:
    with database.read() as session:
        marks = runs.marks(session, [run_id])
    if run_id not in marks:
        raise NotFoundError(f"Run {run_id} was deleted while it was raced.")
    return marks[run_id]


def _snapshot(database: Database, run_id: str) -> Snapshot:
    with database.read() as session:
        return runs.snapshot(session, run_id, now=datetime.now(UTC))


def _document(database: Database, run_id: str) -> bytes | None:
    with database.read() as session:
        frozen = results.of_run(session, run_id)
    return frozen.document if frozen is not None else None


def _check_folder(out: Path) -> None:
    """Find out now, not after the race, that the result cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise RecipeError(
            [FieldProblem("--out", f"{out} cannot be written to ({error}).", "Name another one.")]
        ) from error
