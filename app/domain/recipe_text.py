"""Reading a recipe from YAML or JSON text that a stranger wrote: safe, bounded,
nothing said twice."""

import json
from collections.abc import Hashable
from typing import Any

import yaml

from app.domain.errors import FieldProblem, RecipeError
from app.domain.recipe import Recipe, validate

MAX_BYTES = 262_144


def from_yaml(text: str | bytes) -> Recipe:
    """Validate a YAML recipe; RecipeError names the field and the remedy."""
    return validate(parse_yaml(text))


def parse_yaml(text: str | bytes) -> Any:
    """Plain data of one YAML document: no tags, no aliases, no key twice, at most MAX_BYTES."""
    text = _bounded(text)
    try:
        loader = _RecipeLoader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except RecursionError:
        raise RecipeError(
            [FieldProblem("", "the YAML is nested too deeply.", "Flatten it.")]
        ) from None
    except yaml.YAMLError as error:
        raise RecipeError([_explain(error)]) from None
    except ValueError as error:  # PyYAML's dates and numbers: 2026-99-99, 0x_
        problem = FieldProblem("", f"a date or number cannot be read ({error}).", "Quote it.")
        raise RecipeError([problem]) from None


def parse_json(text: str | bytes) -> Any:
    """Plain data of one JSON document: no key twice, at most MAX_BYTES."""
    text = _bounded(text)
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise RecipeError(
            [FieldProblem("", "the JSON is nested too deeply.", "Flatten it.")]
        ) from None
    except ValueError as error:
        raise RecipeError(
            [FieldProblem("", f"this is not JSON: {error}.", "Mend it there.")]
        ) from None


def _bounded(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    if len(raw) > MAX_BYTES:
        raise RecipeError(
            [
                FieldProblem(
                    "",
                    f"the recipe is {len(raw)} bytes long; at most {MAX_BYTES} are read.",
                    "A recipe is a page of text: send only that.",
                )
            ]
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise RecipeError(
            [FieldProblem("", "the recipe is not UTF-8 text.", "Save it as UTF-8.")]
        ) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise RecipeError([_twice(key)])
        seen[key] = value
    return seen


def _twice(key: object) -> FieldProblem:
    return FieldProblem(str(key), "is named twice.", "Name it once; two lanes need two names.")


class _RecipeLoader(yaml.SafeLoader):
    """SafeLoader that refuses what a recipe never needs: aliases, tags, duplicate keys."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's stubs leave it untyped
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise RecipeError(
                [
                    FieldProblem(
                        f"line {event.start_mark.line + 1}",
                        "YAML anchors and aliases are not read.",
                        "Write the value out.",
                    )
                ]
            )
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise RecipeError(
                [
                    FieldProblem(
                        f"line {event.start_mark.line + 1}",
                        f"the YAML tag {tag[:60]} is not read.",
                        "Write the plain value.",
                    )
                ]
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise RecipeError([FieldProblem("", "a key is not plain text.", "Use a word.")])
            if key in seen:
                raise RecipeError([_twice(key)])
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _explain(error: yaml.YAMLError) -> FieldProblem:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or str(error)
    return FieldProblem(where, f"this is not YAML: {problem}.", "Mend the line.")
