"""Server-sent events from pieces, within bounded memory."""

from workers.load import sse
from workers.load.sse import Held, Payloads


def test_comments_names_ids_and_blank_lines_carry_nothing() -> None:
    body = b": ping\n\nevent: x\nid: 3\nretry: 9\ndata: {}\n\ndata:[DONE]\n\n"

    assert Payloads(Held()).feed(body) == [b"{}", b"[DONE]"]


def test_carriage_returns_belong_to_the_line_end() -> None:
    assert Payloads(Held()).feed(b'data: {"a":1}\r\n\r\n') == [b'{"a":1}']


def test_a_last_line_without_its_end_is_given_at_the_finish() -> None:
    payloads = Payloads(Held())

    during = payloads.feed(b"data: {}\n\ndata: [DO") + payloads.feed(b"NE]")

    assert during == [b"{}"]
    assert payloads.finish() == [b"[DONE]"]


def test_a_line_of_20_mb_is_dropped_and_the_next_one_is_read() -> None:
    payloads = Payloads(Held())

    pieces = [payloads.feed(b"data: " + b"x" * 65_536)]
    pieces += [payloads.feed(b"x" * 65_536) for _ in range(320)]
    pieces += [payloads.feed(b"xx\ndata: {}\n")]

    assert pieces[-1] == [b"{}"]
    assert not any(pieces[:-1])
    assert (payloads.dropped, payloads.held.bytes) == (1, 0)


def test_all_streams_together_hold_no_more_than_the_common_limit() -> None:
    held = Held()
    many = [Payloads(held) for _ in range(64)]
    piece = b"x" * 1_000_000

    for payloads in many:
        payloads.feed(piece)

    assert held.bytes <= sse.MAX_HELD_BYTES
    assert sum(payloads.dropped for payloads in many) == 64 - sse.MAX_HELD_BYTES // len(piece)
