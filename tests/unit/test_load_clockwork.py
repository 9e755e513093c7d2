"""Ticks and the steady window, by hand-computed numbers."""

import pytest

from workers.load.clockwork import Clockwork, Second
from workers.load.window import Point, percentile_ms, tokens_at


class Heat:
    """A clockwork with its seconds collected; chunks come as (stream, at, cumulative tokens)."""

    def __init__(self, streams: int, seconds: float | None) -> None:
        self.clock = Clockwork(streams, 0.0, seconds)
        self.seconds: list[Second] = []
        self.had = [0] * streams

    def chunk(self, stream: int, at: float, tokens: int) -> None:
        if at >= self.clock.turn_at:
            self.clock.turn(at, self.seconds.append)
        self.clock.second_tokens += tokens - self.had[stream]
        self.had[stream] = tokens
        self.clock.add(stream, at, tokens)


@pytest.mark.parametrize(
    ("edge", "after", "tokens"),
    [
        (1.5, Point(2.0, 14), 12.0),
        (1.0, Point(2.0, 14), 10.0),
        (2.0, Point(2.0, 14), 14.0),
        (1.5, None, 10.0),
    ],
)
def test_an_edge_lies_on_the_line_between_two_chunks(
    edge: float, after: Point | None, tokens: float
) -> None:
    assert tokens_at(edge, Point(1.0, 10), after) == tokens


def test_the_window_opens_with_the_last_first_token_and_is_interpolated_at_both_edges() -> None:
    heat = Heat(streams=2, seconds=2.0)

    heat.chunk(0, 0.2, 1)
    heat.chunk(1, 0.3, 4)  # opens; stream 0 is between 1 and 11 then
    heat.chunk(0, 0.4, 11)
    heat.chunk(1, 2.2, 24)
    heat.chunk(0, 2.25, 31)
    heat.chunk(0, 2.35, 41)  # the planned end, 2.3, lies half way
    heat.chunk(1, 2.4, 26)

    window = heat.clock.window()
    assert window is not None
    assert (window.open_s, window.close_s, window.closed_by) == (0.3, 2.3, "plan")
    assert window.tokens == pytest.approx((36 - 6) + (25 - 4))
    assert heat.clock.is_settled


def test_the_window_closes_with_the_first_stream_that_ends() -> None:
    heat = Heat(streams=2, seconds=30.0)
    heat.chunk(0, 0.1, 1)
    heat.chunk(1, 0.1, 1)

    heat.chunk(0, 1.0, 11)
    heat.chunk(1, 0.9, 9)
    heat.clock.first_end(1.0)
    heat.chunk(1, 1.1, 11)

    window = heat.clock.window()
    assert window is not None
    assert (window.close_s, window.closed_by) == (1.0, "first_end")
    assert window.tokens == pytest.approx(10 + 9)


def test_a_stream_that_ends_before_all_have_begun_leaves_no_window() -> None:
    heat = Heat(streams=2, seconds=30.0)

    heat.chunk(0, 0.1, 1)
    heat.clock.first_end(0.2)
    heat.chunk(1, 0.3, 1)
    heat.clock.turn(40.0, heat.seconds.append)

    assert heat.clock.window() is None


def test_a_stalled_stream_claims_nothing_beyond_its_last_chunk() -> None:
    heat = Heat(streams=1, seconds=1.0)

    heat.chunk(0, 0.5, 3)
    heat.chunk(0, 0.9, 7)
    heat.clock.turn(1.6, heat.seconds.append)

    window = heat.clock.window()
    assert window is not None
    assert window.tokens == 4.0


def test_ticks_sum_to_the_total_and_a_silent_second_is_a_tick_too() -> None:
    heat = Heat(streams=1, seconds=None)

    heat.chunk(0, 0.999, 5)
    heat.chunk(0, 1.0, 7)
    heat.chunk(0, 3.2, 8)
    heat.clock.finish(3.43, heat.seconds.append)

    assert [second.tokens for second in heat.seconds] == [5, 2, 0, 1]
    assert [second.is_partial for second in heat.seconds] == [False, False, False, True]
    assert heat.seconds[-1].length_s == pytest.approx(0.43)


def test_a_chunk_before_a_late_timer_belongs_to_its_own_second() -> None:
    heat = Heat(streams=1, seconds=None)

    heat.chunk(0, 0.5, 1)
    heat.chunk(0, 1.0004, 2)  # the timer of second 0 has not fired yet
    heat.clock.turn(1.002, heat.seconds.append)

    assert [second.tokens for second in heat.seconds] == [1]


def test_gap_percentiles_come_from_buckets_of_50_microseconds() -> None:
    heat = Heat(streams=1, seconds=None)

    for number in range(101):
        heat.chunk(0, number * 0.01 + (0.03 if number == 100 else 0), number + 1)
    heat.clock.finish(1.5, heat.seconds.append)

    assert percentile_ms(heat.clock.gap_buckets, 0.5) == pytest.approx(10.0)
    assert percentile_ms(heat.clock.gap_buckets, 0.999) == pytest.approx(40.0)
