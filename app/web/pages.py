"""The pages: each handler asks the store, makes a view, renders it. No arithmetic, no SQL."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app.domain import recipe_text
from app.domain import result as documents
from app.domain.errors import FieldProblem, NotFoundError, RecipeError
from app.domain.snapshot import Snapshot
from app.domain.ticks import Tick
from app.store import cards, results, runs, ticks, workers
from app.store.db import Database
from app.web import patterns, submitting
from app.web.deps import Db, Now
from app.web.home_view import SubmitPage, curl_line, home_page, replay_recipe
from app.web.live_view import live_page, pick_cell
from app.web.render import public_url, respond
from app.web.result_view import Share, result_page

router = APIRouter(include_in_schema=False)

HOME_RUNS, HOME_RESULTS = 30, 24
EMBED_HEIGHT_PX = 360
SEE_OTHER = 303


@router.get("/")
def home(request: Request, db: Db, now: Now) -> HTMLResponse:
    """Runs, results, published races."""
    with db.read() as session:
        listed = runs.list_runs(session, now=now, limit=HOME_RUNS).runs
        frozen = results.list_results(session, limit=HOME_RESULTS)
        living = workers.living(session, now=now)
    curl = curl_line(public_url(request, "/"), cards.DEFAULT_CARD)
    return respond("pages/home.html", home_page(listed, frozen, cards.published(), living, curl))


@router.get("/submit")
def submit_form(
    request: Request, db: Db, now: Now, card: str = cards.DEFAULT_CARD, replay: str = ""
) -> HTMLResponse:
    """The form, filled with a card or with a published race to replay."""
    yaml = _replay(replay) if replay else cards.recipe_card(card).yaml
    return _form(request, db, now, yaml=yaml, picked="" if replay else card)


@router.post("/submit")
def submit(request: Request, db: Db, now: Now, recipe: Annotated[str, Form()] = "") -> Response:
    """Queue the recipe, or show the form again with everything typed and every problem named."""
    text = recipe.replace("\r\n", "\n")
    try:
        made = submitting.submit(db, recipe_text.from_yaml(text), now=now)
    except RecipeError as error:
        return _form(request, db, now, yaml=text, problems=error.problems, status=422)
    return RedirectResponse(f"/runs/{made.run.id}", SEE_OTHER)


@router.get("/runs/{run_id}")
def live(
    db: Db, now: Now, run_id: str, cell: int | None = None, lane: str | None = None
) -> HTMLResponse:
    """The live race; the same page once it has ended."""
    with db.read() as session:
        snapshot = runs.snapshot(session, run_id, now=now)
    page = live_page(snapshot, shown_ticks(db, snapshot, cell), now=now, cell=cell, lane=lane)
    return respond("pages/live.html", page)


@router.post("/runs/{run_id}/cancel")
def cancel(db: Db, now: Now, run_id: str) -> RedirectResponse:
    """Ask for the end of a run, then show it."""
    with db.write() as session:
        runs.request_cancel(session, run_id, now=now)
    return RedirectResponse(f"/runs/{run_id}", SEE_OTHER)


@router.get("/r/{slug}")
def result(request: Request, db: Db, slug: str) -> HTMLResponse:
    """A frozen result, drawn from its document alone."""
    with db.read() as session:
        frozen = results.get(session, slug)
    page = result_page(
        documents.parse(frozen.document),
        slug=slug,
        sha256=frozen.sha256,
        frozen_at=frozen.created_at,
        share=share(request, slug),
    )
    return respond("pages/result.html", page)


@router.get("/_patterns")
def show_patterns() -> HTMLResponse:
    """Every part in every state."""
    return respond("pages/patterns.html", patterns.patterns_page())


def share(request: Request, slug: str) -> Share:
    """Link and embed code of a result."""
    embed = public_url(request, f"/e/{slug}")
    return Share(
        link=public_url(request, f"/r/{slug}"),
        embed=f'<iframe src="{embed}" width="100%" height="{EMBED_HEIGHT_PX}" loading="lazy"'
        ' title="Slipstream result"></iframe>',
    )


def shown_ticks(db: Database, snapshot: Snapshot, cell: int | None) -> list[Tick]:
    """Ticks of the cell that is shown, and of the newest heat: its GPU figures are the latest."""
    shown = pick_cell(snapshot, cell)
    heats = {heat.id for lane in shown.lanes.values() for heat in lane.heats}
    with db.read() as session:
        newest = ticks.after(session, snapshot.run.id, snapshot.last_tick - 1, limit=1)
        return ticks.of_heats(session, heats | {tick.heat for tick in newest})


def _form(
    request: Request,
    db: Database,
    now: datetime,
    *,
    yaml: str,
    picked: str = "",
    problems: tuple[FieldProblem, ...] = (),
    status: int = 200,
) -> HTMLResponse:
    with db.read() as session:
        living = workers.living(session, now=now)
    page = SubmitPage(
        title="New race",
        section="submit",
        cards=cards.recipe_cards(),
        picked=picked,
        yaml=yaml,
        problems=problems,
        curl=curl_line(public_url(request, "/"), picked or None),
        workers=living,
    )
    return respond("pages/submit.html", page, status)


def _replay(name: str) -> str:
    source_id, _, race_id = name.partition("#")
    for source in cards.published():
        for race in source.data["races"]:
            if source.id == source_id and race["id"] == race_id and race["playable"]:
                return replay_recipe(source, race)
    raise NotFoundError(
        f"There is no published race {name[:80]!r} to replay.", remedy="The home page lists them."
    )
