"""Text that a broken tokenizer or a hostile server sends must not break the database."""

import pytest

from app.domain.heats import HeatSummary, StreamSummary
from app.domain.text import storable


@pytest.mark.parametrize("text", ["\x00", "\ud83d"])
def test_what_no_database_takes_is_replaced(text: str) -> None:
    assert storable(f"a{text}b") == "a\ufffdb"


def test_everything_else_stays() -> None:
    text = "plain, é, 日本, \U0001f600, tab\t and newline\n"

    assert storable(text) == text


def test_summaries_are_storable_whatever_the_server_said() -> None:
    stream = StreamSummary(stream=0, tokens=1, error="bad \ud83d")
    summary = HeatSummary(
        tokens=1, seconds=1, streams=(stream,), sample_text="\x00", error="\udfff"
    )

    assert summary.model_dump_json().encode("utf-8")
    assert (summary.sample_text, summary.error) == ("\ufffd", "\ufffd")
    assert summary.streams[0].error == "bad \ufffd"
