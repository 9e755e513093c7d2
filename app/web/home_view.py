"""What the home page and the submit form show: runs, results, published races, workers, cards."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.errors import FieldProblem
from app.domain.snapshot import RunView
from app.domain.states import ENDED_RUNS, RunState
from app.store.cards import PublishedRace, RecipeCard
from app.store.results import ResultCard
from app.store.workers import WorkerView
from app.web import formats
from app.web.render import Page


@dataclass(frozen=True)
class PublishedFigure:
    """One lane in one cell of somebody else's race, as they published it."""

    cell: str
    lane: str
    speed: str
    speedup: str
    is_peak: bool


@dataclass(frozen=True)
class GalleryRace:
    """One published race."""

    title: str
    engine: str
    speedups: str
    """Range of the published speedups, or empty."""
    figures: tuple[PublishedFigure, ...]
    replay: str | None
    """Name for /submit?replay=…; None when it cannot be played."""
    why_not: str


@dataclass(frozen=True)
class GalleryCard:
    """One published source with its races."""

    title: str
    kind: str
    hardware: str
    races: tuple[GalleryRace, ...]


@dataclass(frozen=True, kw_only=True)
class HomePage(Page):
    """Everything on /."""

    active: tuple[RunView, ...]
    ended: tuple[RunView, ...]
    results: tuple[ResultCard, ...]
    gallery: tuple[GalleryCard, ...]
    workers: tuple[WorkerView, ...]
    curl: str


@dataclass(frozen=True, kw_only=True)
class SubmitPage(Page):
    """Everything on /submit."""

    cards: tuple[RecipeCard, ...]
    picked: str
    yaml: str
    problems: tuple[FieldProblem, ...] = ()
    curl: str
    workers: tuple[WorkerView, ...]


def home_page(
    runs: Sequence[RunView],
    results: Sequence[ResultCard],
    published: Sequence[PublishedRace],
    workers: Sequence[WorkerView],
    curl: str,
) -> HomePage:
    """The home page; racing runs come before waiting ones."""
    active = [run for run in runs if run.state not in ENDED_RUNS]
    active.sort(key=lambda run: (run.state is RunState.QUEUED, run.queue_position or 0))
    frozen = {card.run_id for card in results}
    return HomePage(
        title="Slipstream",
        section="home",
        active=tuple(active),
        ended=tuple(run for run in runs if run.state in ENDED_RUNS and run.id not in frozen),
        results=tuple(results),
        gallery=tuple(gallery_card(source) for source in published),
        workers=tuple(workers),
        curl=curl,
    )


def curl_line(base_url: str, card: str | None = None) -> str:
    """The command that submits the same race without a browser."""
    url = shlex.quote(f"{base_url.rstrip('/')}/api/v1/runs")
    body = f"""-H 'Content-Type: application/json' -d '{{"card": "{card}"}}'"""
    if card is None:
        body = "-H 'Content-Type: application/yaml' --data-binary @recipe.yaml"
    return f'curl -X POST {url} -H "Authorization: Bearer $SLIPSTREAM_TOKEN" {body}'


def gallery_card(source: PublishedRace) -> GalleryCard:
    """A published source, its figures untouched."""
    return GalleryCard(
        title=source.title,
        kind=source.kind,
        hardware=source.hardware,
        races=tuple(_gallery_race(source.id, race) for race in source.data["races"]),
    )


def _gallery_race(source_id: str, race: dict[str, Any]) -> GalleryRace:
    cells = race["cells"]
    speedups = [value for cell in cells for value in _speedups(cell).values() if value != 1]
    low, high = (min(speedups), max(speedups)) if speedups else (None, None)
    span = f"{low}×" if low == high else f"{low}×–{high}×"
    return GalleryRace(
        title=str(race["title"]),
        engine=str(race["engine"]["name"]),
        speedups=span if speedups else "",
        figures=tuple(figure for cell in cells for figure in _figures(cell)),
        replay=f"{source_id}#{race['id']}" if race["playable"] else None,
        why_not=str(race["why_not"] or ""),
    )


def _speedups(cell: dict[str, Any]) -> dict[str, float]:
    """Published speedups of a cell by lane; a cell's own belongs to its only variant."""
    found = {
        name: lane["speedup_published"]
        for name, lane in cell["lanes"].items()
        if lane.get("speedup_published") is not None
    }
    variants = [name for name in cell["lanes"] if name != "baseline"]
    if not found and cell.get("speedup_published") is not None and len(variants) == 1:
        found[variants[0]] = cell["speedup_published"]
    return found


def _figures(cell: dict[str, Any]) -> Iterator[PublishedFigure]:
    """Lanes of a cell; a derived speed says so by standing in the source's own unit elsewhere."""
    speedups = _speedups(cell)
    label = formats.cell(str(cell["workload"]), cell["context"], cell["concurrency"])
    for name, lane in cell["lanes"].items():
        speed = lane.get("tokens_per_second")
        derived = " (derived)" if lane.get("derived") else ""
        yield PublishedFigure(
            cell=label,
            lane=name,
            speed=f"{formats.rate(speed)}{derived}" if derived else _as_published(lane),
            speedup=f"{speedups[name]}×" if name in speedups else "",
            is_peak=bool(lane.get("is_peak")),
        )


def _as_published(lane: dict[str, Any]) -> str:
    """The source's own digits."""
    span = lane.get("range_tokens_per_second")
    if span:
        return f"{span[0]}–{span[1]}"
    value = lane.get("tokens_per_second")
    return formats.NOTHING if value is None else f"{value:,}"


def replay_recipe(source: PublishedRace, race: dict[str, Any]) -> str:
    """A recipe that plays a published race, as YAML for the form."""
    cells = race["cells"]
    contexts = sorted({int(cell["context"]) for cell in cells})
    streams = sorted({int(cell["concurrency"]) for cell in cells})
    variants = [
        f"  {name}: {{k: {lane['k']}}}"
        for name, lane in race["lanes"].items()
        if not lane.get("baseline") and lane.get("k")
    ]
    title = str(race["title"]).replace('"', "'")
    lines = [
        f"# Plays a published race. Source: {source.title} ({source.kind}).",
        f'name: "REPLAY: {title}"',
        f"model: {race['model']}",
        "engine: replay",
        f'args: {{race: "{source.id}#{race["id"]}"}}',
        "lanes:",
        "  baseline: {}",
        *variants,
        f"matrix: {{contexts: {contexts}, concurrency: {streams}, workloads: [code]}}",
        "decode: {mode: forced, seconds: 2.5, max_tokens: 8192, temperature: 0}",
        "repeats: 2",
    ]
    return "\n".join(lines) + "\n"
