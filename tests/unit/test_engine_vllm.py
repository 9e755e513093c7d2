"""The vLLM adapter against what real servers took, printed and counted (tests/golden/vllm)."""

import json
from pathlib import Path

import pytest

from app.domain.acceptance import Acceptance
from app.domain.errors import LaunchError, RecipeError
from app.domain.recipe import Recipe, validate
from app.domain.states import LaunchStep
from workers.engines import ENGINES, check_here, check_paths
from workers.engines.base import RequestShape, Seat
from workers.engines.vllm import Vllm

GOLDEN = Path(__file__).parent.parent / "golden" / "vllm"


def make_recipe(**changes: object) -> Recipe:
    return validate(
        {
            "name": "tiny",
            "model": "google/gemma-4-26B-A4B-it",
            "engine": "vllm",
            "args": {"max-model-len": 16384, "enforce-eager": True},
            "env": {"VLLM_CPU_KVCACHE_SPACE": "1"},
            "lanes": {
                "baseline": {},
                "mtp-k3": {"drafter": "google/gemma-4-26B-A4B-it-assistant", "k": 3},
            },
            **changes,
        }
    )


def make_seat(**changes: object) -> Seat:
    fields: dict = {
        "host": "127.0.0.1",
        "port": 8123,
        "served_model": "slip-1",
        "work_dir": Path("run"),
        "binaries": {"vllm": ("/opt/vllm/bin/vllm",)},
    }
    return Seat(**{**fields, **changes})


def make_shape(**changes: object) -> RequestShape:
    fields: dict = {
        "prompt": [1, 2, 3],
        "max_tokens": 100,
        "is_forced": True,
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": 42,
    }
    return RequestShape(**{**fields, **changes})


def steps_of(log: str) -> list[LaunchStep]:
    seen: list[LaunchStep] = []
    for line in (GOLDEN / log).read_text("utf-8").splitlines():
        step = Vllm().step(line)
        if step is not None and step not in seen[-1:]:
            seen.append(step)
    return seen


def test_the_baseline_serves_with_the_recipes_flags_and_nothing_else() -> None:
    plan = Vllm().plan(make_recipe(), "baseline", make_seat())

    assert " ".join(plan.argv) == (
        "/opt/vllm/bin/vllm serve google/gemma-4-26B-A4B-it --served-model-name slip-1"
        " --host 127.0.0.1 --port 8123 --disable-uvicorn-access-log"
        " --no-enable-prefix-caching --enforce-eager --max-model-len 16384 --shutdown-timeout 5"
    )


def test_a_lane_with_k_differs_from_the_baseline_by_its_speculation_alone() -> None:
    baseline = Vllm().plan(make_recipe(), "baseline", make_seat())

    plan = Vllm().plan(make_recipe(), "mtp-k3", make_seat())

    assert plan.argv == (
        *baseline.argv,
        "--speculative-config",
        '{"method":"mtp","model":"google/gemma-4-26B-A4B-it-assistant","num_speculative_tokens":3}',
    )
    assert (baseline.expects_speculation, plan.expects_speculation) == (False, True)


def test_a_lane_may_name_another_method_and_needs_no_drafter() -> None:
    recipe = make_recipe(lanes={"baseline": {}, "ngram": {"method": "ngram", "k": 4}})

    plan = Vllm().plan(recipe, "ngram", make_seat())

    assert json.loads(plan.argv[-1]) == {"method": "ngram", "num_speculative_tokens": 4}


def test_switches_and_defaults_follow_the_recipe() -> None:
    args = {"enable-prefix-caching": True, "async-scheduling": False, "shutdown-timeout": 9}

    argv = Vllm().plan(make_recipe(args=args), "baseline", make_seat()).argv

    assert argv[-4:] == ("--no-async-scheduling", "--enable-prefix-caching", *argv[-2:])
    assert argv[-2:] == ("--shutdown-timeout", "9")


def test_the_environment_is_the_recipes_on_top_of_a_silent_vllm() -> None:
    plan = Vllm().plan(make_recipe(), "baseline", make_seat())

    assert plan.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert plan.env["VLLM_NO_USAGE_STATS"] == "1"
    assert "HF_HUB_OFFLINE" not in plan.env


def test_local_weights_need_no_hub(tmp_path: Path) -> None:
    recipe = make_recipe(model=str(tmp_path), lanes={"baseline": {}})

    plan = Vllm().plan(recipe, "baseline", make_seat())

    assert plan.env["HF_HUB_OFFLINE"] == "1"


def test_a_missing_vllm_is_said_with_its_remedy() -> None:
    with pytest.raises(LaunchError, match=r"make engines.*SLIPSTREAM_VLLM_BIN") as caught:
        Vllm().plan(make_recipe(), "baseline", make_seat(binaries={}))

    assert caught.value.step == "preflight"


def test_missing_folders_are_named_by_their_field() -> None:
    recipe = make_recipe(
        model="./no/model", lanes={"baseline": {}, "mtp": {"drafter": "/no/drafter", "k": 1}}
    )

    with pytest.raises(RecipeError) as caught:
        check_paths(recipe)

    assert [problem.field for problem in caught.value.problems] == ["model", "lanes.mtp.drafter"]


def test_a_hub_name_is_not_taken_for_a_path() -> None:
    check_paths(make_recipe())


def test_planning_all_lanes_names_each_problem_once() -> None:
    recipe = make_recipe(model="./no/model")

    with pytest.raises(RecipeError) as caught:
        check_here(recipe, make_seat())

    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("kind", ENGINES)
def test_every_engine_knows_its_own_name(kind) -> None:
    assert ENGINES[kind].kind is kind


def test_reads_the_counters_of_a_speculating_server() -> None:
    page = (GOLDEN / "metrics-0.32.0-cpu-mtp.txt").read_text("utf-8")

    counters = Vllm().read(page, "")

    assert counters.acceptance == Acceptance(
        drafts=151, drafted=451, accepted=259, per_position=(112, 76, 71)
    )
    assert (counters.generation_tokens, counters.prompt_tokens) == (414, 2209)
    assert (counters.cached_tokens, counters.requests_finished) == (0, 13)
    assert (counters.running, counters.waiting, counters.preemptions) == (0, 0, 0)
    assert (counters.kv_usage, counters.process_started_at) == (0.0, 1795234616.52)


def test_reads_the_counters_of_an_older_server_on_a_gpu() -> None:
    page = (GOLDEN / "metrics-0.26.0-h200-mtp.txt").read_text("utf-8")

    counters = Vllm().read(page, "")

    assert counters.generation_tokens == 49597
    assert counters.acceptance == Acceptance(
        drafts=13816, drafted=41448, accepted=35797, per_position=(12852, 11934, 11011)
    )


def test_a_server_without_speculation_has_no_acceptance_rather_than_zero() -> None:
    page = (GOLDEN / "metrics-0.32.0-cpu-baseline.txt").read_text("utf-8")

    counters = Vllm().read(page, "")

    assert counters.acceptance is None
    assert counters.generation_tokens == 378


def test_counters_of_several_engines_are_summed() -> None:
    page = (GOLDEN / "metrics-0.32.0-cpu-mtp.txt").read_text("utf-8")
    two_engines = page + page.replace('engine="0"', 'engine="1"')

    counters = Vllm().read(two_engines, "")

    assert counters.generation_tokens == 828
    assert counters.acceptance is not None
    assert counters.acceptance.per_position == (224, 152, 142)


def test_positions_are_sorted_as_numbers() -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    rows = [f'{name}{{engine="0",position="{i}"}} {100 - i}.0' for i in (10, 9, 2, 0)]
    rows += [f"vllm:spec_decode_num_{kind}_total 5.0" for kind in ("drafts", "draft_tokens")]
    rows += ["vllm:spec_decode_num_accepted_tokens_total 4.0"]

    counters = Vllm().read("\n".join(rows), "")

    assert counters.acceptance is not None
    assert counters.acceptance.per_position == (100, 98, 91, 90)


@pytest.mark.parametrize("page", ["", "<html>nope</html>", "vllm:generation_tokens_total{ oops"])
def test_a_page_that_is_none_reads_as_nothing_known(page: str) -> None:
    counters = Vllm().read(page, "")

    assert counters.generation_tokens is None
    assert counters.acceptance is None


def test_steps_of_a_cpu_server_without_compilation() -> None:
    assert steps_of("startup-0.32.0-cpu-mtp.log") == [
        LaunchStep.LOADING_WEIGHTS,
        LaunchStep.WAITING_READY,
    ]


def test_steps_of_a_cpu_server_that_compiles() -> None:
    assert steps_of("startup-0.32.0-cpu-compiled.log") == [
        LaunchStep.LOADING_WEIGHTS,
        LaunchStep.COMPILING,
        LaunchStep.WAITING_READY,
    ]


def test_steps_of_a_gpu_server_that_captures_graphs() -> None:
    assert steps_of("startup-0.26.0-h200-mtp.log") == [
        LaunchStep.LOADING_WEIGHTS,
        LaunchStep.COMPILING,
        LaunchStep.CAPTURING_GRAPHS,
        LaunchStep.WAITING_READY,
    ]


def test_a_forced_stream_asks_for_exactly_its_tokens_and_for_exact_counts() -> None:
    path, body = Vllm().request(make_shape(), "slip-1")

    assert path == "/v1/completions"
    assert body == {
        "model": "slip-1",
        "prompt": [1, 2, 3],
        "max_tokens": 100,
        "min_tokens": 100,
        "ignore_eos": True,
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": 42,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
    }


def test_a_natural_chat_goes_to_the_chat_endpoint_and_may_stop() -> None:
    messages = [{"role": "user", "content": "Hello"}]

    path, body = Vllm().request(make_shape(prompt=messages, is_forced=False), "slip-1")

    assert path == "/v1/chat/completions"
    assert body["messages"] == messages
    assert "ignore_eos" not in body
    assert "min_tokens" not in body
