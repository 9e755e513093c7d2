"""Charts drawn on the server: classes for colour, gaps kept, labels apart, names escaped."""

import re

import pytest

from app.web import charts
from app.web.charts import Bar, Point, Series


def line(*xs: float, label: str = "baseline") -> Series:
    return Series(label, 0, tuple(Point(x, 100.0) for x in xs))


def chart(*series: Series) -> str:
    return charts.line_chart(series, x_label="s", y_label="tok/s", title="A chart")


def test_a_missing_second_is_a_gap_never_a_line() -> None:
    drawn = chart(line(1, 2, 5, 6))

    (path,) = re.findall(r'class="line lane-0" d="([^"]+)"', drawn)
    assert path.count("M") == 2


def test_no_chart_names_a_colour_or_a_style() -> None:
    drawn = chart(line(1, 2)) + charts.share_bars([Bar("1", 0.5, "50%")], style=1, title="x")

    assert "#" not in drawn
    assert "style=" not in drawn


def test_labels_are_escaped() -> None:
    drawn = chart(line(1, 2, label="<script>"))

    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn


def test_end_labels_are_moved_apart_and_stay_inside() -> None:
    moved = charts.spread([50, 51, 99, 100], 7)

    gaps = [b - a for a, b in zip(sorted(moved), sorted(moved)[1:], strict=False)]
    assert min(gaps) >= 7
    assert max(moved) <= 100


@pytest.mark.parametrize(
    ("value", "name"),
    [(1.0, "heat-z"), (1.05, "heat-z"), (1.2, "heat-p1"), (2.0, "heat-p4"), (9.0, "heat-p4"),
     (0.5, "heat-m4"), (0.0, "heat-z")],
)  # fmt: skip
def test_heat_diverges_about_one(value: float, name: str) -> None:
    assert charts.heat_step(value) == name


def test_the_axis_ends_at_a_round_number_with_head_room() -> None:
    axis = charts.nice_axis(183, "tok/s")

    assert axis.end == 200
    assert axis.ticks == (0, 50, 100, 150, 200)


def test_only_the_baseline_has_the_baselines_style() -> None:
    styles = [charts.lane_style(place) for place in range(64)]

    assert styles.count(0) == 1
    assert set(styles) == set(range(charts.LANE_STYLES))


def test_nothing_to_draw_is_still_a_chart() -> None:
    assert 'class="grid"' in chart()
    assert "Nothing yet" in chart()
