"""Submitting a run, the same for the API and the form: read, check, queue."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain import overrides, recipe_text
from app.domain.errors import FieldProblem, NotFoundError, RecipeError
from app.domain.recipe import Recipe, validate
from app.domain.snapshot import RunView
from app.store import cards, runs, workers
from app.store.db import Database
from app.web import hostchecks

_CARD_KEYS = frozenset({"card", "set"})


@dataclass(frozen=True)
class Accepted:
    """The queued run; is_new is False when the same request had made it before."""

    run: RunView
    is_new: bool


def submit(
    db: Database,
    recipe: Recipe,
    *,
    now: datetime,
    idempotency_key: str | None = None,
    request: bytes = b"",
) -> Accepted:
    """Queue a run; RecipeError when the hosts that live could not race it."""
    provenance = cards.provenance_of(recipe)
    with db.read() as session:
        living = workers.living(session, now=now)
    hostchecks.check(recipe, living)
    with db.write() as session:
        submitted = runs.submit(
            session,
            recipe,
            provenance=provenance,
            now=now,
            idempotency_key=idempotency_key,
            request_sha256=hashlib.sha256(request).hexdigest(),
        )
        view = runs.view(session, submitted.run_id, now=now)
    return Accepted(view, submitted.is_new)


def read_json(body: bytes) -> Recipe:
    """A recipe, or {"card": NAME, "set": {"a.b": value}}, as JSON."""
    data = recipe_text.parse_json(body)
    if isinstance(data, dict) and "card" in data:
        return validate(_from_card(data))
    return validate(data)


def read_yaml(body: bytes) -> Recipe:
    """A recipe as YAML."""
    return recipe_text.from_yaml(body)


def _from_card(data: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(data.keys() - _CARD_KEYS)
    if unknown:
        raise RecipeError(
            [
                FieldProblem(name[:80], "means nothing beside a card.", "Known here: card, set.")
                for name in unknown
            ]
        )
    values = data.get("set", {})
    if not isinstance(values, dict):
        raise RecipeError(
            [FieldProblem("set", "is not a mapping.", 'Write {"decode.seconds": 2}.')]
        )
    return overrides.set_values(_card(data["card"]), values)


def _card(name: object) -> Any:
    try:
        return recipe_text.parse_yaml(cards.recipe_card(str(name)).yaml)
    except NotFoundError as error:
        raise RecipeError([FieldProblem("card", error.message, error.remedy)]) from None
