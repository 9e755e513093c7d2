"""Prometheus text to numbers: only the series asked for, at a price that 1 Hz can pay.

A vLLM page has some 700 lines, mostly buckets; only lines of wanted series reach the parser.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Sample:
    """One line of the page."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Samples:
    """The wanted series of one page. A series that is not on the page is None, never 0."""

    by_name: Mapping[str, tuple[Sample, ...]]

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def total(self, name: str) -> int | None:
        """Sum over all label values (engines, reasons); None when the page has no such series."""
        found = self.by_name.get(name)
        return None if found is None else round(sum(sample.value for sample in found))

    def largest(self, name: str) -> float | None:
        """The largest value; None when the page has no such series."""
        found = self.by_name.get(name)
        return None if found is None else max(sample.value for sample in found)

    def by_label(self, name: str, label: str) -> dict[str, int] | None:
        """Sums by the values of one label; None when the page has no such series."""
        found = self.by_name.get(name)
        if found is None:
            return None
        sums: dict[str, float] = defaultdict(float)
        for sample in found:
            sums[sample.labels.get(label, "")] += sample.value
        return {key: round(value) for key, value in sums.items()}


def read_samples(text: str, names: Iterable[str]) -> Samples:
    """The series `names` on the page `text`; lines that cannot be parsed count as absent."""
    starts = tuple(f"{name}{end}" for name in names for end in ("{", " "))
    found: dict[str, list[Sample]] = defaultdict(list)
    lines = [line for line in text.splitlines() if line.startswith(starts)]
    for name, labels, value in _parse(lines):
        if math.isfinite(value):
            found[name].append(Sample(labels, value))
    return Samples({name: tuple(samples) for name, samples in found.items()})


def _parse(lines: list[str]) -> list[tuple[str, dict[str, str], float]]:
    try:
        families = list(text_string_to_metric_families("\n".join(lines) + "\n"))
    except ValueError:
        if len(lines) <= 1:
            return []  # a broken line: half a page, or no Prometheus page at all
        middle = len(lines) // 2
        return _parse(lines[:middle]) + _parse(lines[middle:])
    return [
        (sample.name, dict(sample.labels), float(sample.value))
        for family in families
        for sample in family.samples
    ]
