"""Prometheus pages: wanted series only, absent is not zero, broken lines do no harm."""

import time
from pathlib import Path

from workers.counters import read_samples

GOLDEN = Path(__file__).parent.parent / "golden" / "vllm"


def test_an_absent_series_is_none_and_a_present_one_may_be_zero() -> None:
    samples = read_samples("here_total 0.0\n", ["here_total", "gone_total"])

    assert samples.total("here_total") == 0
    assert samples.total("gone_total") is None
    assert samples.by_label("gone_total", "x") is None
    assert samples.largest("gone_total") is None


def test_a_name_does_not_match_a_longer_one() -> None:
    samples = read_samples("a_total 1\na_total_count 5\na_total{x='1'} \n", ["a_total"])

    assert samples.total("a_total") == 1


def test_label_values_may_hold_anything() -> None:
    samples = read_samples('a{x="one \\"two\\", } 3",y="1"} 2\na{x="z",y="1"} 4\n', ["a"])

    assert samples.by_label("a", "x") == {'one "two", } 3': 2, "z": 4}
    assert samples.by_label("a", "y") == {"1": 6}


def test_numbers_that_are_none_are_left_out() -> None:
    samples = read_samples("a NaN\nb +Inf\nc 1.5e3\n", ["a", "b", "c"])

    assert samples.total("a") is None
    assert samples.total("b") is None
    assert samples.total("c") == 1500


def test_a_broken_line_costs_only_itself() -> None:
    samples = read_samples('a 1\nb{x="oops\nc 3\n', ["a", "b", "c"])

    assert (samples.total("a"), samples.total("b"), samples.total("c")) == (1, None, 3)


def test_a_real_page_is_read_in_a_small_part_of_a_second() -> None:
    """At 1 Hz and lane, 20 ms would be 2 % of a core; it takes about 1 ms."""
    page = (GOLDEN / "metrics-0.32.0-cpu-mtp.txt").read_text("utf-8")

    begun = time.thread_time()
    samples = read_samples(page, ["vllm:generation_tokens_total"])
    seconds = time.thread_time() - begun

    assert samples.total("vllm:generation_tokens_total") == 414
    assert seconds < 0.02
