"""Ticks over HTTP: recorded ones as JSON, live ones as server-sent events."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.exceptions import HTTPException
from fastapi.responses import Response
from pydantic import BaseModel

from app.domain.errors import FieldProblem, RecipeError
from app.domain.ticks import Tick
from app.store import runs, ticks
from app.web.api_runs import RunId
from app.web.deps import Db, Live, Now
from app.web.events import LiveResponse
from app.web.live import HouseFullError
from app.web.problems import documented

router = APIRouter(tags=["ticks"])

MAX_ID = 2**63 - 1
TickId = Annotated[int, Query(ge=0, le=MAX_ID, description="Only ticks with ids above this one")]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "tick (with id), snapshot, farewell; comments keep the connection awake",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'id: 7\nevent: tick\ndata: {"id":7,"lane":"baseline","tokens":118}\n\n',
            }
        },
    }
}


class TickList(BaseModel):
    """Ticks in the order of their ids; ask again after the last one."""

    ticks: list[Tick]
    last_id: int
    """Ask for the next page with after=last_id."""
    is_complete: bool
    """Whether these were all that are recorded so far."""


@router.get("/runs/{run_id}/ticks", responses=documented(404, 422))
def list_ticks(
    run_id: RunId,
    db: Db,
    now: Now,
    after: TickId = 0,
    limit: Annotated[int, Query(ge=1, le=5000)] = 1000,
) -> TickList:
    """Recorded ticks of a run."""
    with db.read() as session:
        runs.view(session, run_id, now=now)  # an unknown run is 404, not an empty list
        page = ticks.after(session, run_id, after, limit=limit + 1)
    shown = page[:limit]
    return TickList(
        ticks=shown,
        last_id=shown[-1].id if shown else after,
        is_complete=len(page) <= limit,
    )


@router.get(
    "/runs/{run_id}/events",
    response_class=Response,
    responses={**documented(404, 422), **_STREAM},
)
async def stream_events(
    run_id: RunId,
    live: Live,
    after: TickId = 0,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """The live feed: a snapshot, every tick after Last-Event-ID (or `after`), then what is new.

    Late, reconnecting and after the finish: the same ticks, none missing, none twice.
    """
    start = after if last_event_id is None else _parse_id(last_event_id)
    try:
        viewer = await live.join(run_id)
    except HouseFullError:
        raise HTTPException(
            503, "This process serves as many viewers as it may.", {"Retry-After": "10"}
        ) from None
    return LiveResponse(live, viewer, start)


def _parse_id(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MAX_ID:
        return int(text)
    if not text:
        return 0
    raise RecipeError(
        [FieldProblem("Last-Event-ID", "is not the id of a tick.", "Leave it out to start anew.")]
    )
