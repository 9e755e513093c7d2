"""What the result page and the embed show, computed from the frozen document alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any

from markupsafe import Markup

from app.domain.flags import Flag
from app.domain.recipe import BASELINE
from app.domain.result import LaneFacts, Result
from app.domain.summary import CellView, LaneCell
from app.web import charts, formats, matrix
from app.web.acceptance_view import AcceptanceChart, acceptance_charts
from app.web.charts import Point, Series
from app.web.render import Page

LABEL_CHARS = 15

PER_LAUNCH = frozenset({"--port", "--served-model-name"})


@dataclass(frozen=True)
class Number:
    """One of the two big numbers."""

    lane: str
    style: int
    value: float | None


@dataclass(frozen=True)
class Panel:
    """One small multiple: throughput by concurrency at one workload and context."""

    title: str
    finding: str
    chart: Markup


@dataclass(frozen=True)
class CellAcceptance:
    """Acceptance by position of all lanes in one cell."""

    label: str
    charts: tuple[AcceptanceChart, ...]


@dataclass(frozen=True)
class LatencyRow:
    """Time to first token of one lane in one cell."""

    cell: str
    lane: str
    style: int
    prompt: str
    n: str
    p50: str
    p95: str
    p99: str


@dataclass(frozen=True)
class Argument:
    """One piece of a command line."""

    text: str
    is_different: bool


@dataclass(frozen=True)
class CommandLine:
    """How a lane was started, with what the other lane has not marked."""

    facts: LaneFacts
    style: int
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class HeatRow:
    """One heat's raw figures."""

    cell: str
    lane: str
    ordinal: int
    attempt: int
    state: str
    tokens: str
    seconds: str
    speed: str
    source: str
    client: str
    flags: tuple[matrix.FlagMark, ...]


@dataclass(frozen=True)
class Fact:
    """A name and its value."""

    name: str
    value: str


@dataclass(frozen=True)
class Share:
    """What the share box hands out."""

    link: str
    embed: str


@dataclass(frozen=True, kw_only=True)
class ResultPage(Page):
    """Everything on /r/{slug}."""

    result: Result
    slug: str
    sha256: str
    frozen_at: datetime
    numbers: tuple[Number, ...]
    hardware: str
    share: Share | None
    panels: tuple[Panel, ...]
    heads: tuple[matrix.LaneHead, ...]
    rows: tuple[matrix.Row, ...]
    acceptance: tuple[CellAcceptance, ...]
    latencies: tuple[LatencyRow, ...]
    commands: tuple[CommandLine, ...]
    heats: tuple[HeatRow, ...]
    machine: tuple[Fact, ...]
    method: tuple[Fact, ...]
    flags: tuple[Flag, ...]


def result_page(
    result: Result, *, slug: str, sha256: str, frozen_at: datetime, share: Share
) -> ResultPage:
    """The page of a frozen document."""
    styles = lane_styles(result)
    return ResultPage(
        title=result.run.name,
        section="results",
        result=result,
        slug=slug,
        sha256=sha256,
        frozen_at=frozen_at,
        numbers=numbers(result),
        hardware=hardware(result),
        share=share,
        panels=tuple(panels(result.cells, styles)),
        heads=matrix.lane_heads(styles),
        rows=matrix.rows(result.cells),
        acceptance=_acceptance(result, styles),
        latencies=tuple(_latencies(result.cells, styles)),
        commands=command_lines(result.lanes),
        heats=tuple(_heat_rows(result.cells)),
        machine=machine_facts(result),
        method=method_facts(result),
        flags=matrix.explain(result.flags),
    )


def lane_styles(result: Result) -> dict[str, int]:
    """Style of every lane, the same on all pages."""
    return {lane.name: charts.lane_style(place) for place, lane in enumerate(result.lanes)}


def numbers(result: Result) -> tuple[Number, ...]:
    """Baseline and headline lane; none when there is no headline."""
    head, styles = result.headline, lane_styles(result)
    if head.lane is None:
        return ()
    return (
        Number(BASELINE, 0, head.baseline_tokens_per_second),
        Number(head.lane, styles[head.lane], head.lane_tokens_per_second),
    )


def hardware(result: Result) -> str:
    """One line: what it ran on, or what the played source ran on."""
    if result.provenance.hardware:
        return f"Source's hardware: {result.provenance.hardware}"
    gpus = [str(gpu.get("name", "GPU")) for gpu in result.machine.get("gpus") or []]
    cpu = result.machine.get("cpu")
    parts = [*(f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus))]
    if cpu:
        parts.append(str(cpu) if gpus else f"{cpu} (no GPU)")
    return " · ".join(parts) or "Hardware not recorded"


def panels(cells: Sequence[CellView], styles: dict[str, int]) -> Iterator[Panel]:
    """Small multiples, one per workload and context."""
    groups: dict[tuple[str, int], list[CellView]] = {}
    for cell in cells:
        groups.setdefault((cell.workload, cell.context), []).append(cell)
    for (workload, context), group in groups.items():
        title = f"{workload} · {formats.context(context)} context"
        group.sort(key=lambda cell: cell.concurrency)
        series = [_concurrency_series(name, style, group) for name, style in styles.items()]
        chart = charts.line_chart(
            series,
            x_label="streams at once",
            y_label="tok/s",
            title=f"Throughput by concurrency, {title}",
            x_values=[float(cell.concurrency) for cell in group],
            size="small",
        )
        yield Panel(title, _panel_finding(group), chart)


def _concurrency_series(name: str, style: int, group: Sequence[CellView]) -> Series:
    points = []
    for cell in group:
        lane = cell.lanes[name]
        speeds = [heat.tokens_per_second for heat in lane.heats if heat.tokens_per_second]
        if lane.tokens_per_second is not None and speeds:
            points.append(Point(cell.concurrency, lane.tokens_per_second, min(speeds), max(speeds)))
    label = name if len(name) <= LABEL_CHARS else name[: LABEL_CHARS - 1] + "…"
    return Series(label, style, tuple(points))


def _panel_finding(group: Sequence[CellView]) -> str:
    """The largest speedup that this panel holds, in a sentence."""
    found = [
        (lane.speedup.value, name, cell)
        for cell in group
        for name, lane in cell.lanes.items()
        if lane.speedup is not None and lane.speedup.value is not None
    ]
    if not found:
        return "No lane can be compared here."
    value, name, cell = max(found, key=lambda one: one[0])
    streams = formats.plural(cell.concurrency, "stream")
    return f"At most {formats.ratio(value)} ({name}, {streams})."


def _acceptance(result: Result, styles: dict[str, int]) -> tuple[CellAcceptance, ...]:
    """Cells with acceptance, the headline's first."""
    ordered = sorted(result.cells, key=lambda c: (c.position != result.headline.cell, c.position))
    made = (CellAcceptance(matrix.label(cell), acceptance_charts(cell, styles)) for cell in ordered)
    return tuple(one for one in made if one.charts)


def _latencies(cells: Sequence[CellView], styles: dict[str, int]) -> Iterator[LatencyRow]:
    for cell in cells:
        for name, lane in cell.lanes.items():
            if lane.ttft is not None:
                yield LatencyRow(
                    cell=matrix.label(cell),
                    lane=name,
                    style=styles[name],
                    prompt=formats.count(lane.prompt_tokens),
                    n=formats.count(lane.ttft.n),
                    p50=formats.latency(lane.ttft.p50),
                    p95=formats.latency(lane.ttft.p95),
                    p99=formats.latency(lane.ttft.p99),
                )


def command_lines(lanes: Sequence[LaneFacts]) -> tuple[CommandLine, ...]:
    """Every lane's argv; the baseline's is compared with the first variant's,
    all others with it."""
    base = next((lane for lane in lanes if lane.is_baseline), None)
    variant = next((lane for lane in lanes if not lane.is_baseline), None)
    lines = []
    for place, lane in enumerate(lanes):
        other = variant if lane is base else base
        marked = differences(lane.argv, other.argv if other is not None else lane.argv)
        lines.append(CommandLine(lane, charts.lane_style(place), marked))
    return tuple(lines)


def differences(argv: Sequence[str], other: Sequence[str]) -> tuple[Argument, ...]:
    """The pieces of `argv`, those that `other` has not at that place marked.

    What every launch gets anew (port, served name) differs always and means nothing: unmarked.
    """
    same: set[int] = set()
    for match in SequenceMatcher(
        None, list(argv), list(other), autojunk=False
    ).get_matching_blocks():
        same.update(range(match.a, match.a + match.size))
    same.update(place + 1 for place, text in enumerate(argv) if text in PER_LAUNCH)
    return tuple(Argument(text, place not in same) for place, text in enumerate(argv))


def _heat_rows(cells: Sequence[CellView]) -> Iterator[HeatRow]:
    for cell in cells:
        for lane in cell.lanes.values():
            yield from _lane_heats(matrix.label(cell), lane)


def _lane_heats(label: str, lane: LaneCell) -> Iterator[HeatRow]:
    for heat in lane.heats:
        counted = heat.summary
        yield HeatRow(
            cell=label,
            lane=heat.lane,
            ordinal=heat.ordinal,
            attempt=heat.attempt,
            state=heat.state.value,
            tokens=formats.count(counted.tokens if counted else None),
            seconds=formats.decimal(counted.seconds if counted else None),
            speed=formats.rate(heat.tokens_per_second),
            source=counted.source if counted else formats.NOTHING,
            client=formats.percent(counted.client.cpu_share if counted else None),
            flags=matrix.marks(heat.flags),
        )


def machine_facts(result: Result) -> tuple[Fact, ...]:
    """Machine, engine and tool as flat names and values."""
    versions = ", ".join(str(one) for one in result.engine.get("versions", [])) or formats.NOTHING
    tool = f"slipstream {result.tool.version}"
    if result.tool.commit:
        tool += f" ({result.tool.commit[:12]})"
    engine = [Fact("engine", f"{result.engine.get('name', '')} {versions}")]
    return (*engine, *flatten(result.machine), Fact("measured with", tool))


def flatten(data: dict[str, Any], prefix: str = "") -> tuple[Fact, ...]:
    """Nested facts as dotted names; what is unknown is left out."""
    facts: list[Fact] = []
    for key, value in data.items():
        name = _plain(f"{prefix}{key}")
        if isinstance(value, dict):
            facts += flatten(value, f"{prefix}{key} ")
        elif isinstance(value, list | tuple):
            for place, item in enumerate(value, 1):
                head = f"{prefix}{key} {place}" if len(value) > 1 else f"{prefix}{key}"
                inner = flatten(item, f"{head} ") if isinstance(item, dict) else ()
                facts += inner or [Fact(_plain(head), str(item))]
        elif value is not None and value != "":
            facts.append(Fact(name, f"{value:,}" if type(value) is int else str(value)))
    return tuple(facts)


_PLAIN = {"gpus": "GPU", "gpu": "GPU", "cpu": "CPU", "mib": "MiB", "os": "OS", "cuda": "CUDA"}


def _plain(name: str) -> str:
    return " ".join(_PLAIN.get(word, word) for word in name.replace("_", " ").split())


def method_facts(result: Result) -> tuple[Fact, ...]:
    """How it was measured."""
    recipe = result.recipe
    decode = recipe.decode
    return (
        Fact("model", recipe.model),
        Fact("decode", f"{decode.mode}, {decode.seconds:g} s per heat"),
        Fact("max tokens", formats.count(decode.max_tokens)),
        Fact("sampling", f"temperature {decode.temperature:g}, top-p {decode.top_p:g}"),
        Fact("seed", str(decode.seed)),
        Fact("heats per cell", str(recipe.repeats)),
        Fact("warm-up", f"at most {recipe.warmup_seconds:g} s per concurrency"),
        Fact("interval", "95 %, paired heats, t on logarithms"),
    )
