"""Run cards (recipes/) and published races (published/): files that travel with the product."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from app.config import resource
from app.domain import recipe_text
from app.domain import result as documents
from app.domain.engine_args import EngineKind
from app.domain.errors import FieldProblem, NotFoundError, RecipeError
from app.domain.recipe import Recipe
from app.domain.snapshot import Provenance

DEFAULT_CARD = "replay-b300"
DEFAULT_RACE = "b300-sglang-gemma4-26b-a4b"


@dataclass(frozen=True)
class RecipeCard:
    """One file of recipes/."""

    name: str
    title: str
    engine: str
    comment: str
    """The comment lines at the top of the file."""
    yaml: str


@dataclass(frozen=True)
class PublishedRace:
    """One file of published/: a source with its races (docs/published.md)."""

    id: str
    title: str
    kind: str
    hardware: str
    data: dict[str, Any]


def recipe_cards() -> tuple[RecipeCard, ...]:
    """All cards, by name."""
    return tuple(_card(file) for file in sorted(resource("recipes").glob("*.yaml")))


def recipe_card(name: str) -> RecipeCard:
    """The card of that name; NotFoundError lists the names there are."""
    for card in recipe_cards():
        if card.name == name:
            return card
    known = ", ".join(card.name for card in recipe_cards())
    raise NotFoundError(f"There is no recipe card {name[:80]!r}.", remedy=f"There are: {known}.")


def published() -> tuple[PublishedRace, ...]:
    """All published sources, by id."""
    return tuple(_published(file) for file in sorted(resource("published").glob("*.json")))


def provenance_of(recipe: Recipe, *, allow_files: bool = False) -> Provenance:
    """Measured, or a replay and of whose race; RecipeError when the race is unknown.

    `allow_files` lets a race be a file of this host (a recorded result.json): for people at a
    terminal, never for requests over HTTP, which could ask what files there are.
    """
    if recipe.engine is not EngineKind.REPLAY:
        return Provenance(kind="measured")
    name = str(recipe.args.get("race", DEFAULT_RACE))
    source_id, _, race_id = name.partition("#")
    if allow_files and source_id.endswith(".json"):
        return _provenance_of_file(Path(source_id))
    for source in published():
        races = {str(race["id"]): race for race in source.data["races"]}
        if source.id == source_id and (not race_id or race_id in races):
            race = races[race_id] if race_id else next(iter(races.values()))
            hardware = str(race.get("hardware") or source.hardware)
            return _replay(f"{source.title} ({source.kind})", hardware)
    raise RecipeError(
        [
            FieldProblem(
                "args.race",
                f"{name[:80]!r} is not a published race.",
                f"There are: {', '.join(_race_names())}.",
            )
        ]
    )


def _provenance_of_file(file: Path) -> Provenance:
    """Whose race a recorded result or a published file plays."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["schema"] == "slipstream.published/1":
            source = _source(data)
            return _replay(f"{source.title} ({source.kind})", source.hardware)
        recorded = documents.parse(json.dumps(data).encode())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecipeError(
            [
                FieldProblem(
                    "args.race",
                    f"{file} is not a recorded race ({type(error).__name__}).",
                    "Name a result.json of Slipstream, or a published race.",
                )
            ]
        ) from error
    if recorded.provenance.kind == "replay":
        return recorded.provenance
    gpus = ", ".join(str(gpu.get("name")) for gpu in recorded.machine.get("gpus", []))
    return _replay(
        f"{recorded.run.name} (recorded by Slipstream {recorded.tool.version})",
        gpus or str(recorded.machine.get("cpu", "unknown hardware")),
    )


def _replay(plays: str, hardware: str) -> Provenance:
    return Provenance(kind="replay", plays=plays, hardware=hardware)


def _race_names() -> list[str]:
    return [f"{source.id}#{race['id']}" for source in published() for race in source.data["races"]]


@cache
def _card(file: Path) -> RecipeCard:
    text = file.read_text(encoding="utf-8")
    recipe = recipe_text.from_yaml(text)
    comment = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    return RecipeCard(
        name=file.stem,
        title=recipe.name,
        engine=recipe.engine.value,
        comment=" ".join(comment),
        yaml=text,
    )


@cache
def _published(file: Path) -> PublishedRace:
    return _source(json.loads(file.read_text(encoding="utf-8")))


def _source(data: dict[str, Any]) -> PublishedRace:
    source = data["source"]
    gpu = source.get("hardware", {}).get("gpu", "")
    return PublishedRace(
        id=str(data["id"]),
        title=str(source["title"]),
        kind=str(source["kind"]),
        hardware=str(gpu),
        data=data,
    )
