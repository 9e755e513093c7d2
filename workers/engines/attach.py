"""attach: a server that somebody else runs, by URL. Starts nothing and proves nothing."""

from typing import Any

from app.domain.engine_args import EngineKind
from app.domain.errors import FieldProblem, RecipeError
from app.domain.recipe import BASELINE, Recipe
from app.domain.states import LaunchStep
from workers.engines.base import Counters, LaunchPlan, RequestShape, Seat
from workers.engines.openai import read_vllm_counters, streaming_request


class Attach:
    """The adapter of any OpenAI-compatible URL."""

    kind = EngineKind.ATTACH
    counts_live = True
    """Where the server has vLLM's counters; otherwise `read` says None."""

    def plan(self, recipe: Recipe, lane: str, seat: Seat) -> LaunchPlan:
        """Talk to the lane's URL; RecipeError when its key is not known here."""
        spec = recipe.lanes[lane]
        if not spec.url:
            raise RecipeError([FieldProblem(f"lanes.{lane}.url", "is missing.", "Give the URL.")])
        return LaunchPlan(
            argv=(),
            env={},
            base_url=base_url(spec.url),
            served_model=spec.served_model,
            ready_path="/v1/models",  # not every server has /health
            headers=_authorization(spec.api_key, lane, seat),
            stop_grace_seconds=0,
            proves_itself=False,
            expects_speculation=_expectation(lane, spec.speculates),
        )

    def read(self, counters_text: str, log_tail: str) -> Counters:
        """Parse the page as vLLM's; another server's page reads as all None."""
        return read_vllm_counters(counters_text)

    def step(self, log_line: str) -> LaunchStep | None:
        """There is no log."""
        return None

    def request(self, shape: RequestShape, model: str) -> tuple[str, dict[str, Any]]:
        """Path and body of one stream."""
        return streaming_request(shape, model)


def _expectation(lane: str, speculates: bool) -> bool | None:
    """A baseline must not speculate; of another lane only what the recipe says is known."""
    if speculates:
        return True
    return False if lane == BASELINE else None


def base_url(url: str) -> str:
    """The URL without what people paste along: a trailing slash or /v1."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _authorization(name: str | None, lane: str, seat: Seat) -> dict[str, str]:
    if not name:
        return {}
    secret = seat.secrets.get(name.upper())
    if not secret:
        raise RecipeError(
            [
                FieldProblem(
                    f"lanes.{lane}.api_key",
                    f"the worker has no key named {name}.",
                    f"Set SLIPSTREAM_KEY_{name.upper()} in the worker's environment.",
                )
            ]
        )
    return {"authorization": f"Bearer {secret}"}
