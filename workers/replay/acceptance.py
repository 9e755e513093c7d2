"""Acceptance arithmetic of the replay server. Knows nothing of time, text or HTTP.

`per_position[i]` is the share of drafts whose i-th proposed token was kept; position i can only be
kept if all before it were, so the list never rises and its sum is the mean number of accepted
tokens per draft.
"""

from collections.abc import Sequence

BISECTION_STEPS = 200  # halves the bracket until doubles cannot be told apart (about 60 are enough)


def geometric(rate: float, k: int) -> tuple[float, ...]:
    """Per-position acceptance of a drafter whose every token is right with one probability q.

    Chosen so that the overall rate is kept: q + q^2 + ... + q^k = k * rate, position i = q^i.
    """
    if not 0.0 <= rate <= 1.0 or k < 1:
        raise ValueError(f"rate must be in 0..1 and k at least 1, got rate={rate}, k={k}")
    low, high = 0.0, 1.0
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        if sum(middle**i for i in range(1, k + 1)) < k * rate:
            low = middle
        else:
            high = middle
    return tuple(high**i for i in range(1, k + 1))


def tokens_per_step(per_position: Sequence[float]) -> float:
    """Expected tokens of one step: the bonus token and the accepted ones; 1 without speculation."""
    return 1.0 + sum(per_position)


def accepted(per_position: Sequence[float], draw: float) -> int:
    """How many proposed tokens are kept, for a uniform `draw` in [0, 1).

    One draw is enough: position i is kept with P(i), and the P never rise, so the kept ones are a
    prefix.
    """
    kept = 0
    for share in per_position:
        if draw >= share:
            break
        kept += 1
    return kept


def blend(a: Sequence[float], b: Sequence[float], weight_of_b: float) -> tuple[float, ...]:
    """Linear mixture of two acceptance profiles; the result never rises if neither does."""
    return tuple(x + (y - x) * weight_of_b for x, y in zip(a, b, strict=True))
