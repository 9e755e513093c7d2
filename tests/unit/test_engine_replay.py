"""The replay adapter: which race and lane it plays, and what it says when there is none."""

import sys
from pathlib import Path

import pytest

from app.config import resource
from app.domain.errors import RecipeError
from app.domain.recipe import Recipe, validate
from app.domain.states import LaunchStep
from workers.engines.base import Seat
from workers.engines.replay import Replay


def make_recipe(lanes: dict | None = None, **args: object) -> Recipe:
    return validate(
        {
            "name": "replay",
            "model": "m",
            "engine": "replay",
            "args": {"race": "gb10-vllm-gemma4-26b-31b", **args},
            "lanes": lanes or {"baseline": {}, "mtp": {"k": 4}},
        }
    )


def make_seat() -> Seat:
    return Seat("127.0.0.1", 8123, "slip-1", Path("run"), published_dir=resource("published"))


def option(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(f"--{name}") + 1]


def test_our_own_python_plays_the_published_race() -> None:
    plan = Replay().plan(make_recipe(seed=5), "baseline", make_seat())

    assert plan.argv[:3] == (sys.executable, "-m", "workers.replay")
    assert option(plan.argv, "race").endswith("gb10-vllm-gemma4-26b-31b.json")
    assert option(plan.argv, "lane") == "baseline"
    assert option(plan.argv, "served-model-name") == "slip-1"
    assert (option(plan.argv, "port"), option(plan.argv, "seed")) == ("8123", "5")


def test_a_lane_plays_the_recorded_lane_with_its_k() -> None:
    plan = Replay().plan(make_recipe(), "mtp", make_seat())

    assert option(plan.argv, "lane") == "mtp-k4"
    assert plan.expects_speculation is True


def test_a_lane_may_name_what_it_plays() -> None:
    recipe = make_recipe({"baseline": {}, "again": {"plays": "baseline"}})

    plan = Replay().plan(recipe, "again", make_seat())

    assert option(plan.argv, "lane") == "baseline"
    assert plan.expects_speculation is False


@pytest.mark.parametrize("race", ["gb10-26b-k-sweep", "gb10-vllm-gemma4-26b-31b#gb10-26b-k-sweep"])
def test_a_race_inside_a_file_is_found_by_its_own_name(race: str) -> None:
    recipe = make_recipe({"baseline": {}, "mtp": {"k": 8}}, race=race)

    plan = Replay().plan(recipe, "mtp", make_seat())

    assert option(plan.argv, "race").endswith("31b.json#gb10-26b-k-sweep")
    assert option(plan.argv, "lane") == "mtp-k8"


@pytest.mark.parametrize("race", ["nope", "gb10-vllm-gemma4-26b-31b#nope", "nope.json"])
def test_an_unknown_race_is_answered_with_those_there_are(race: str) -> None:
    with pytest.raises(RecipeError, match="b300-sglang-gemma4-26b-a4b") as caught:
        Replay().plan(make_recipe(race=race), "baseline", make_seat())

    assert caught.value.problems[0].field == "args.race"


def test_a_k_that_was_not_recorded_is_answered_with_those_that_were() -> None:
    recipe = make_recipe({"baseline": {}, "mtp": {"k": 7}})

    with pytest.raises(RecipeError, match=r"k: 7.*mtp-k4 \(k: 4\)") as caught:
        Replay().plan(recipe, "mtp", make_seat())

    assert caught.value.problems[0].field == "lanes.mtp.k"


def test_faults_that_nobody_knows_are_refused() -> None:
    with pytest.raises(RecipeError) as caught:
        Replay().plan(make_recipe(faults='{"sing": {}}'), "baseline", make_seat())

    assert caught.value.problems[0].field == "args.faults"


def test_its_log_announces_loading_and_waiting() -> None:
    engine = Replay()

    steps = [
        engine.step("INFO [gpu_model_runner.py:4500] Starting to load model..."),
        engine.step("INFO [gpu_model_runner.py:4530] Model loading took 0.30 seconds"),
        engine.step("INFO [api_utils.py:347] slipstream-replay: this is a REPLAY"),
    ]

    assert steps == [LaunchStep.LOADING_WEIGHTS, LaunchStep.WAITING_READY, None]
