"""Which number counts, and that nothing counts twice."""

import hashlib

from workers.load.chunks import Chunk
from workers.load.tally import Tally


def test_a_role_chunk_is_no_token_and_an_empty_text_with_rising_usage_is() -> None:
    tally = Tally()

    role = tally.add_chunk(Chunk(usage=0, is_choice=True))
    empty = tally.add(1, None, b"")
    word = tally.add(3, None, b"two words")

    assert (role, empty, word) == (0, 1, 2)
    assert (tally.tokens, tally.first_tokens, tally.chunks) == (3, 1, 3)


def test_the_first_chunk_may_bundle_tokens() -> None:
    tally = Tally()

    tally.add(4, 4, b"four")

    assert tally.first_tokens == 4


def test_usage_goes_before_ids_and_both_are_reported() -> None:
    tally = Tally()

    tally.add(5, 4, b"x")

    assert (tally.mode, tally.tokens, tally.usage, tally.id_tokens) == ("usage", 5, 5, 4)


def test_usage_at_the_end_only_is_reported_and_not_mixed_in() -> None:
    tally = Tally()

    tally.add(None, None, b"a")
    tally.add_chunk(Chunk(usage=7))

    assert (tally.mode, tally.tokens, tally.usage) == ("none", 1, 7)


def test_a_falling_usage_takes_nothing_back_and_is_noted() -> None:
    tally = Tally()

    tally.add(5, None, b"a")
    fallen = tally.add(3, None, b"b")
    risen = tally.add(6, None, b"c")

    assert (fallen, risen, tally.tokens) == (0, 1, 6)
    assert tally.defect == "usage fell from 5 to 3"


def test_the_closing_usage_chunk_may_bring_the_last_tokens() -> None:
    tally = Tally()

    tally.add(5, None, b"a")
    late = tally.add_chunk(Chunk(usage=6))

    assert (late, tally.tokens, tally.chunks) == (1, 6, 1)


def test_text_is_counted_in_characters_and_hashed_whole() -> None:
    tally = Tally()

    tally.add(1, None, "走る".encode())
    tally.add(2, None, b"\\n\\u00e9")
    first = tally.flush_text()
    tally.add(3, None, b"end")
    tally.flush_text()

    assert first == "走る\né"
    assert tally.chars == 7
    assert tally.sha256.hexdigest() == hashlib.sha256("走る\néend".encode()).hexdigest()
