"""Engines, one file each; ENGINES names them. They do not know each other."""

from app.domain.engine_args import EngineKind
from app.domain.errors import FieldProblem, RecipeError
from app.domain.recipe import Recipe
from workers.engines.attach import Attach
from workers.engines.base import Engine, Seat
from workers.engines.replay import Replay
from workers.engines.vllm import Vllm, missing_paths

ENGINES: dict[EngineKind, Engine] = {
    EngineKind.VLLM: Vllm(),
    EngineKind.REPLAY: Replay(),
    EngineKind.ATTACH: Attach(),
}


def check_paths(recipe: Recipe) -> None:
    """RecipeError when the recipe names a model folder that this host does not have."""
    if recipe.engine is EngineKind.VLLM and (problems := missing_paths(recipe)):
        raise RecipeError(problems)


def check_here(recipe: Recipe, seat: Seat) -> None:
    """Plan every lane without starting any, so that what cannot work here is said at once.

    RecipeError holds all lanes' problems; LaunchError means that the engine is not installed.
    """
    problems: dict[FieldProblem, None] = {}
    for lane in recipe.lanes:
        try:
            ENGINES[recipe.engine].plan(recipe, lane, seat)
        except RecipeError as error:
            problems.update(dict.fromkeys(error.problems))
    if problems:
        raise RecipeError(list(problems))


__all__ = ["ENGINES", "check_here", "check_paths"]
