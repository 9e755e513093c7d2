"""The embed: one small article of a frozen result for other people's pages. No script,
no cookie."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from app.domain import result as documents
from app.domain.result import Result
from app.domain.snapshot import Provenance
from app.store import results
from app.web import charts, formats, result_view
from app.web.deps import Db
from app.web.render import Page, public_url, respond

router = APIRouter(include_in_schema=False)

Theme = Literal["light", "dark", "auto"]


@dataclass(frozen=True)
class EmbedLine:
    """One lane: its sparkline and its number."""

    lane: str
    style: int
    value: float | None
    spark: Markup


@dataclass(frozen=True, kw_only=True)
class EmbedPage(Page):
    """Everything on /e/{slug}."""

    theme: Theme
    link: str
    sentence: str
    hardware: str
    provenance: Provenance
    lines: tuple[EmbedLine, ...]
    speedup: float | None
    interval: str
    measured_at: datetime | None


@router.get("/e/{slug}")
def embed(request: Request, db: Db, slug: str, theme: str = "auto") -> HTMLResponse:
    """The embed of a result."""
    with db.read() as session:
        frozen = results.get(session, slug)
    link = public_url(request, f"/r/{slug}")
    page = embed_page(documents.parse(frozen.document), link=link, theme=_theme(theme))
    return respond("embeds/result.html", page)


def embed_page(result: Result, *, link: str, theme: Theme = "auto") -> EmbedPage:
    """The embed of a frozen document."""
    head = result.headline
    return EmbedPage(
        title=result.run.name,
        theme=theme,
        link=link,
        sentence=head.sentence,
        hardware=result_view.hardware(result),
        provenance=result.provenance,
        lines=_lines(result),
        speedup=head.speedup,
        interval=formats.interval(head.low, head.high),
        measured_at=result.run.started_at,
    )


def _lines(result: Result) -> tuple[EmbedLine, ...]:
    tokens = {spark.lane: spark.tokens for spark in result.sparks}
    highest = max((max(one, default=0) for one in tokens.values()), default=0)
    return tuple(
        EmbedLine(
            lane=number.lane,
            style=number.style,
            value=number.value,
            spark=charts.sparkline(
                tokens.get(number.lane, ()),
                highest=highest,
                style=number.style,
                title=f"Tokens of {number.lane}, second by second",
            ),
        )
        for number in result_view.numbers(result)
    )


def _theme(asked: str) -> Theme:
    """An unknown theme is the reader's own."""
    return "light" if asked == "light" else "dark" if asked == "dark" else "auto"
