"""Runs over HTTP: submit, list, read, cancel, delete."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.exceptions import HTTPException
from pydantic import BaseModel

from app.domain.recipe import Recipe
from app.domain.snapshot import RunView, Snapshot
from app.domain.states import RunState
from app.store import runs
from app.web import submitting
from app.web.deps import Db, Now
from app.web.problems import documented

router = APIRouter(tags=["runs"])

RunId = Annotated[str, Path(max_length=40, examples=["k3mzq8w2ynbd"])]

READERS = {
    "application/json": submitting.read_json,
    "application/yaml": submitting.read_yaml,
    "application/x-yaml": submitting.read_yaml,
    "text/yaml": submitting.read_yaml,
}

_EXAMPLES: dict[str, Any] = {
    "card": {
        "summary": "A card of recipes/, with two values changed",
        "value": {"card": "replay-b300", "set": {"decode.seconds": 2, "repeats": 3}},
    },
    "attach": {
        "summary": "Two servers that run already",
        "value": {
            "name": "My two servers",
            "model": "google/gemma-4-26B-A4B-it",
            "engine": "attach",
            "lanes": {
                "baseline": {"url": "http://127.0.0.1:8000"},
                "mtp-k4": {"url": "http://127.0.0.1:8001"},
            },
            "matrix": {"concurrency": [1, 4]},
        },
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "description": "A recipe, or the name of a card with values laid over it.",
        "content": {
            "application/json": {
                "schema": {
                    "oneOf": [
                        {"$ref": "#/components/schemas/Recipe"},
                        {"$ref": "#/components/schemas/CardOrder"},
                    ]
                },
                "examples": _EXAMPLES,
            },
            "application/yaml": {"schema": {"type": "string"}},
        },
    }
}


class CardOrder(BaseModel):
    """The name of a card in recipes/, and dotted keys whose values replace the card's."""

    card: str
    set: dict[str, Any] = {}


class RunList(BaseModel):
    """One page of runs, newest first; `next_cursor` asks for the next one."""

    runs: tuple[RunView, ...]
    next_cursor: str | None


async def _recipe_body(request: Request) -> tuple[Recipe, bytes]:
    """The recipe in the body, and the bytes that an Idempotency-Key stands for."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    reader = READERS.get(kind)
    if reader is None:
        raise HTTPException(415, "Send a recipe as application/json or application/yaml.")
    body = await request.body()
    return reader(body), kind.encode() + b"\n" + body


@router.post(
    "/runs",
    status_code=202,
    responses=documented(409, 413, 415, 422)
    | {202: {"headers": {"Location": {"schema": {"type": "string"}}}}},
    openapi_extra=_BODY,
)
def submit_run(
    body: Annotated[tuple[Recipe, bytes], Depends(_recipe_body)],
    db: Db,
    now: Now,
    response: Response,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> RunView:
    """Queue a run. With an Idempotency-Key the same request makes one run, however often sent."""
    recipe, request = body
    accepted = submitting.submit(
        db, recipe, now=now, idempotency_key=idempotency_key, request=request
    )
    response.headers["Location"] = f"/api/v1/runs/{accepted.run.id}"
    return accepted.run


@router.get("/runs", responses=documented(422))
def list_runs(
    db: Db,
    now: Now,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    state: RunState | None = None,
) -> RunList:
    """Runs, newest first."""
    with db.read() as session:
        page = runs.list_runs(session, now=now, limit=limit, cursor=cursor, state=state)
    return RunList(runs=page.runs, next_cursor=page.next_cursor)


@router.get("/runs/{run_id}", responses=documented(404))
def read_run(run_id: RunId, db: Db, now: Now) -> Snapshot:
    """Everything about a run at this moment."""
    with db.read() as session:
        return runs.snapshot(session, run_id, now=now)


@router.post("/runs/{run_id}/cancel", status_code=202, responses=documented(404, 409))
def cancel_run(run_id: RunId, db: Db, now: Now) -> RunView:
    """Cancel a queued run at once; a running one ends within two seconds."""
    with db.write() as session:
        return runs.request_cancel(session, run_id, now=now)


@router.delete("/runs/{run_id}", status_code=204, responses=documented(404, 409))
def delete_run(run_id: RunId, db: Db) -> None:
    """Delete an ended run with its ticks. Its frozen result stays."""
    with db.write() as session:
        runs.delete(session, run_id)
