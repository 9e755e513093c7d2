"""The race of one cell on one clock: heats side by side, scores, ratio, bars, lines.

static/js/race.js computes the same from the same facts once scripts run. Knows no page.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.domain.states import HeatState
from app.domain.summary import CellView, HeatView
from app.domain.ticks import Tick
from app.web import charts, formats, matrix
from app.web.charts import Point, Series

LIVE_SECONDS = 5
"""Seconds over which the running speed is taken."""
LABEL_CHARS = 15
SHORTEST_TICK_S = 0.5
"""A last tick shorter than this counts, but is not drawn: its rate is mostly noise."""


@dataclass(frozen=True)
class Score:
    """One of the two big numbers."""

    lane: str
    style: int
    value: float | None
    kind: str


@dataclass(frozen=True)
class Ratio:
    """The number between them, with its interval and what may be said of it."""

    value: float | None
    interval: str
    words: str


@dataclass(frozen=True)
class TokenBar:
    """Tokens of one lane after the same number of seconds."""

    lane: str
    style: int
    tokens: int
    bar: Markup


def pick_heats(cell: CellView, driven: Container[int]) -> dict[str, HeatView]:
    """One heat per lane, all of the same ordinal: they drove the same prompts.

    `driven` holds the heats that have ticks: a failed heat without any is not in the race.
    """
    begun = [
        heat for lane in cell.lanes.values() for heat in lane.heats
        if heat.state in (HeatState.RUNNING, HeatState.DONE) or heat.id in driven
    ]  # fmt: skip
    running = [heat.ordinal for heat in begun if heat.state is HeatState.RUNNING]
    if not begun:
        return {}
    ordinals = [heat.ordinal for heat in begun]
    ordinal = running[0] if running else max(ordinals, key=lambda one: (ordinals.count(one), one))
    return {heat.lane: heat for heat in begun if heat.ordinal == ordinal}


def race_clock(heats: Mapping[str, HeatView], ticks: Mapping[int, list[Tick]]) -> float:
    """Seconds at which the lanes are compared: the running heat's, else the shortest heat's."""
    lengths = {name: _seconds(ticks.get(heat.id, [])) for name, heat in heats.items()}
    running = [lengths[n] for n, heat in heats.items() if heat.state is HeatState.RUNNING]
    return min(running or [one for one in lengths.values() if one] or [0.0])


def score(cell: CellView, lane: str, style: int, ticks: Mapping[int, list[Tick]]) -> Score:
    """A lane's number: what it does in these steady seconds while it races,
    else what was measured."""
    view = cell.lanes[lane]
    running = next((heat for heat in view.heats if heat.state is HeatState.RUNNING), None)
    if running is not None:
        value = live_rate(ticks.get(running.id, []))
        if value is not None:
            return Score(lane, style, value, f"live, last {LIVE_SECONDS} s")
        if view.tokens_per_second is None:
            return Score(lane, style, None, "no steady second yet")
    counted = sum(heat.tokens_per_second is not None for heat in view.heats)
    kind = f"mean of {formats.plural(counted, 'heat')}" if counted else matrix.progress(view)
    return Score(lane, style, view.tokens_per_second, kind or "no heat counts")


def live_rate(ticks: Sequence[Tick]) -> float | None:
    """Tokens per second over the last whole seconds of the steady window: ramp is no speed."""
    whole = [tick for tick in ticks if tick.is_steady and tick.length_s >= SHORTEST_TICK_S]
    last = whole[-LIVE_SECONDS:]
    length = sum(tick.length_s for tick in last)
    return sum(tick.tokens for tick in last) / length if length else None


def race_ratio(cell: CellView, featured: str | None, scores: Sequence[Score]) -> Ratio | None:
    """The speedup with its interval; before there is one, the ratio of the two numbers shown."""
    if featured is None:
        return None
    judged = cell.lanes[featured].speedup
    if judged is not None and judged.value is not None:
        return Ratio(judged.value, formats.interval(judged.low, judged.high), judged.verdict.value)
    base, lane = scores[0].value, scores[-1].value
    if base and lane:
        return Ratio(lane / base, "", "live, no interval yet")
    reason = judged.reason if judged is not None and judged.heats else ""
    return Ratio(None, "", reason or "no speedup yet")


def race_chart(
    heats: Mapping[str, HeatView],
    ticks: Mapping[int, list[Tick]],
    styles: Mapping[str, int],
) -> Markup:
    """Tokens per second of the lanes on one clock."""
    is_live = any(heat.state is HeatState.RUNNING for heat in heats.values())
    series = [
        Series(
            label=_short(name) + (" ghost" if is_live and heat.state is HeatState.DONE else ""),
            style=styles[name],
            points=tuple(rate_points(ticks.get(heat.id, []))),
            is_ghost=is_live and heat.state is HeatState.DONE,
        )
        for name, heat in heats.items()
    ]
    return charts.line_chart(
        series,
        x_label="seconds since the heat began",
        y_label="tokens per second",
        title="Tokens per second of each lane, second by second",
    )


def rate_points(ticks: Sequence[Tick]) -> list[Point]:
    """One point per second, at the second's end."""
    return [
        Point(tick.second + tick.length_s, tick.tokens / tick.length_s)
        for tick in ticks
        if tick.length_s >= SHORTEST_TICK_S
    ]


def token_bars(
    heats: Mapping[str, HeatView],
    ticks: Mapping[int, list[Tick]],
    styles: Mapping[str, int],
    clock: float,
) -> tuple[TokenBar, ...]:
    """Tokens of every lane by the same clock."""
    totals = {
        name: sum(t.tokens for t in ticks.get(heat.id, []) if t.second < clock)
        for name, heat in heats.items()
    }
    most = max(totals.values(), default=0) or 1
    return tuple(
        TokenBar(name, styles[name], total, charts.length_bar(total / most, style=styles[name]))
        for name, total in totals.items()
    )


def finding(scores: Sequence[Score], ratio: Ratio | None, cell: CellView) -> str:
    """What the chart shows, in a sentence."""
    known = [f"{one.lane} {formats.rate(one.value)} tok/s" for one in scores if one.value]
    where = matrix.label(cell)
    if not known:
        return f"No tokens yet at {where}."
    times = f" ({formats.ratio(ratio.value)})" if ratio and ratio.value else ""
    return f"{' against '.join(known)}{times} at {where}."


def by_heat(ticks: Sequence[Tick]) -> dict[int, list[Tick]]:
    """Ticks of each heat, in order."""
    grouped: dict[int, list[Tick]] = {}
    for tick in ticks:
        grouped.setdefault(tick.heat, []).append(tick)
    return grouped


def _seconds(ticks: Sequence[Tick]) -> float:
    return max((tick.second + tick.length_s for tick in ticks), default=0.0)


def _short(name: str) -> str:
    return name if len(name) <= LABEL_CHARS else name[: LABEL_CHARS - 1] + "…"
