"""Laying single values over a recipe's data: `decode.seconds=2` from the terminal or the API.
Knows no recipe: whether a key exists is the recipe's business."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from app.domain import recipe_text
from app.domain.errors import FieldProblem, RecipeError


def apply_overrides(data: Any, assignments: Sequence[str]) -> dict[str, Any]:
    """A copy of `data` with every `a.b=VALUE` set; VALUE is read as YAML (2, true, [1, 4], text).

    RecipeError names the key that cannot be set.
    """
    return set_values(data, dict(_split(assignment) for assignment in assignments))


def set_values(data: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `data` with every dotted key set to its value; missing mappings are made."""
    if not isinstance(data, dict):
        raise RecipeError([FieldProblem("", "there is no recipe to set values in.")])
    result: dict[str, Any] = copy.deepcopy(data)
    for path, value in values.items():
        _set(result, path, value)
    return result


def _split(assignment: str) -> tuple[str, Any]:
    path, sign, text = assignment.partition("=")
    path = path.strip()
    if not sign or not path:
        raise RecipeError(
            [FieldProblem(assignment[:80], "is not KEY=VALUE.", "Write e.g. decode.seconds=2.")]
        )
    try:
        return path, recipe_text.parse_yaml(text)
    except RecipeError as error:
        problem = error.problems[0]
        raise RecipeError([FieldProblem(path, problem.message, problem.remedy)]) from None


def _set(data: dict[str, Any], path: str, value: Any) -> None:
    node = data
    key, rest = _step(node, path, path)
    while rest:
        below = node.get(key)
        if below is None:  # absent, or written as an empty `baseline:`
            below = node[key] = {}
        if not isinstance(below, dict):
            raise RecipeError(
                [
                    FieldProblem(
                        path,
                        f"cannot be set: {key} is not a mapping.",
                        f"Set {path.removesuffix('.' + rest)} as a whole.",
                    )
                ]
            )
        node = below
        key, rest = _step(node, rest, path)
    node[key] = value


def _step(node: dict[str, Any], path: str, whole: str) -> tuple[str, str]:
    """The next key and what follows it. A key that exists with dots in its name wins."""
    parts = path.split(".")
    if not all(parts):
        raise RecipeError(
            [FieldProblem(whole, "is not a dotted key.", "Write e.g. decode.seconds.")]
        )
    for length in range(len(parts), 1, -1):
        if ".".join(parts[:length]) in node:
            return ".".join(parts[:length]), ".".join(parts[length:])
    return parts[0], ".".join(parts[1:])
