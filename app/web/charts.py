"""Charts drawn on the server as SVG: classes instead of colours,
text that stays crisp at any width.

A line chart is one fluid frame: paths lie in a stretched box whose strokes do not scale, labels in
an unstretched box of the same size, placed in percent. Nothing here knows runs or results.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

LANE_STYLES = 8
"""lane-0 is the baseline's, lane-1 the first variant's; further variants go round the rest."""
HEAT_STEPS = 4
LABEL_GAPS = {"wide": 7.0, "small": 12.0}
"""Closest that two end labels may stand, in percent of the height, by the size of the chart."""


@dataclass(frozen=True)
class Point:
    """One point; `low` and `high` draw a whisker when both are known."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """One line: its points in the order of x, its label, its style, whether it is a ghost."""

    label: str
    style: int
    points: tuple[Point, ...]
    is_ghost: bool = False


@dataclass(frozen=True)
class Axis:
    """A zero-based axis: its end, its marks, and what it counts."""

    end: float
    ticks: tuple[float, ...]
    label: str


@dataclass(frozen=True)
class Bar:
    """One bar of a share: label below, value 0 … 1, what it says above, its count."""

    label: str
    share: float
    text: str


def lane_style(position: int) -> int:
    """Style of the lane at that place; the baseline (0) shares its own with nobody."""
    return 0 if position == 0 else (position - 1) % (LANE_STYLES - 1) + 1


def heat_step(value: float) -> str:
    """Class of a speedup's colour, diverging about 1.0× on a log scale:
    m4 … z … p4 (2× and more)."""
    step = round(max(-1.0, min(1.0, math.log2(value))) * HEAT_STEPS) if value > 0 else 0
    if step == 0:
        return "heat-z"
    return f"heat-{'p' if step > 0 else 'm'}{abs(step)}"


def nice_axis(highest: float, label: str, marks: int = 4) -> Axis:
    """An axis with head-room whose end moves in steps, so that it does not breathe."""
    step = nice_step(max(highest, 1e-9) * 1.08 / marks)
    count = math.ceil(highest * 1.08 / step) or 1
    return Axis(step * count, tuple(step * i for i in range(count + 1)), label)


def nice_step(raw: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)


def line_chart(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    title: str,
    x_values: Sequence[float] | None = None,
    size: str = "wide",
) -> Markup:
    """Lines with direct labels at their ends; `x_values` names the only x marks (else from
    zero)."""
    if not any(one.points for one in series):
        return _empty_chart(size, title)
    y = nice_axis(_highest(series), y_label)
    x_end = max((p.x for s in series for p in s.points), default=1.0) or 1.0
    x = Axis(x_end, tuple(x_values), x_label) if x_values else nice_x(x_end, x_label)
    drawn = [_line(one, x, y) for one in series if one.points]
    whiskers = [_whiskers(one, x, y) for one in series]
    return Markup(
        '<div class="chart chart-{}" role="img" aria-label="{}">'
        '<svg class="plot" viewBox="0 0 1000 1000" preserveAspectRatio="none">{}{}{}</svg>'
        '<svg class="plot">{}{}</svg></div>'
    ).format(
        size,
        title,
        _grid(y),
        Markup("").join(whiskers),
        Markup("").join(drawn),
        _axis_texts(x, y),
        _end_labels(series, x, y, LABEL_GAPS[size]),
    )


def nice_x(end: float, label: str) -> Axis:
    """A time axis that ends with the data."""
    step = max(1.0, nice_step(end / 6))
    return Axis(end, tuple(step * i for i in range(int(end / step) + 1)), label)


def split_at_gaps(points: Sequence[Point], widest: float = 1.5) -> list[list[Point]]:
    """Runs of points without a missing second: a gap is never bridged by a line."""
    parts: list[list[Point]] = [[points[0]]] if points else []
    for before, after in pairwise(points):
        if after.x - before.x > widest:
            parts.append([])
        parts[-1].append(after)
    return parts


def share_bars(bars: Sequence[Bar], *, style: int, title: str) -> Markup:
    """Bars of shares on 0–100 %, each with its value above and its label below."""
    width = 100 / max(1, len(bars))
    parts = [_share_bar(bar, width * place, width) for place, bar in enumerate(bars)]
    return Markup('<svg class="chart bars lane-{}" role="img" aria-label="{}">{}{}</svg>').format(
        style, title, Markup('<line class="axis" x1="0" x2="100%" y1="76%" y2="76%"/>'),
        Markup("").join(parts),
    )  # fmt: skip


def length_bar(share: float, *, style: int) -> Markup:
    """One horizontal bar that fills `share` of its box; the number beside it is text elsewhere."""
    return Markup(
        '<svg class="length lane-{}" aria-hidden="true"><rect class="track" width="100%"'
        ' height="100%"/><rect class="fill" width="{:.2f}%" height="100%"/></svg>'
    ).format(style, 100 * max(0.0, min(1.0, share)))


def sparkline(values: Sequence[float], *, highest: float, style: int, title: str) -> Markup:
    """A small line on its own, zero-based on a shared height."""
    top = highest or 1.0
    step = 1000 / max(1, len(values) - 1)
    path = " ".join(
        f"{'M' if i == 0 else 'L'}{i * step:.0f} {1000 - 960 * value / top:.0f}"
        for i, value in enumerate(values)
    )
    return Markup(
        '<svg class="spark lane-{}" role="img" aria-label="{}" viewBox="0 0 1000 1000"'
        ' preserveAspectRatio="none"><path class="line" d="{}"/></svg>'
    ).format(style, title, path or "M0 1000")


def _empty_chart(size: str, title: str) -> Markup:
    """The same room, so that nothing jumps when the first point comes."""
    return Markup(
        '<div class="chart chart-{} empty-chart" role="img" aria-label="{}: nothing yet">'
        '<svg class="plot" viewBox="0 0 1000 1000" preserveAspectRatio="none">'
        '<path class="grid" d="M0 1000H1000 M0 750H1000 M0 500H1000 M0 250H1000 M0 0H1000"/></svg>'
        '<svg class="plot"><text class="tick" x="50%" y="50%" dy="-8" text-anchor="middle">'
        "Nothing yet</text></svg></div>"
    ).format(size, title)


def _highest(series: Sequence[Series]) -> float:
    tops = (max(point.y, point.high or 0.0) for one in series for point in one.points)
    return max(tops, default=1.0) or 1.0


def _grid(y: Axis) -> Markup:
    rows = (f"M0 {_at(mark, y):.0f}H1000" for mark in y.ticks)
    return Markup('<path class="grid" d="{}"/>').format(" ".join(rows))


def _at(value: float, axis: Axis) -> float:
    """Height of a value in the stretched box, whose zero is at the bottom."""
    return 1000 - 1000 * value / axis.end


def _line(one: Series, x: Axis, y: Axis) -> Markup:
    gap = math.inf if len(one.points) < 3 or x.ticks[:1] != (0.0,) else 1.5
    moves = [
        " ".join(
            f"{'M' if i == 0 else 'L'}{1000 * p.x / x.end:.1f} {_at(p.y, y):.1f}"
            for i, p in enumerate(part)
        )
        for part in split_at_gaps(one.points, gap)
    ]
    return Markup('<path class="line lane-{}{}" d="{}"/>').format(
        one.style, " ghost" if one.is_ghost else "", " ".join(moves)
    )


def _whiskers(one: Series, x: Axis, y: Axis) -> Markup:
    moves = [
        f"M{1000 * p.x / x.end:.1f} {_at(p.low, y):.1f}V{_at(p.high, y):.1f}"
        for p in one.points
        if p.low is not None and p.high is not None
    ]
    if not moves:
        return Markup("")
    return Markup('<path class="whisker lane-{}" d="{}"/>').format(one.style, " ".join(moves))


def _axis_texts(x: Axis, y: Axis) -> Markup:
    rows = [
        Markup('<text class="tick" x="0" dx="-8" dy="4" text-anchor="end" y="{:.1f}%">{}</text>')
        .format(_at(mark, y) / 10, f"{mark:,.6g}")
        for mark in y.ticks
    ]  # fmt: skip
    columns = [
        Markup('<text class="tick" y="100%" dy="20" text-anchor="middle" x="{:.1f}%">{}</text>')
        .format(100 * mark / x.end, f"{mark:,.6g}")
        for mark in x.ticks
    ]  # fmt: skip
    names = Markup(
        '<text class="axis-name" x="-38" y="0" dy="-14">{}</text>'
        '<text class="axis-name" x="100%" y="100%" dy="36" text-anchor="end">{}</text>'
    ).format(y.label, x.label)
    return Markup("").join([*rows, *columns, names])


def _end_labels(series: Sequence[Series], x: Axis, y: Axis, gap: float) -> Markup:
    ends = [(one, one.points[-1]) for one in series if one.points]
    heights = spread([_at(point.y, y) / 10 for _, point in ends], gap)
    parts = [
        Markup('<text class="end-label lane-{}" x="{:.1f}%" y="{:.1f}%" dx="8" dy="4">{}</text>')
        .format(one.style, 100 * point.x / x.end, height, one.label)
        for (one, point), height in zip(ends, heights, strict=True)
    ]  # fmt: skip
    return Markup("").join(parts)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """The same heights (percent, 0 = top), moved as little as needed to be `gap` apart."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    moved = list(heights)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + gap)
    overflow = moved[order[-1]] - 100 if order else 0
    return [height - overflow for height in moved] if overflow > 0 else moved


def _share_bar(bar: Bar, left: float, width: float) -> Markup:
    height = 64 * max(0.0, min(1.0, bar.share))
    return Markup(
        '<g><rect class="track" x="{x:.2f}%" width="{w:.2f}%" y="12%" height="64%"/>'
        '<rect class="fill" x="{x:.2f}%" width="{w:.2f}%" y="{y:.2f}%" height="{h:.2f}%"/>'
        '<text class="bar-value" x="{c:.2f}%" y="{t:.2f}%" text-anchor="middle">{text}</text>'
        '<text class="tick" x="{c:.2f}%" y="90%" text-anchor="middle">{label}</text></g>'
    ).format(
        x=left + width * 0.14,
        w=width * 0.72,
        y=76 - height,
        h=height,
        c=left + width / 2,
        t=76 - height - 2,
        text=bar.text,
        label=bar.label,
    )
