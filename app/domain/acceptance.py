"""Acceptance of draft tokens, one definition for all engines (design.md section 1).

A *draft* is one verify step; `drafted` = tokens proposed; `accepted` = proposed tokens kept.
"""

from pydantic import BaseModel, ConfigDict


class Acceptance(BaseModel):
    """Raw counts of one heat (or a sum of heats); every rate is derived from them,
    token-weighted."""

    model_config = ConfigDict(frozen=True)

    drafts: int
    drafted: int
    accepted: int
    per_position: tuple[int, ...] | None = None
    """Accepted tokens at draft position 0, 1, …; None when the engine does not tell."""

    @property
    def rate(self) -> float | None:
        """accepted / drafted; None before the first draft."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tau(self) -> float | None:
        """Mean accepted length, 1 + accepted / drafts: it counts the bonus token."""
        return 1 + self.accepted / self.drafts if self.drafts else None

    @property
    def rate_per_position(self) -> tuple[float, ...] | None:
        """accepted_at_i / drafts for every draft position."""
        if self.per_position is None or not self.drafts:
            return None
        return tuple(count / self.drafts for count in self.per_position)

    def minus(self, earlier: "Acceptance") -> "Acceptance":
        """What came since `earlier`: the delta of two readings of lifetime counters."""
        return Acceptance(
            drafts=self.drafts - earlier.drafts,
            drafted=self.drafted - earlier.drafted,
            accepted=self.accepted - earlier.accepted,
            per_position=_combine(self.per_position, earlier.per_position, -1),
        )

    def plus(self, other: "Acceptance") -> "Acceptance":
        """Sum of two heats' counts (never an average of their rates)."""
        return Acceptance(
            drafts=self.drafts + other.drafts,
            drafted=self.drafted + other.drafted,
            accepted=self.accepted + other.accepted,
            per_position=_combine(self.per_position, other.per_position, 1),
        )


def total(parts: list[Acceptance]) -> Acceptance | None:
    """All heats of a cell together; None when no heat told its counts."""
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.plus(part)
    return whole


def _combine(
    left: tuple[int, ...] | None, right: tuple[int, ...] | None, sign: int
) -> tuple[int, ...] | None:
    if left is None or right is None:
        return None
    length = max(len(left), len(right))
    padded_left = left + (0,) * (length - len(left))
    padded_right = right + (0,) * (length - len(right))
    return tuple(a + sign * b for a, b in zip(padded_left, padded_right, strict=True))
