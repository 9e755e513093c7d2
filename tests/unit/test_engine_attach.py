"""attach: URLs as people paste them, keys that never leave the worker."""

from pathlib import Path

import pytest

from app.domain.errors import RecipeError
from app.domain.recipe import Recipe, validate
from workers.engines.attach import Attach
from workers.engines.base import Seat


def make_recipe(**lane: object) -> Recipe:
    baseline = {"url": "http://gpu-box:8000/v1/", **lane}
    lanes = {"baseline": baseline, "mtp": {"url": "http://gpu-box:8001", "k": 3}}
    return validate({"name": "a", "model": "m", "engine": "attach", "lanes": lanes})


def make_seat(**secrets: str) -> Seat:
    return Seat("127.0.0.1", 0, "unused", Path("run"), secrets=secrets)


def test_nothing_is_started_and_nothing_is_proven() -> None:
    plan = Attach().plan(make_recipe(), "baseline", make_seat())

    assert plan.argv == ()
    assert plan.proves_itself is False
    assert (plan.served_model, plan.expects_speculation) == (None, False)


@pytest.mark.parametrize(
    "url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "http://h:1//"]
)
def test_a_pasted_url_loses_its_trailing_slash_and_version(url: str) -> None:
    plan = Attach().plan(make_recipe(url=url), "baseline", make_seat())

    assert plan.base_url == "http://h:1"


def test_a_lane_with_k_is_expected_to_speculate() -> None:
    assert Attach().plan(make_recipe(), "mtp", make_seat()).expects_speculation is True


def test_of_another_lane_without_k_nothing_is_expected() -> None:
    lanes = {"baseline": {"url": "http://h:1"}, "other": {"url": "http://h:2"}}
    recipe = validate({"name": "a", "model": "m", "engine": "attach", "lanes": lanes})

    assert Attach().plan(recipe, "other", make_seat()).expects_speculation is None


def test_a_key_is_sent_by_header_and_by_its_name_only() -> None:
    plan = Attach().plan(make_recipe(api_key="box"), "baseline", make_seat(BOX="s3cret"))

    assert plan.headers == {"authorization": "Bearer s3cret"}


def test_a_key_that_the_worker_lacks_is_named_with_its_variable() -> None:
    with pytest.raises(RecipeError, match="SLIPSTREAM_KEY_BOX") as caught:
        Attach().plan(make_recipe(api_key="box"), "baseline", make_seat())

    assert caught.value.problems[0].field == "lanes.baseline.api_key"
