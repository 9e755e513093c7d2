"""From what a person typed (a file, a card, some --set) to a recipe and its provenance."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.domain import recipe_text
from app.domain.errors import FieldProblem, NotFoundError, RecipeError
from app.domain.overrides import apply_overrides
from app.domain.recipe import Recipe, validate
from app.domain.snapshot import Provenance
from app.store import cards


@dataclass(frozen=True)
class Asked:
    """A recipe that was read and checked."""

    recipe: Recipe
    provenance: Provenance


def read_recipe(name: str, overrides: Sequence[str] = ()) -> Asked:
    """Read a file (or a card of that name), lay the overrides over it, check it all.

    RecipeError names every field that is wrong, and what to write instead.
    """
    data = recipe_text.parse_yaml(_text(name))
    if overrides:
        data = apply_overrides(data, overrides)
    recipe = validate(data)
    return Asked(recipe, cards.provenance_of(recipe, allow_files=True))


def _text(name: str) -> bytes | str:
    file = Path(name)
    try:
        if file.is_file():
            return _read_bounded(file)
    except OSError as error:
        raise RecipeError([FieldProblem(name, f"cannot be read ({error}).", "Check it.")]) from None
    try:
        return cards.recipe_card(file.stem if file.parent.name == "recipes" else name).yaml
    except NotFoundError as error:
        raise RecipeError(
            [FieldProblem("recipe", f"{name} is neither a file nor a card.", error.remedy)]
        ) from None


def _read_bounded(file: Path) -> bytes:
    with file.open("rb") as opened:
        text = opened.read(recipe_text.MAX_BYTES + 1)
        if len(text) > recipe_text.MAX_BYTES:
            size = file.stat().st_size
            raise RecipeError(
                [
                    FieldProblem(
                        "",
                        f"the recipe is {size} bytes long; the limit is {recipe_text.MAX_BYTES}.",
                        "A recipe is a page of text.",
                    )
                ]
            )
    return text
