"""One payload: what it says, and what it cannot make us believe."""

import json
from typing import Any

import pytest

from workers.load.chunks import needles_for, plain, read_fast, read_json


def a_chunk(text: str = " on", usage: Any = 5, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": None, "token_ids": [1, 2]} | more
    return {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": usage}}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize(
    "text",
    ["", " on", 'say "so"', "back\\", '\\"', '"completion_tokens":7}', "走る🏁", "a\nb", "é"],
)
def test_both_readers_see_the_same(
    text: str, ascii_only: bool, separators: tuple[str, str]
) -> None:
    raw = json.dumps(a_chunk(text), ensure_ascii=ascii_only, separators=separators).encode()

    fast = read_fast(raw, needles_for(raw))
    slow = read_json(raw)

    assert fast is not None
    assert (fast[0], fast[1], plain(fast[2])) == (slow.usage, slow.ids, plain(slow.text))
    assert (fast[0], fast[1], plain(fast[2])) == (5, 2, text)


@pytest.mark.parametrize("usage", [-3, 1.5, "7", True, None, 10**30])
def test_a_usage_that_is_no_count_is_not_believed(usage: Any) -> None:
    raw = json.dumps(a_chunk(usage=usage)).encode()

    fast = read_fast(raw, needles_for(raw))
    slow = read_json(raw)

    assert fast is None or fast[0] is None
    assert slow.usage is None
    assert (slow.defect is None) == (usage is None)


def test_reasoning_counts_as_text() -> None:
    raw = b'{"choices":[{"delta":{"reasoning_content":"hm","content":null},"finish_reason":null}]}'

    assert read_json(raw).text == b"hm"


def test_an_error_object_without_choices_is_an_error() -> None:
    raw = b'{"error":{"message":"EngineCore encountered an issue.","code":500}}'

    assert read_json(raw).error == "EngineCore encountered an issue."


@pytest.mark.parametrize(
    "raw", [b"{", b"[]", b"7", b'{"choices":[{"text":"\xff', b"[" * 5000, b"\x00", b'"' * 99]
)
def test_rubbish_is_a_defect_and_no_exception(raw: bytes) -> None:
    assert read_json(raw).defect is not None


@pytest.mark.parametrize("choices", ["x", [], [None], [7], {}, [{"delta": 3, "text": 4}]])
def test_odd_choices_bring_no_text(choices: Any) -> None:
    chunk = read_json(json.dumps({"choices": choices, "usage": "no"}).encode())

    assert (chunk.text, chunk.usage, chunk.error) == (b"", None, None)


def test_half_a_surrogate_pair_in_each_of_two_chunks_is_one_character() -> None:
    assert plain(b"\\ud83c" + b"\\udfc1") == "🏁"


def test_a_long_echo_of_prompt_ids_is_cut_before_parsing() -> None:
    ids = b'"prompt_token_ids":[' + b"12345," * 20_000 + b"1]"

    chunk = read_json(b'{"choices":[{"text":"a",%b,"finish_reason":null}]}' % ids)

    assert chunk.text == b"a"
