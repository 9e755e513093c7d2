"""Speedups and their intervals."""

import math

import pytest

from app.domain.verdicts import Verdict, geometric_mean, speedup, t_quantile


def test_equal_ratios_give_a_sharp_interval() -> None:
    judged = speedup([(100, 180), (50, 90), (200, 360)])

    assert judged.value == pytest.approx(1.8)
    assert judged.low == pytest.approx(1.8)
    assert judged.verdict is Verdict.FASTER


def test_the_interval_is_the_paired_t_interval_on_logs() -> None:
    judged = speedup([(100, 110), (100, 120), (100, 130)])

    logs = [math.log(1.1), math.log(1.2), math.log(1.3)]
    mean = sum(logs) / 3
    error = math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
    assert judged.low == pytest.approx(math.exp(mean - 4.303 * error))
    assert judged.high == pytest.approx(math.exp(mean + 4.303 * error))


def test_noise_around_one_is_too_close_to_call() -> None:
    assert speedup([(100, 101), (100, 99), (100, 100)]).verdict is Verdict.TOO_CLOSE


def test_a_slower_lane_is_called_slower() -> None:
    assert speedup([(100, 50), (100, 51), (100, 49)]).verdict is Verdict.SLOWER


def test_one_heat_gives_a_value_and_no_interval() -> None:
    judged = speedup([(100, 180)])

    assert (judged.value, judged.low, judged.verdict) == (1.8, None, Verdict.ONE_HEAT)


def test_no_pair_gives_a_reason_instead_of_a_number() -> None:
    judged = speedup([])

    assert judged.value is None
    assert judged.reason


def test_ratios_are_averaged_geometrically() -> None:
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert geometric_mean([]) is None


def test_many_heats_use_the_normal_quantile() -> None:
    assert t_quantile(1) == 12.706
    assert t_quantile(200) == 1.960


def test_as_many_heats_as_a_recipe_may_ask_for_use_their_own_quantile() -> None:
    assert t_quantile(31) == 2.040
    assert t_quantile(49) == 2.010
