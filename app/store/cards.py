"""Run cards (recipes/) and published races (published/): files that travel with the product."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from app.config import resource
from app.domain import recipe_text
from app.domain.engine_args import EngineKind
from app.domain.errors import FieldProblem, NotFoundError, RecipeError
from app.domain.recipe import Recipe
from app.domain.snapshot import Provenance

DEFAULT_CARD = "replay-b300"


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


def provenance_of(recipe: Recipe) -> Provenance:
    """Measured, or a replay and of whose race; RecipeError when the race is unknown."""
    if recipe.engine is not EngineKind.REPLAY:
        return Provenance(kind="measured")
    name = str(recipe.args.get("race", ""))
    source_id, _, race_id = name.partition("#")
    for source in published():
        races = {str(race["id"]): race for race in source.data["races"]}
        if source.id == source_id and (not race_id or race_id in races):
            race = races[race_id] if race_id else next(iter(races.values()))
            return Provenance(
                kind="replay",
                plays=f"{source.title} ({source.kind})",
                hardware=str(race.get("hardware") or source.hardware),
            )
    raise RecipeError(
        [
            FieldProblem(
                "args.race",
                f"{name[:80]!r} is not a published race." if name else "is missing.",
                f"There are: {', '.join(_race_names())}.",
            )
        ]
    )


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
    data = json.loads(file.read_text(encoding="utf-8"))
    source = data["source"]
    gpu = source.get("hardware", {}).get("gpu", "")
    return PublishedRace(
        id=str(data["id"]),
        title=str(source["title"]),
        kind=str(source["kind"]),
        hardware=str(gpu),
        data=data,
    )
