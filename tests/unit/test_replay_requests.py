"""The replay server's words: tokenizer, bodies refused as vLLM refuses them, faults read."""

import json
import random

import pytest

from workers.replay.ask import Refusal, Served, parse_ask
from workers.replay.counters import Counters, Gauges, render
from workers.replay.faults import FaultError, arm, parse_faults
from workers.replay.words import WORDS, Writer, count_tokens, encode

SERVED = Served("tiny", 2048)


def ask(**fields: object):
    return parse_ask(
        json.dumps({"model": "tiny", "prompt": "x", **fields}).encode(), SERVED, is_chat=False
    )


@pytest.mark.parametrize("text", ["", "a", "hello world", "速いレース", "mixed 速い text" * 99])
def test_counting_and_encoding_agree(text: str) -> None:
    assert count_tokens(text) == len(encode(text))


def test_counts_of_joined_texts_are_within_one_token() -> None:
    a, b = "a tail wind " * 7, "速い車" * 5

    assert 0 <= count_tokens(a) + count_tokens(b) - count_tokens(a + b) <= 1


def test_the_text_depends_on_prompt_and_seed_and_not_on_how_it_is_cut() -> None:
    whole = Writer("prompt", 0).write(50)
    writer = Writer("prompt", 0)

    pieces = [word for n in (1, 4, 20, 25) for word in writer.write(n)]

    assert pieces == whole
    assert Writer("other", 0).write(50) != whole
    assert Writer("prompt", 1).write(50) != whole
    assert max(whole) < len(WORDS)


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        (
            {"model": "nope"},
            404,
            "The model `nope` does not exist. Valid aliases: tiny.",
        ),
        ({"prompt": [262144]}, 400, "Token id 262144 is out of vocabulary"),
        (
            {"prompt": [5] * 3000, "max_tokens": 4},
            400,
            "This model's maximum context length is 2048 tokens. However, your prompt contains "
            "3000 input tokens, which exceeds this limit even without any output tokens. Please "
            "reduce the length of the input prompt. (parameter=input_tokens, value=3000)",
        ),
        (
            {"prompt": [5] * 2048, "max_tokens": 4},
            400,
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
        ),
        (
            {"prompt": [5] * 2000, "max_tokens": 100, "min_tokens": 100},
            400,
            "min_tokens must be less than or equal to max_tokens=48, got 100.",
        ),
        (
            {"max_tokens": 4, "min_tokens": 8},
            400,
            "min_tokens must be less than or equal to max_tokens=4, got 8.",
        ),
        (
            {"stream_options": {"include_usage": True}},
            400,
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
        ),
    ],
)
def test_a_wrong_request_is_refused_in_vllms_words(
    fields: dict[str, object], status: int, message: str
) -> None:
    with pytest.raises(Refusal) as refused:
        ask(**fields)

    assert (refused.value.status, refused.value.message) == (status, message)


def test_max_tokens_beyond_the_context_is_silently_cut() -> None:
    assert ask(prompt=[5] * 2000, max_tokens=100).max_tokens == 48


def test_unknown_fields_are_ignored_and_completions_default_to_sixteen_tokens() -> None:
    assert ask(no_such_field=1).max_tokens == 16


def test_both_forms_of_faults_are_read() -> None:
    short = parse_faults('{"die": {"after_tokens": 5}, "no_done": true}')
    long = parse_faults('[{"kind": "die", "after_tokens": 5}, {"kind": "no_done"}]')

    assert short == long
    assert short["die"]["exit_code"] == 0


@pytest.mark.parametrize("text", ["{", "3", '{"explode": {}}', '{"die": {"when": 3}}'])
def test_unreadable_faults_are_refused(text: str) -> None:
    with pytest.raises(FaultError):
        parse_faults(text)


def test_spared_requests_meet_no_fault() -> None:
    faults = parse_faults('{"die": {"after_requests": 2}}')

    armed = [bool(arm(faults, n, random.Random(0))) for n in range(4)]

    assert armed == [False, False, True, True]


def test_only_a_lane_with_speculation_shows_speculation_counters() -> None:
    gauges = Gauges(0, 0, 0)

    assert "spec_decode" not in render(Counters(0), gauges, "m", 0.0)
    assert 'spec_decode_num_drafts_total{engine="0",model_name="m"} 0.0' in render(
        Counters(2), gauges, "m", 0.0
    )
