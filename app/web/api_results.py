"""Frozen results over HTTP: the canonical bytes, and the cells as CSV."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.domain import result as documents
from app.domain.result import Result
from app.store import results
from app.store.results import Frozen
from app.web import cells_csv
from app.web.deps import Db
from app.web.problems import documented

router = APIRouter(tags=["results"])

PUBLIC_CACHING = "public, no-cache"  # anybody may keep it, and asks whether it is still there
PRIVATE_CACHING = "private, no-cache"
Slug = Annotated[str, Path(max_length=80, examples=["my-race-k3mzq8w2"])]


class ResultEntry(BaseModel):
    """A result in a list."""

    slug: str
    run_id: str
    title: str
    sentence: str
    provenance: str
    created_at: datetime
    sha256: str


class ResultList(BaseModel):
    """Results, newest first."""

    results: list[ResultEntry]


@router.get("/results", responses=documented(422))
def list_results(db: Db, limit: Annotated[int, Query(ge=1, le=200)] = 50) -> ResultList:
    """The newest results."""
    with db.read() as session:
        found = results.list_results(session, limit=limit)
    return ResultList(results=[ResultEntry(**asdict(card)) for card in found])


@router.get(
    "/results/{slug}.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}, **documented(404)},
)
def read_result_csv(slug: Slug, db: Db, request: Request) -> Response:
    """The cells of a result, one row per lane and cell."""
    with db.read() as session:
        frozen = results.get(session, slug)
    return csv_response(request, frozen, PRIVATE_CACHING)


@router.get(
    "/results/{slug}",
    response_model=Result,
    responses={**documented(404), 304: {"description": "If-None-Match names these bytes"}},
)
def read_result(slug: Slug, db: Db, request: Request) -> Response:
    """The document itself: canonical bytes, whose sha256 is the ETag."""
    with db.read() as session:
        frozen = results.get(session, slug)
    return json_response(request, frozen, PRIVATE_CACHING)


@router.delete("/results/{slug}", status_code=204, responses=documented(404))
def delete_result(slug: Slug, db: Db) -> None:
    """Delete a result for good. Links to it stop working."""
    with db.write() as session:
        results.delete(session, slug)


def json_response(request: Request, frozen: Frozen, caching: str) -> Response:
    """The stored bytes, or 304 when the reader has them."""
    return _unless_known(request, frozen.sha256, caching) or Response(
        frozen.document,
        media_type="application/json",
        headers=_headers(frozen.sha256, caching),
    )


def csv_response(request: Request, frozen: Frozen, caching: str) -> Response:
    """The cells as a file to download, or 304 when the reader has it."""
    tag = f"{frozen.sha256}-csv-{cells_csv.EDITION}"
    return _unless_known(request, tag, caching) or Response(
        cells_csv.render(documents.parse(frozen.document)),
        media_type="text/csv; charset=utf-8",
        headers={
            **_headers(tag, caching),
            "Content-Disposition": f'attachment; filename="{frozen.slug}.csv"',
        },
    )


def _unless_known(request: Request, tag: str, caching: str) -> Response | None:
    known = [item.strip().removeprefix("W/") for item in _if_none_match(request).split(",")]
    if f'"{tag}"' in known or "*" in known:
        return Response(status_code=304, headers=_headers(tag, caching))
    return None


def _if_none_match(request: Request) -> str:
    return request.headers.get("if-none-match", "")


def _headers(tag: str, caching: str) -> dict[str, str]:
    return {"ETag": f'"{tag}"', "Cache-Control": caching}
