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

from app.config import Settings, resource
from app.domain.errors import (
    ConflictError,
    FieldProblem,
    LaunchError,
    NotFoundError,
    RecipeError,
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
    stopping = asyncio.Event()
    worker = Worker(database, host, stopping)
    run_id, held = _submit(database, asked, worker if is_ours else None)
    screen = Screen(quiet=as_json)
    screen.note(f"Run {run_id}" + ("" if is_ours else "; the worker that is there races it"))
    try:
        state = asyncio.run(_follow(database, run_id, worker, held, screen))
    finally:
        lock.release()
    document = _document(database, run_id)
    if document is not None and out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").write_bytes(document)
        screen.note(f"Wrote {out / 'result.json'}")
    if as_json and document is not None:
        sys.stdout.write(document.decode() + "\n")
    return _EXITS[state]


def _submit(database: Database, asked: Asked, worker: Worker | None) -> tuple[str, Claim | None]:
    """Queue the run and, when we race it ourselves, claim it before anybody else can."""
    now = datetime.now(UTC)
    with database.write() as session:
        run_id = runs.submit(session, asked.recipe, provenance=asked.provenance, now=now).run_id
        if worker is None:
            return run_id, None
        session.flush()
        held = queue.claim(
            session,
            worker.name,
            now=now,
            lease_seconds=worker.host.settings.lease_seconds,
            engines=worker.host.kinds,
            only=run_id,
        )
    return run_id, held


async def _follow(
    database: Database, run_id: str, worker: Worker, held: Claim | None, screen: Screen
) -> RunState:
    """Race (or watch) until the run has ended; Ctrl-C cancels it, a second one drops everything."""
    loop = asyncio.get_running_loop()
    cancel = asyncio.Event()
    racing = asyncio.create_task(worker.race_claimed(held)) if held is not None else None

    def interrupt() -> None:
        if cancel.is_set() and racing is not None:
            racing.cancel()
        cancel.set()

    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, interrupt)
    asking = asyncio.create_task(_cancel_when_asked(database, run_id, cancel))
    try:
        with screen:
            return await _watch(database, run_id, racing, screen)
    finally:
        asking.cancel()
        if racing is not None and not racing.done():
            racing.cancel()
        await asyncio.gather(*filter(None, (asking, racing)), return_exceptions=True)


async def _watch(
    database: Database,
    run_id: str,
    racing: "asyncio.Task[RunState | None] | None",
    screen: Screen,
) -> RunState:
    """Look often, draw only what is new, and never spend more than a tenth of the time on it."""
    seen, pause = -1, LOOK_SECONDS
    while True:
        try:
            mark = await asyncio.to_thread(_mark, database, run_id)
            if mark.version != seen:
                begun = time.monotonic()
                snapshot = await asyncio.to_thread(_snapshot, database, run_id)
                screen.show(snapshot)
                seen = mark.version
                pause = max(LOOK_SECONDS, 10 * (time.monotonic() - begun))
        except StoreError as error:
            screen.note(f"The database does not answer, looked again soon: {error.message}")
            pause = LOST_DATABASE_SECONDS
        else:
            if mark.state in ENDED_RUNS:
                return mark.state
            if racing is not None and racing.done():
                return _after_racing(racing)
        await asyncio.sleep(pause)


def _after_racing(racing: "asyncio.Task[RunState | None]") -> RunState:
    """The race is over for this process, and the run has not ended: it was put back or lost."""
    if racing.cancelled():
        return RunState.CANCELLED
    state = racing.result()
    if state is None:
        raise ConflictError(
            "The run was put back into the queue: this process could not go on with it.",
            remedy="Start `slipstream up` or `slipstream worker` to finish it.",
        )
    return state


async def _cancel_when_asked(database: Database, run_id: str, cancel: asyncio.Event) -> None:
    await cancel.wait()

    def ask() -> None:
        with database.write() as session:
            runs.request_cancel(session, run_id, now=datetime.now(UTC))

    while True:
        try:
            await asyncio.to_thread(ask)
        except ConflictError:
            return  # it ended in the same moment
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
