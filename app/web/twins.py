"""The .json and .csv twins of pages: the same figures for programs, at the page's own address."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.domain.snapshot import Snapshot
from app.store import results, runs
from app.web.api_results import PUBLIC_CACHING, Slug, csv_response, json_response
from app.web.api_runs import RunId, RunList
from app.web.deps import Db, Now

router = APIRouter(include_in_schema=False)

HOME_RUNS = 50


@router.get("/r/{slug}.json", response_class=Response)
def result_json(slug: Slug, db: Db, request: Request) -> Response:
    """The document behind a result page. Public."""
    with db.read() as session:
        frozen = results.get(session, slug)
    return json_response(request, frozen, PUBLIC_CACHING)


@router.get("/r/{slug}.csv", response_class=Response)
def result_csv(slug: Slug, db: Db, request: Request) -> Response:
    """The cells of a result page. Public."""
    with db.read() as session:
        frozen = results.get(session, slug)
    return csv_response(request, frozen, PUBLIC_CACHING)


@router.get("/runs/{run_id}.json")
def run_json(run_id: RunId, db: Db, now: Now) -> Snapshot:
    """What a live page shows."""
    with db.read() as session:
        return runs.snapshot(session, run_id, now=now)


@router.get("/index.json")
def index_json(db: Db, now: Now) -> RunList:
    """The runs that the home page lists."""
    with db.read() as session:
        page = runs.list_runs(session, now=now, limit=HOME_RUNS)
    return RunList(runs=page.runs, next_cursor=page.next_cursor)
