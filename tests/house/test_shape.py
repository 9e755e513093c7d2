"""Files stay small enough to read in one go, and each says what it is."""

import ast
from pathlib import Path

from tests.house.tree import ROOT, modules, name_of

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_CSS_LINES = 200
MAX_JS_LINES = 150
GENERATED = "migrations/versions"


def longer_than(limit: int, paths: list[Path]) -> list[str]:
    counted = ((path, len(path.read_text().splitlines())) for path in paths)
    return [f"{name_of(path)}: {lines} lines" for path, lines in counted if lines > limit]


def own_modules() -> list[Path]:
    found = modules("app", "workers", "bench", "migrations", "tests")
    return [path for path in found if not name_of(path).startswith(GENERATED)]


def test_every_module_opens_with_a_docstring() -> None:
    silent = [
        name_of(path)
        for path in modules("app", "workers", "bench", "migrations", "tests")
        if ast.get_docstring(ast.parse(path.read_text())) is None
    ]

    assert silent == []


def test_no_module_is_longer_than_400_lines() -> None:
    assert longer_than(MAX_MODULE_LINES, own_modules()) == []


def test_no_function_is_longer_than_50_lines() -> None:
    functions = [
        (path, node)
        for path in own_modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    long = [
        f"{name_of(path)}: {node.name} has {lines} lines"
        for path, node in functions
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]

    assert long == []


def test_no_stylesheet_is_longer_than_200_lines() -> None:
    assert longer_than(MAX_CSS_LINES, sorted((ROOT / "static").glob("css/**/*.css"))) == []


def test_no_script_is_longer_than_150_lines() -> None:
    assert longer_than(MAX_JS_LINES, sorted((ROOT / "static").glob("js/**/*.js"))) == []
