"""Single values laid over a recipe."""

import pytest

from app.domain.errors import RecipeError
from app.domain.overrides import apply_overrides, set_values


def test_an_override_sets_a_nested_value_as_yaml_reads_it() -> None:
    data = {"decode": {"seconds": 30, "mode": "forced"}, "repeats": 3}

    changed = apply_overrides(data, ["decode.seconds=2.5", "repeats=1", "decode.mode=natural"])

    assert changed == {"decode": {"seconds": 2.5, "mode": "natural"}, "repeats": 1}


def test_an_override_leaves_the_original_alone() -> None:
    data = {"decode": {"seconds": 30}}

    apply_overrides(data, ["decode.seconds=2"])

    assert data == {"decode": {"seconds": 30}}


def test_an_override_makes_mappings_that_are_missing_or_empty() -> None:
    data = {"lanes": {"baseline": None}}

    changed = apply_overrides(
        data, ["lanes.baseline.url=http://127.0.0.1:1", "matrix.contexts=[0, 512]"]
    )

    assert changed == {
        "lanes": {"baseline": {"url": "http://127.0.0.1:1"}},
        "matrix": {"contexts": [0, 512]},
    }


def test_a_key_with_dots_in_its_name_wins_over_the_path() -> None:
    changed = apply_overrides({"lanes": {"mtp-k1.5": {"k": 1}}}, ["lanes.mtp-k1.5.k=2"])

    assert changed == {"lanes": {"mtp-k1.5": {"k": 2}}}


def test_values_of_the_api_keep_their_types() -> None:
    assert set_values({}, {"args.race": "a#b", "env.X": "1"}) == {
        "args": {"race": "a#b"},
        "env": {"X": "1"},
    }


@pytest.mark.parametrize(
    ("assignment", "field"),
    [
        ("repeats", "repeats"),
        ("=3", "=3"),
        ("a..b=1", "a..b"),
        ("repeats.x=1", "repeats.x"),
        ("repeats=[1", "repeats"),
        ("repeats=!!python/none x", "repeats"),
    ],
)
def test_a_wrong_override_is_named(assignment: str, field: str) -> None:
    with pytest.raises(RecipeError) as caught:
        apply_overrides({"repeats": 3}, [assignment])

    assert caught.value.problems[0].field == field


def test_no_recipe_takes_no_override() -> None:
    with pytest.raises(RecipeError, match="no recipe"):
        apply_overrides(["a"], ["a=1"])
