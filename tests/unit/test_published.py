"""The published races: every normalised figure is the source's own figure, or is derived by the
formula it names.
"""

import ast
import json
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workers.replay.acceptance import geometric

PUBLISHED = Path(__file__).resolve().parents[2] / "published"
FILES = sorted(PUBLISHED.glob("*.json"))
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def read(path: Path) -> Any:
    """The document with every number as the text it is written in, so that no digit can hide."""
    return json.loads(path.read_text("utf-8"), parse_float=str, parse_int=str)


def resolve(figures: Any, pointer: str) -> Any:
    for part in pointer.strip("/").split("/"):
        figures = figures[int(part)] if isinstance(figures, list) else figures[part]
    return figures


def evaluate(formula: str) -> Any:
    def walk(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        assert node.func.id == "geometric"
        return list(geometric(*(walk(argument) for argument in node.args)))

    return walk(ast.parse(formula, mode="eval").body)


def literals(formula: str) -> list[str]:
    nodes = (n for n in ast.walk(ast.parse(formula)) if isinstance(n, ast.Constant))
    return [ast.get_source_segment(formula, n) or "" for n in nodes]


def figure_blocks(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "from" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from figure_blocks(child)


def numbers(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from numbers(child)
    elif isinstance(node, str):
        yield node


def test_all_five_sources_are_there() -> None:
    titles = [read(path)["source"]["title"] for path in FILES]

    assert len(titles) == len(set(titles)) == 5


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_figure_taken_from_the_source_is_the_sources_to_the_last_digit(path: Path) -> None:
    document = read(path)

    blocks = list(figure_blocks(document["races"]))

    taken = [
        (b[field], resolve(document["source_figures"], p))
        for b in blocks
        for field, p in b["from"].items()
    ]
    assert taken
    assert [ours for ours, _ in taken] == [source for _, source in taken]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_derived_figure_follows_its_formula_and_uses_published_literals(path: Path) -> None:
    document = read(path)
    published = set(numbers(document["source_figures"]))

    for block in figure_blocks(document["races"]):
        formulas = block.get("formulas", {})
        assert block.get("derived", False) == bool(formulas)
        for field, formula in formulas.items():
            computed = evaluate(formula)
            values = block[field] if isinstance(block[field], list) else [block[field]]
            expected = computed if isinstance(computed, list) else [computed]
            assert [float(v) for v in values] == pytest.approx(expected, rel=1e-12)
            assert set(literals(formula)) - {"1"} <= published


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_race_figure_says_where_it_comes_from(path: Path) -> None:
    document = read(path)

    lanes = [
        lane
        for race in document["races"]
        for cell in race["cells"]
        for lane in cell["lanes"].values()
    ]

    accounted = [
        lane["tokens_per_second"] is None
        or "tokens_per_second" in {**lane["from"], **lane["formulas"]}
        for lane in lanes
    ]
    assert all(accounted)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_race_is_playable_exactly_when_it_has_a_baseline_with_figures(path: Path) -> None:
    for race in read(path)["races"]:
        baselines = [name for name, lane in race["lanes"].items() if lane["baseline"]]
        figures = [
            cell["lanes"][name]["tokens_per_second"] for cell in race["cells"] for name in baselines
        ]

        assert race["playable"] == bool(figures and all(figures))
        assert race["playable"] == (race["why_not"] is None)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_acceptance_by_position_never_rises_and_has_k_positions(path: Path) -> None:
    for race in json.loads(path.read_text("utf-8"))["races"]:
        for cell in race["cells"]:
            for name, figures in cell["lanes"].items():
                profile = (figures["acceptance"] or {}).get("per_position")
                if profile is None:
                    continue

                assert len(profile) == race["lanes"][name]["k"]
                assert profile == sorted(profile, reverse=True)
