"""A recipe is checked whole, and every complaint names its field and the remedy."""

import pytest

from app.domain.errors import RecipeError
from app.domain.recipe import validate
from app.domain.recipe_text import MAX_BYTES, from_yaml, parse_json

GOOD = "name: x\nmodel: m\nengine: vllm\n"


def fields(text: str | bytes) -> list[str]:
    """Fields that from_yaml complains about."""
    with pytest.raises(RecipeError) as caught:
        from_yaml(text)
    return [problem.field for problem in caught.value.problems]


def test_a_recipe_becomes_lanes_and_cells_with_the_baseline_first() -> None:
    recipe = from_yaml(
        GOOD + "lanes: {mtp: {drafter: d, k: 3}, baseline: {}}\n"
        "matrix: {contexts: [0, 512], concurrency: [1, 4]}"
    )

    assert list(recipe.lanes) == ["baseline", "mtp"]
    assert recipe.cells == [("code", 0, 1), ("code", 0, 4), ("code", 512, 1), ("code", 512, 4)]


def test_a_sweep_expands_into_lanes_made_like_the_first_variant() -> None:
    recipe = from_yaml(GOOD + "lanes: {baseline: {}, mtp: {drafter: d, k: 3}}\nsweep: {k: [1, 4]}")

    assert [lane.k for lane in recipe.lanes.values()] == [None, 3, 1, 4]
    assert {lane.drafter for lane in recipe.lanes.values() if lane.speculates} == {"d"}


def test_an_expanded_recipe_survives_storage() -> None:
    recipe = from_yaml(GOOD + "lanes: {baseline: {}, mtp: {drafter: d, k: 3}}\nsweep: {k: [1]}")

    assert validate(recipe.model_dump(mode="json")) == recipe


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (GOOD + "lanes: {baseline: {}}\nfoo: 1", "foo"),
        (GOOD + "lanes: {baseline: {}}\nmatrix: {concurency: [1]}", "matrix.concurency"),
        (GOOD + "lanes: {baseline: {}, mtp: {drafter: d, k: 0}}", "lanes.mtp.k"),
        (GOOD + "lanes: {baseline: {}, mtp: {drafter: d}}", "lanes.mtp.k"),
        (GOOD + "lanes: {baseline: {k: 3}}", "lanes.baseline"),
        (GOOD + "lanes: {mtp: {drafter: d, k: 3}}", "lanes"),
        (GOOD + "lanes: {baseline: {}, baseline: {}}", "baseline"),
        (GOOD + "lanes: {Baseline: {}}", "lanes.Baseline"),
        (GOOD + "lanes: {baseline: {}}\nargs: {max-model-lem: 9}", "args.max-model-lem"),
        (GOOD + "lanes: {baseline: {}}\nargs: {enforce-eager: 3}", "args.enforce-eager"),
        (GOOD + "lanes: {baseline: {}}\nenv: {LD_PRELOAD: x}", "env.LD_PRELOAD"),
        (GOOD + "lanes: {baseline: {}}\nmatrix: {contexts: [0, 0]}", "matrix.contexts"),
        (
            GOOD + "lanes: {baseline: {}}\nargs: {max-model-len: 2048}\n"
            "matrix: {contexts: [4096]}\ndecode: {max_tokens: 64}",
            "matrix.contexts",
        ),
        ("name: x\nmodel: m\nengine: attach\nlanes: {baseline: {}}", "lanes.baseline.url"),
        (
            "name: x\nmodel: m\nengine: attach\nlanes: {baseline: {url: 'http://u:p@h'}}",
            "lanes.baseline.url",
        ),
        (
            "name: x\nmodel: m\nengine: replay\nlanes: {baseline: {drafter: d}}",
            "lanes.baseline.drafter",
        ),
    ],
)
def test_bad_input_is_named_by_its_field(text: str, field: str) -> None:
    assert field in fields(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"x" * (MAX_BYTES + 1), "bytes long"),
        (b" " * 10_000_000, "10000000 bytes long"),
        ("a: !!python/object/apply:os.system ['id']", "YAML tag"),
        ("a: &x [1]\nb: *x", "anchors"),
        ("a: [", "not YAML"),
        ("[1, 2]", "mapping"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_hostile_text_gets_one_clear_message(text: str | bytes, words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        from_yaml(text)


def test_a_lane_named_twice_in_json_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"mtp: is named twice"):
        parse_json('{"lanes": {"mtp": {}, "mtp": {}}}')


def test_an_unknown_flag_suggests_the_nearest_one() -> None:
    with pytest.raises(RecipeError, match=r"Did you mean max-model-len\?"):
        from_yaml(GOOD + "lanes: {baseline: {}}\nargs: {max-model-lem: 9}")


def test_a_matrix_that_would_take_for_ever_is_refused() -> None:
    contexts = list(range(40))

    with pytest.raises(RecipeError, match="1600 cells"):
        from_yaml(
            GOOD + f"lanes: {{baseline: {{}}}}\n"
            f"matrix: {{contexts: {contexts}, concurrency: {list(range(1, 41))}}}"
        )


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("name: x\nmodel: --config=/tmp/x\nengine: vllm\nlanes: {baseline: {}}", "model"),
        (GOOD + "lanes: {baseline: {}, m: {drafter: -x, k: 1}}", "lanes.m.drafter"),
        (GOOD + "lanes: {baseline: {}}\nargs: {dtype: --trust-remote-code}", "args.dtype"),
        (GOOD + 'lanes: {baseline: {}}\nargs: {dtype: "a\\0b"}', "args.dtype"),
        (
            GOOD + "lanes: {baseline: {}}\nargs: {gpu-memory-utilization: .inf}",
            "args.gpu-memory-utilization",
        ),
        (
            "name: x\nmodel: m\nengine: replay\nlanes: {baseline: {args: {race: y}}}",
            "lanes.baseline.args.race",
        ),
        (
            "name: x\nmodel: m\nengine: attach\nlanes: {baseline: {url: 'http://h/?x='}}",
            "lanes.baseline.url",
        ),
    ],
)
def test_nothing_in_a_recipe_can_pose_as_a_flag_a_query_or_another_race(
    text: str, field: str
) -> None:
    assert field in fields(text)


@pytest.mark.parametrize("value", ["2026-99-99", "0x_", "0b_", "2026-01-01T99:99:99"])
def test_dates_and_numbers_that_yaml_cannot_read_are_told_in_words(value: str) -> None:
    with pytest.raises(RecipeError, match="date or number"):
        from_yaml(f"name: {value}\nmodel: m\nengine: replay\nlanes: {{baseline: {{}}}}")
