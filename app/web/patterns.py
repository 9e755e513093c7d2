"""Every part in every state, light and dark: the page that screenshots and checks run over."""

from dataclasses import dataclass

from markupsafe import Markup

from app.domain.flags import FLAGS, Flag
from app.domain.snapshot import Provenance
from app.domain.states import LaneState, RunState
from app.domain.summary import AcceptanceView
from app.web import charts, matrix
from app.web.acceptance_view import AcceptanceChart, acceptance_chart
from app.web.charts import Point, Series
from app.web.matrix import Entry, FlagMark, LaneHead, Row
from app.web.render import Page


@dataclass(frozen=True, kw_only=True)
class PatternsPage(Page):
    """Samples of all parts."""

    schemes: tuple[str, ...] = ("light", "dark")
    run_states: tuple[str, ...] = tuple(state.value for state in RunState)
    lane_states: tuple[str, ...] = tuple(state.value for state in LaneState)
    lanes: tuple[LaneHead, ...]
    provenances: tuple[Provenance, ...]
    heads: tuple[LaneHead, ...]
    rows: tuple[Row, ...]
    flags: tuple[Flag, ...]
    live: Markup
    small: Markup
    empty: Markup
    spark: Markup
    acceptance: AcceptanceChart | None


def patterns_page() -> PatternsPage:
    """The page; its numbers are made up and say so."""
    return PatternsPage(
        title="Patterns",
        lanes=tuple(
            LaneHead("baseline" if place == 0 else f"mtp-k{place}", place, place == 0)
            for place in range(charts.LANE_STYLES)
        ),
        provenances=(
            Provenance(kind="replay", plays="a published race", hardware="NVIDIA B300"),
            Provenance(kind="imported", plays="vllm bench serve"),
        ),
        heads=matrix.lane_heads(["baseline", "mtp-k4"]),
        rows=tuple(_row(place, entry) for place, entry in enumerate(_entries())),
        flags=tuple(FLAGS.values()),
        live=_live_chart(),
        small=_small_chart(),
        empty=charts.line_chart((), x_label="seconds", y_label="tok/s", title="Nothing yet"),
        spark=charts.sparkline((3, 8, 8.2, 7.9, 8.1), highest=9, style=1, title="Sparkline"),
        acceptance=_acceptance(),
    )


def _entries() -> tuple[Entry, ...]:
    """A variant's entry in every state that a matrix shows."""
    values = (0.45, 0.7, 0.9, 1.01, 1.2, 1.45, 1.7, 2.3)
    measured = [
        _entry(f"{value:.2f}×", f"{value - 0.03:.2f}–{value + 0.03:.2f}", charts.heat_step(value))
        for value in values
    ]
    measured[3] = _entry("1.01×", "0.97–1.05", "heat-z", verdict="too close to call", is_close=True)
    return (
        *measured,
        _entry("1.83×", "", "heat-p3", verdict="one heat, no interval"),
        _entry("1.83×", "1.79–1.87", "heat-p3", flags=(FlagMark("throttled", False),)),
        _entry("", "", "", speed="–", flags=(FlagMark("engine-died", True),)),
        _entry("", "", "", speed="–", progress="racing, heat 2 of 3", is_running=True),
        _entry("", "", "", speed="–", progress="waiting"),
        _entry("", "", "", speed="–", progress="failed"),
    )


def _entry(
    ratio: str,
    interval: str,
    heat: str,
    *,
    speed: str = "183",
    verdict: str = "",
    progress: str = "",
    is_close: bool = False,
    is_running: bool = False,
    flags: tuple[FlagMark, ...] = (),
) -> Entry:
    return Entry(
        lane="mtp-k4",
        is_baseline=False,
        speed=speed,
        ratio=ratio,
        interval=interval,
        verdict=verdict,
        heat=heat,
        is_close=is_close,
        progress=progress,
        is_running=is_running,
        flags=flags,
    )


def _row(place: int, variant: Entry) -> Row:
    base = Entry("baseline", True, "99.7", "", "", "", "", False, "", False, ())
    return Row(place, place, "code", "8K", str(place + 1), "code", (base, variant))


def _live_chart() -> Markup:
    steady = tuple(Point(x + 1.0, 100 + x % 3) for x in range(12))
    gapped = tuple(Point(x + 1.0, 180 + 4 * (x % 2)) for x in (0, 1, 2, 5, 6, 7))
    lanes = (Series("baseline ghost", 0, steady, is_ghost=True), Series("mtp-k4", 1, gapped))
    return charts.line_chart(
        lanes,
        x_label="seconds since the heat began",
        y_label="tokens per second",
        title="A ghost, and a line with a gap",
    )


def _small_chart() -> Markup:
    series = [
        Series(
            f"lane {style}",
            style,
            tuple(
                Point(x, speed, speed * 0.95, speed * 1.05)
                for x in (1, 4, 8)
                for speed in [90 + 22 * style + 12 * x]
            ),
        )
        for style in range(charts.LANE_STYLES)
    ]
    return charts.line_chart(
        series,
        x_label="streams",
        y_label="tok/s",
        title="All lane styles",
        x_values=(1, 4, 8),
        size="small",
    )


def _acceptance() -> AcceptanceChart:
    view = AcceptanceView(
        drafts=1000,
        drafted=4000,
        accepted=2710,
        rate=0.6775,
        tau=3.71,
        accepted_per_position=(910, 760, 610, 430),
        rate_per_position=(0.91, 0.76, 0.61, 0.43),
    )
    return acceptance_chart("mtp-k4", view, 1)
