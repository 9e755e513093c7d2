"""vLLM: `vllm serve` flags from a recipe, launch steps from its log. Starts nothing itself.

Facts come from real servers (tests/golden/vllm); quirks that no golden file shows say so here.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from app.domain.engine_args import EngineKind
from app.domain.errors import FieldProblem, LaunchError, RecipeError
from app.domain.recipe import LaneSpec, Recipe, Value
from app.domain.states import LaunchStep
from workers.engines.base import Counters, LaunchPlan, RequestShape, Seat
from workers.engines.openai import read_vllm_counters, streaming_request

SHUTDOWN_TIMEOUT_SECONDS = 5
# Without it the API server hangs on SIGTERM until the last client has closed its stream.
STOP_GRACE_SECONDS = 20.0  # shutdown took 1.7 to 7 s on a busy machine

_ENV = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "PYTHONUNBUFFERED": "1",
}

_STEPS: tuple[tuple[re.Pattern[str], LaunchStep], ...] = tuple(
    (re.compile(pattern), step)
    for pattern, step in (
        (
            r"\] (Starting to load model|Loading (model|weights|drafter))",
            LaunchStep.LOADING_WEIGHTS,
        ),
        (r"^(\(.*\) )?Loading \S+ checkpoint shards", LaunchStep.LOADING_WEIGHTS),
        (r"(\] Time spent downloading weights|^Fetching \d+ files)", LaunchStep.DOWNLOADING),
        (r"\] (Dynamo bytecode transform|Compiling a graph)", LaunchStep.COMPILING),
        (r"\] (Warming up model for the compilation|Using cache directory)", LaunchStep.COMPILING),
        (r"^(\(.*\) )?Capturing .*CUDA graphs", LaunchStep.CAPTURING_GRAPHS),
        (r"\] (Capturing (model|CUDA)|Graph capturing)", LaunchStep.CAPTURING_GRAPHS),
        (r"\] (init engine \(|Starting vLLM server)", LaunchStep.WAITING_READY),
        (r"INFO:\s+Waiting for application startup", LaunchStep.WAITING_READY),
    )
)


class Vllm:
    """The adapter of vLLM's OpenAI server."""

    kind = EngineKind.VLLM
    counts_live = True

    def plan(self, recipe: Recipe, lane: str, seat: Seat) -> LaunchPlan:
        """`vllm serve` on the seat; LaunchError when vLLM is not installed here."""
        problems = missing_paths(recipe)
        if problems:
            raise RecipeError(problems)
        program = seat.binaries.get(self.kind.value)
        if not program:
            raise LaunchError(
                "vllm not found.",
                step=LaunchStep.PREFLIGHT.value,
                remedy="Run `make engines`, or set SLIPSTREAM_VLLM_BIN to the vllm command.",
            )
        spec = recipe.lanes[lane]
        return LaunchPlan(
            argv=(*program, *_serve(recipe, lane, seat)),
            env={**_ENV, **_offline(recipe, spec), **recipe.env_of(lane)},
            base_url=f"http://{seat.host}:{seat.port}",
            served_model=seat.served_model,
            tokenize_path="/tokenize",
            stop_grace_seconds=STOP_GRACE_SECONDS,
            expects_speculation=spec.speculates,
        )

    def read(self, counters_text: str, log_tail: str) -> Counters:
        """Parse /metrics; the log's own throughputs divide by idle time and are not used."""
        return read_vllm_counters(counters_text)

    def step(self, log_line: str) -> LaunchStep | None:
        """Which launch step this log line announces."""
        return next((step for pattern, step in _STEPS if pattern.search(log_line)), None)

    def request(self, shape: RequestShape, model: str) -> tuple[str, dict[str, Any]]:
        """Path and body of one stream."""
        return streaming_request(shape, model)


def missing_paths(recipe: Recipe) -> list[FieldProblem]:
    """Local model folders that the recipe names and this host does not have."""
    named = [("model", recipe.model)]
    named += [
        (f"lanes.{n}.drafter", lane.drafter) for n, lane in recipe.lanes.items() if lane.drafter
    ]
    return [
        FieldProblem(
            field,
            f"{path} does not exist on this host.",
            "Write a folder that exists (relative to where the worker runs; `make engines` makes"
            " the tiny ones), or a model's name on the hub such as google/gemma-4-26B-A4B-it.",
        )
        for field, path in named
        if looks_local(path) and not Path(path).expanduser().exists()
    ]


def looks_local(model: str) -> bool:
    """Whether a model is named by a path. ORG/NAME is a hub name unless such a folder exists."""
    return model.startswith(("/", ".", "~")) or (os.sep in model and Path(model).is_dir())


def _serve(recipe: Recipe, lane: str, seat: Seat) -> list[str]:
    spec, args = recipe.lanes[lane], recipe.args_of(lane)
    argv = ["serve", _path(recipe.model), "--served-model-name", seat.served_model]
    argv += ["--host", seat.host, "--port", str(seat.port), "--disable-uvicorn-access-log"]
    # A repeated prompt must cost what it cost the first time, unless the recipe races the cache.
    args = {"enable-prefix-caching": False, "shutdown-timeout": SHUTDOWN_TIMEOUT_SECONDS, **args}
    for name in sorted(args):
        argv += _flag(name, args[name])
    if spec.speculates:
        argv += ["--speculative-config", _speculation(spec)]
    return argv


def _flag(name: str, value: Value) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", str(value)]


def _speculation(spec: LaneSpec) -> str:
    config: dict[str, str | int] = {"method": spec.method or "mtp"}
    if spec.drafter is not None:
        config["model"] = _path(spec.drafter)
    if spec.k is not None:
        config["num_speculative_tokens"] = spec.k
    return json.dumps(config, sort_keys=True, separators=(",", ":"))


def _offline(recipe: Recipe, spec: LaneSpec) -> dict[str, str]:
    """A server whose weights all lie here has nothing to ask the hub."""
    if looks_local(recipe.model) and (spec.drafter is None or looks_local(spec.drafter)):
        return {"HF_HUB_OFFLINE": "1"}
    return {}


def _path(model: str) -> str:
    return str(Path(model).expanduser()) if model.startswith("~") else model
