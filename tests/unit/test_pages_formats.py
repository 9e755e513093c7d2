"""Numbers are written one way, everywhere."""

from datetime import UTC, datetime

import pytest

from app.web import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [(1284.4, "1,284"), (99.96, "100"), (84.24, "84.2"), (9.996, "10.0"), (8.426, "8.43"),
     (None, "–"), (float("inf"), "–")],
)  # fmt: skip
def test_a_rate_has_the_digits_that_mean_something(value: float | None, text: str) -> None:
    assert formats.rate(value) == text


def test_a_speedup_has_two_decimals_and_a_sign() -> None:
    assert (formats.ratio(1.8299), formats.ratio(None)) == ("1.83×", "–")


def test_an_interval_is_empty_without_bounds() -> None:
    assert (formats.interval(1.79, 1.868), formats.interval(None, 2)) == ("1.79–1.87", "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.9, "59 s"), (65, "1 min 05 s"), (3720, "1 h 02 min"), (-3, "0 s")],
)
def test_a_duration_is_written_for_people(seconds: float, text: str) -> None:
    assert formats.duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.1134, "113 ms"), (1.027, "1.03 s")])
def test_a_latency_changes_its_unit_at_one_second(seconds: float, text: str) -> None:
    assert formats.latency(seconds) == text


def test_a_moment_is_shown_in_utc_and_kept_for_machines() -> None:
    moment = datetime(2026, 11, 21, 9, 13, tzinfo=UTC)

    assert formats.when(moment) == (
        '<time datetime="2026-11-21T09:13:00Z">21 Nov 2026, 09:13 UTC</time>'
    )


def test_a_cell_is_written_in_few_words() -> None:
    assert formats.cell("code", 32768, 1) == "code · 32K context · 1 stream"


def test_a_range_in_a_sentence_never_breaks() -> None:
    assert formats.unbroken("(1.79–1.87)") == "(1.79\u2060–\u20601.87)"
