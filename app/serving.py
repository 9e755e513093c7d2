"""`slipstream up`: the dashboard in this process, a worker beside it, and the one-use link."""

import signal
import socket
import sys
import threading
from datetime import UTC, datetime, timedelta

import uvicorn

from app.config import Settings
from app.domain.errors import NotFoundError, SettingsError, StoreError
from app.domain.states import ENDED_RUNS, RunState
from app.keeper import WorkerKeeper
from app.logs import set_up_logs
from app.main import create_app
from app.recipes import read_recipe
from app.store import runs, tokens
from app.store.db import Database, open_database
from app.store.tokens import TokenKind

WATCH_SECONDS = 0.25
GRACE_SECONDS = 3


def serve(settings: Settings, *, race: str | None, exit_after_race: bool, with_worker: bool) -> int:
    """Serve until told to stop; with `exit_after_race` until that race has ended (1: it failed)."""
    set_up_logs(settings.log_level, as_json=settings.log_json)
    asked = read_recipe(race) if race else None
    listening = _listen(settings)
    database = open_database(settings.database)
    settings = settings.model_copy(update={"port": listening.getsockname()[1]})
    run_id = None
    if asked is not None:
        with database.write() as session:
            run_id = runs.submit(
                session, asked.recipe, provenance=asked.provenance, now=datetime.now(UTC)
            ).run_id
    server = uvicorn.Server(_config(settings, database))
    keeper = WorkerKeeper(_say) if with_worker else None
    watch = _RaceWatch(database, settings, run_id, server if exit_after_race else None)
    _end_on_signals(server)
    _greet(settings, database, run_id)
    try:
        if keeper is not None:
            keeper.start()
        watch.start()
        server.run(sockets=[listening])
    finally:
        watch.stop()
        if keeper is not None:
            keeper.stop()
        database.close()
    return 0 if not exit_after_race or watch.state is RunState.FINISHED else 1


def mint_link(settings: Settings, database: Database | None = None, next_path: str = "/") -> str:
    """A one-use link that opens a browser session."""
    opened = database or open_database(settings.database)
    with opened.write() as session:
        secret = tokens.mint(
            session,
            TokenKind.LINK,
            label="terminal",
            now=datetime.now(UTC),
            ttl=timedelta(minutes=settings.link_minutes),
        )
    if database is None:
        opened.close()
    return f"{base_url(settings)}/login?link={secret}&next={next_path}"


def mint_bearer(settings: Settings, label: str) -> str:
    """A bearer token for the API."""
    database = open_database(settings.database)
    with database.write() as session:
        secret = tokens.mint(session, TokenKind.BEARER, label=label, now=datetime.now(UTC))
    database.close()
    return secret


def base_url(settings: Settings) -> str:
    """Where readers find this dashboard."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return settings.public_url.rstrip("/") or f"http://{host}:{settings.port}"


class _RaceWatch(threading.Thread):
    """Says when the race that was asked for has ended, and where its result is."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        run_id: str | None,
        server: uvicorn.Server | None,
    ) -> None:
        super().__init__(name="race-watch", daemon=True)
        self._database, self._settings, self._run_id = database, settings, run_id
        self._server = server
        self._stopping = threading.Event()
        self.state: RunState | None = None

    def run(self) -> None:
        """Look until the race has ended."""
        while self._run_id is not None and not self._stopping.wait(WATCH_SECONDS):
            try:
                with self._database.read() as session:
                    view = runs.view(session, self._run_id, now=datetime.now(UTC))
            except StoreError:
                continue  # it may answer the next time
            except NotFoundError:
                self._end(RunState.FAILED, "it was deleted")
                return
            if view.state in ENDED_RUNS:
                self._end(view.state, view.headline or view.error or view.state)
                if view.slug:
                    _say(f"Result: {base_url(self._settings)}/r/{view.slug}")
                return

    def _end(self, state: RunState, how: str) -> None:
        self.state = state
        _say(f"The race has ended: {how}")
        if self._server is not None:
            self._server.should_exit = True
        else:
            _say("The dashboard goes on; Ctrl-C ends it.")

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        if self.is_alive():
            self.join()


def _end_on_signals(server: uvicorn.Server) -> None:
    """Obey signals before uvicorn listens to them, and survive their echo: it raises again what it
    has caught once it has ended, when we still have a worker to end."""

    def end(_number: int, _frame: object) -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


def _greet(settings: Settings, database: Database, run_id: str | None) -> None:
    path = f"/runs/{run_id}" if run_id else "/"
    _say(f"Slipstream is at {base_url(settings)}")
    _say(f"Open it with this link (one use, {settings.link_minutes:g} minutes):")
    _say(f"  {mint_link(settings, database, path)}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _listen(settings: Settings) -> socket.socket:
    """Take the port before anything starts, so that a taken one is a message and not a
    traceback."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host.strip("[]"), settings.port))
    except OSError as error:
        listening.close()
        raise SettingsError(
            f"SLIPSTREAM_PORT: {settings.host}:{settings.port} cannot be listened on ({error}).",
            remedy="End what uses it, or give --port another number (0: any free one).",
        ) from error
    return listening


def _config(settings: Settings, database: Database) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(settings, database),
        log_level=settings.log_level,
        access_log=settings.log_level == "debug",
        timeout_graceful_shutdown=GRACE_SECONDS,
        proxy_headers=False,
        server_header=False,
    )
