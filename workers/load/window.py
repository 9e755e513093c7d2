"""The arithmetic of the steady window and of gaps between chunks. Pure: numbers in, numbers out."""

from collections import Counter

GAP_BUCKET_S = 0.00005
"""Gaps are kept in buckets of 50 µs: percentiles exact to that, memory bounded."""
LONG_GAP_S = 1.0
"""Beyond this, buckets of 10 ms."""


class Point:
    """A stream at one moment: how many tokens it had. A plain class:
    one is made per chunk and stream."""

    __slots__ = ("at", "tokens")

    def __init__(self, at: float, tokens: int) -> None:
        self.at = at
        self.tokens = tokens


def tokens_at(edge: float, before: Point, after: Point | None) -> float:
    """Cumulative tokens at `edge`, on the line between the chunk before and the chunk after it.

    Without a chunk after (the stream ended or stalled), no more is claimed than was there before.
    """
    if after is None or after.at <= edge or after.at <= before.at:
        return float(before.tokens if after is None or after.at > edge else after.tokens)
    share = (edge - before.at) / (after.at - before.at)
    return before.tokens + (after.tokens - before.tokens) * max(0.0, share)


class Edge:
    """One edge of the window, waiting for the chunk after it on every stream."""

    __slots__ = ("after", "at", "before")

    def __init__(self, at: float, before: list[Point | None]) -> None:
        self.at = at
        self.before = before
        self.after: list[Point | None] = [None] * len(before)

    def tokens(self) -> float:
        """Over all streams; a stream without any chunk before the edge has none."""
        pairs = zip(self.before, self.after, strict=True)
        return sum(tokens_at(self.at, before, after) for before, after in pairs if before)


def bucket(gap: float) -> int:
    """The bucket of this gap; the number is its size in units of GAP_BUCKET_S."""
    if gap < LONG_GAP_S:
        return int(gap / GAP_BUCKET_S + 0.5)
    return int(gap * 100) * 200


def percentile_ms(buckets: Counter[int], share: float) -> float | None:
    """The nearest-rank percentile in milliseconds; None without any gap."""
    wanted = max(1, round(share * buckets.total() + 0.4999))
    seen = 0
    for key in sorted(buckets):
        seen += buckets[key]
        if seen >= wanted:
            return key * GAP_BUCKET_S * 1000
    return None


def nearest_rank(values: list[float], share: float) -> float:
    """The nearest-rank percentile of a short list; 0.0 of an empty one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
