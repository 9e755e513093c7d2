"""What can be known at submit time about the hosts that would race a recipe, so that a mistake is
said at once instead of minutes later. Workers check again: this room sees only their rows."""

import socket
from collections.abc import Sequence
from pathlib import Path

from app.config import resource
from app.domain.engine_args import EngineKind
from app.domain.errors import FieldProblem, RecipeError
from app.domain.recipe import Recipe
from app.domain.urls import check_url
from app.store.workers import WorkerView

_LOCAL_SIGNS = ("/", "./", "../", "~", ".")


def check(recipe: Recipe, workers: Sequence[WorkerView]) -> None:
    """RecipeError when no living worker could race this; no worker at all is no reason to refuse
    (the run waits for one)."""
    problems = _check_urls(recipe)
    if workers:
        problems += _check_engine(recipe, workers)
    if any(worker.host == socket.gethostname() for worker in workers):
        problems += _check_files(recipe)
    if problems:
        raise RecipeError(problems)


def _check_engine(recipe: Recipe, workers: Sequence[WorkerView]) -> list[FieldProblem]:
    found = {engine for worker in workers for engine in worker.engines}
    if recipe.engine.value in found:
        return []
    names = ", ".join(sorted(found)) or "none"
    hosts = ", ".join(sorted({worker.host for worker in workers}))
    return [
        FieldProblem(
            "engine",
            f"{recipe.engine.value} is not installed where a worker lives ({hosts}).",
            f"Install it there and restart the worker, or race one of: {names}.",
        )
    ]


def _check_files(recipe: Recipe) -> list[FieldProblem]:
    if recipe.engine is not EngineKind.VLLM:
        return []
    named = {"model": recipe.model}
    named |= {
        f"lanes.{name}.drafter": lane.drafter
        for name, lane in recipe.lanes.items()
        if lane.drafter is not None
    }
    return [
        FieldProblem(
            field,
            f"there is no folder {value[:200]!r} on this host.",
            "Correct the path, or name a model of the Hugging Face hub (ORG/NAME).",
        )
        for field, value in named.items()
        if value.startswith(_LOCAL_SIGNS) and not _exists(value)
    ]


def _exists(path: str) -> bool:
    """Whether it is there, seen from where the server was started or from the clone."""
    try:
        given = Path(path).expanduser()
        return given.exists() or (resource("recipes").parent / given).exists()
    except (OSError, RuntimeError):  # too long a name, or a home that nobody has
        return False


def _check_urls(recipe: Recipe) -> list[FieldProblem]:
    if recipe.engine is not EngineKind.ATTACH:
        return []
    return [
        problem
        for name, lane in recipe.lanes.items()
        for problem in check_url(f"lanes.{name}.url", lane.url)
    ]
