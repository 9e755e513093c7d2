"""replay: our own server process that plays a published or recorded race. Measures nothing new."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from app.domain.engine_args import EngineKind
from app.domain.errors import FieldProblem, RecipeError, SlipstreamError
from app.domain.recipe import BASELINE, Recipe
from app.domain.states import LaunchStep
from workers.engines.base import Counters, LaunchPlan, RequestShape, Seat
from workers.engines.openai import read_vllm_counters, streaming_request
from workers.replay.book import open_book
from workers.replay.faults import parse_faults

STOP_GRACE_SECONDS = 3.0
DEFAULT_RACE = "b300-sglang-gemma4-26b-a4b"

_STEPS = (
    (re.compile(r"\] Starting to load model"), LaunchStep.LOADING_WEIGHTS),
    (re.compile(r"\] Model loading took"), LaunchStep.WAITING_READY),
)


class Replay:
    """The adapter of workers.replay."""

    kind = EngineKind.REPLAY
    counts_live = True

    def plan(self, recipe: Recipe, lane: str, seat: Seat) -> LaunchPlan:
        """Our own Python runs it; RecipeError when there is no such race or lane to play."""
        args = recipe.args_of(lane)
        race = _find_race(str(args.pop("race", DEFAULT_RACE)), seat.published_dir)
        played = _choose_lane(race, recipe, lane)
        _check_faults(str(args.get("faults", "{}")), lane)
        argv = [sys.executable, "-m", "workers.replay", "--race", race, "--lane", played]
        argv += ["--host", seat.host, "--port", str(seat.port)]
        argv += ["--served-model-name", seat.served_model]
        for name in sorted(args):
            argv += [f"--{name}", str(args[name])]
        return LaunchPlan(
            argv=tuple(argv),
            env={"PYTHONUNBUFFERED": "1"},
            base_url=f"http://{seat.host}:{seat.port}",
            served_model=seat.served_model,
            tokenize_path="/tokenize",
            stop_grace_seconds=STOP_GRACE_SECONDS,
            expects_speculation=_recorded_lanes(race)[played] > 0,
        )

    def read(self, counters_text: str, log_tail: str) -> Counters:
        """It has vLLM's counter names."""
        return read_vllm_counters(counters_text)

    def step(self, log_line: str) -> LaunchStep | None:
        """Which launch step this log line announces."""
        return next((step for pattern, step in _STEPS if pattern.search(log_line)), None)

    def request(self, shape: RequestShape, model: str) -> tuple[str, dict[str, Any]]:
        """Path and body of one stream."""
        return streaming_request(shape, model)


def _find_race(name: str, published_dir: Path | None) -> str:
    """FILE[#RACE] that the server reads, from the id of a file, of a race, or from a path."""
    path, _, race = name.partition("#")
    if path.endswith(".json"):
        if not Path(path).is_file():
            raise _wrong("args.race", f"{path} does not exist on this host.", published_dir)
        return name
    for file, races in _shelf(published_dir).items():
        if file.stem == path:
            return f"{file}#{race}" if race else str(file)
        if path in races and not race:
            return f"{file}#{path}"
    raise _wrong("args.race", f"{name} is not a race that can be played.", published_dir)


def _shelf(published_dir: Path | None) -> dict[Path, list[str]]:
    """Published files, each with the ids of its playable races; files without any are left out."""
    found = {}
    for file in sorted(published_dir.glob("*.json")) if published_dir else []:
        races = json.loads(file.read_text("utf-8")).get("races", [])
        playable = [str(race["id"]) for race in races if race.get("playable")]
        if playable:
            found[file] = playable
    return found


def _choose_lane(reference: str, recipe: Recipe, lane: str) -> str:
    """The recorded lane this lane plays: the one it names, else the one with its k."""
    spec = recipe.lanes[lane]
    lanes = _recorded_lanes(reference)
    if spec.plays is not None:
        chosen, field = spec.plays, f"lanes.{lane}.plays"
    else:
        by_k = [name for name, k in lanes.items() if k == (spec.k or 0)]
        ranked = sorted(by_k, key=lambda name: (name != lane, name != BASELINE))
        chosen, field = (ranked or [lane])[0], f"lanes.{lane}.{'k' if spec.k else 'plays'}"
    if chosen not in lanes:
        known = ", ".join(f"{name} (k: {k})" if k else name for name, k in lanes.items())
        wanted = f"k: {spec.k}" if spec.k and not spec.plays else chosen
        raise RecipeError(
            [FieldProblem(field, f"the race has no lane with {wanted}.", f"It has: {known}.")]
        )
    try:
        open_book(reference, chosen)
    except SlipstreamError as error:
        raise RecipeError([FieldProblem(field, f"{error}.", "")]) from None
    return chosen


def _recorded_lanes(reference: str) -> dict[str, int]:
    """Lane name -> k (0 without speculation) of the race that `reference` names."""
    path, _, race_id = reference.partition("#")
    try:
        document = json.loads(Path(path).read_text("utf-8"))
        races = document.get("races") or [document]
        wanted = [race for race in races if not race_id or str(race.get("id")) == race_id]
        playable = [race for race in wanted if race.get("playable", True)]
        lanes = (playable or wanted)[0]["lanes"]
        named = lanes.items() if isinstance(lanes, dict) else ((row["name"], row) for row in lanes)
        return {str(name): int(row.get("k") or 0) for name, row in named}
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        problem = f"{reference} holds no such race."
        raise _wrong("args.race", problem, Path(path).parent) from None


def _check_faults(text: str, lane: str) -> None:
    try:
        parse_faults(text)
    except SlipstreamError as error:
        raise RecipeError([FieldProblem("args.faults", f"{error} (lane {lane})", "")]) from None


def _wrong(field: str, problem: str, published_dir: Path | None) -> RecipeError:
    names = ", ".join(file.stem for file in _shelf(published_dir))
    remedy = f"Published here: {names}." if names else "Give the path of a result.json."
    return RecipeError([FieldProblem(field, problem, remedy)])
