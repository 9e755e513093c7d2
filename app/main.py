"""The dashboard, wired together: the only place where all rooms of the web side meet."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from app.config import Settings, resource, version
from app.store.db import Database, open_database
from app.web import api, deps, embeds, login, logs, pages, problems, twins
from app.web.door import LastDoor
from app.web.headers import ResponseHeaders
from app.web.limits import Attempts, BodyLimit
from app.web.live import Tail
from app.web.openapi import describe
from app.web.security import Guard


def create_app(settings: Settings, db: Database | None = None) -> FastAPI:
    """The dashboard. Opens (and closes) the database itself unless one is given."""
    attempts = Attempts()
    app = FastAPI(
        title="Slipstream",
        version=version(),
        openapi_url=f"{api.PREFIX}/openapi.json",
        docs_url=None,  # its assets would come from elsewhere
        redoc_url=None,
        generate_unique_id_function=_operation_id,
        lifespan=_lifespan,
        middleware=[
            Middleware(ResponseHeaders, is_https=settings.public_url.startswith("https://")),
            Middleware(LastDoor),
            Middleware(Guard, settings=settings, attempts=attempts),
            Middleware(BodyLimit),
        ],
    )
    app.state.settings = settings
    app.state.attempts = attempts
    app.state.clock = deps.utc_now
    if db is not None:
        _furnish(app, db)
    problems.install(app)
    for router in (api.router, login.router, twins.router, pages.router, embeds.router):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=resource("static")), name="static")
    describe(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    logs.install()
    async with AsyncExitStack() as stack:
        if not hasattr(app.state, "database"):
            db = open_database(app.state.settings.database)
            stack.callback(db.close)
            _furnish(app, db)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(app.state.tail.run)
        yield
        app.state.tail.dismiss_all("shutdown")
        tasks.cancel_scope.cancel()


def _furnish(app: FastAPI, db: Database) -> None:
    app.state.database = db
    app.state.tail = Tail(db, app.state.settings, deps.utc_now)


def _operation_id(route: APIRoute) -> str:
    return route.name
