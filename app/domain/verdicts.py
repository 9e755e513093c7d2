"""Speedups with their intervals: paired heats, t on logarithms."""

import math
from collections.abc import Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

# Two-sided 95 % quantiles of Student's t for 1 … 50 degrees of freedom (NIST/SEMATECH e-Handbook of
# Statistical Methods, table 1.3.6.7.2); a recipe has at most 50 repeats. Beyond:
# the normal quantile.
T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    2.040, 2.037, 2.035, 2.032, 2.030, 2.028, 2.026, 2.024, 2.023, 2.021,
    2.020, 2.018, 2.017, 2.015, 2.014, 2.013, 2.012, 2.011, 2.010, 2.009,
)  # fmt: skip
NORMAL_95 = 1.960


class Verdict(StrEnum):
    """What may be said of a lane against the baseline."""

    FASTER = "faster"
    SLOWER = "slower"
    TOO_CLOSE = "too close to call"
    ONE_HEAT = "one heat, no interval"
    NONE = "no verdict"


class Speedup(BaseModel):
    """Throughput of a lane over the baseline in one cell; `low` and `high` bound 95 %."""

    model_config = ConfigDict(frozen=True)

    value: float | None = None
    low: float | None = None
    high: float | None = None
    heats: int = 0
    verdict: Verdict = Verdict.NONE
    reason: str = ""
    """Why there is no verdict, when there is none."""


def speedup(pairs: Sequence[tuple[float, float]]) -> Speedup:
    """Speedup from paired heats, each (baseline, lane) in tokens per second.

    value = exp(mean(log(lane / baseline))) and interval = exp(mean ± t(0.975, n-1) · s / √n):
    the paired t interval on log ratios (Student 1908; geometric mean of ratios as Fleming and
    Wallace, CACM 29(3), 1986).
    One pair gives a value and no interval.
    """
    logs = [math.log(lane / base) for base, lane in pairs if base > 0 and lane > 0]
    if not logs:
        return Speedup(reason="no heat of both lanes counts")
    mean = math.fsum(logs) / len(logs)
    if len(logs) == 1:
        return Speedup(value=math.exp(mean), heats=1, verdict=Verdict.ONE_HEAT)
    half = t_quantile(len(logs) - 1) * _standard_error(logs, mean)
    low, high = math.exp(mean - half), math.exp(mean + half)
    return Speedup(
        value=math.exp(mean), low=low, high=high, heats=len(logs), verdict=_judge(low, high)
    )


def geometric_mean(values: Sequence[float]) -> float | None:
    """exp of the mean logarithm of positive values; None without any."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def t_quantile(degrees: int) -> float:
    """Two-sided 95 % quantile of Student's t."""
    return T_95[degrees - 1] if degrees <= len(T_95) else NORMAL_95


def _standard_error(values: Sequence[float], mean: float) -> float:
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))


def _judge(low: float, high: float) -> Verdict:
    if low > 1:
        return Verdict.FASTER
    if high < 1:
        return Verdict.SLOWER
    return Verdict.TOO_CLOSE
