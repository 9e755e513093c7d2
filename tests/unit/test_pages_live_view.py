"""What the live page says, for runs in every state."""

from app.domain.snapshot import Snapshot
from app.domain.states import HeatState
from app.web import live_view, race_view
from app.web.live_view import LivePage
from tests import builders
from tests.builders import NOON


def page_of(snapshot: Snapshot, **picks: object) -> LivePage:
    ticks = builders.make_ticks(snapshot)
    return live_view.live_page(snapshot, ticks, now=NOON, **picks)  # type: ignore[arg-type]


def test_the_running_lane_shows_its_last_seconds_and_says_live() -> None:
    page = page_of(builders.make_running())

    assert [score.kind for score in page.scores] == ["mean of 3 heats", "live, last 5 s"]


def test_the_ratio_of_a_finished_cell_is_the_verdict_with_its_interval() -> None:
    snapshot = builders.make_snapshot()

    page = page_of(snapshot)

    judged = snapshot.cells[0].lanes["mtp-k4"].speedup
    assert page.ratio is not None
    assert judged is not None
    assert page.ratio.value == judged.value
    assert page.ratio.interval == "1.76–1.92"


def test_bars_compare_lanes_after_the_same_seconds() -> None:
    snapshot = builders.make_running()
    ticks = builders.make_ticks(snapshot)

    page = live_view.live_page(snapshot, ticks, now=NOON)

    heat = snapshot.cells[0].lanes["baseline"].heats[1].id
    first_six = sum(tick.tokens for tick in ticks if tick.heat == heat and tick.second < 6)
    assert page.clock_seconds == 6
    assert page.bars[0].tokens == first_six


def test_heats_of_the_same_ordinal_race_each_other() -> None:
    cell = builders.make_running().cells[0]

    heats = race_view.pick_heats(cell, ())

    assert {heat.ordinal for heat in heats.values()} == {2}
    assert heats["mtp-k4"].state is HeatState.RUNNING


def test_the_lane_that_ran_before_is_a_ghost_while_another_races() -> None:
    assert "baseline ghost" in page_of(builders.make_running()).chart
    assert "ghost" not in page_of(builders.make_snapshot()).chart


def test_a_reader_may_pick_another_cell_and_lane() -> None:
    snapshot = builders.make_snapshot(("baseline", "mtp-k1", "mtp-k4"))

    page = page_of(snapshot, cell=3, lane="mtp-k1")

    assert page.cell.position == 3
    assert page.scores[1].lane == "mtp-k1"


def test_an_unknown_pick_falls_back_to_what_is_racing() -> None:
    page = page_of(builders.make_running(), cell=99, lane="nobody")

    assert page.cell.position == 0
    assert page.scores[1].lane == "mtp-k4"


def test_a_failed_lane_without_ticks_is_not_in_the_race_but_in_the_panel() -> None:
    page = page_of(builders.make_failed())

    assert [bar.lane for bar in page.bars] == ["baseline"]
    assert [card.lane.name for card in page.failed] == ["mtp-k4"]


def test_a_queued_run_promises_nothing() -> None:
    page = page_of(builders.make_queued())

    assert page.chart_finding == "No tokens yet at code · 0 context · 1 stream."
    assert page.ratio is not None
    assert page.ratio.value is None


def test_the_title_tells_a_stale_tab_what_it_needs() -> None:
    title = page_of(builders.make_running()).title

    assert title.startswith("1.86× · racing · ")


def test_a_last_moment_counts_but_is_not_drawn() -> None:
    snapshot = builders.make_snapshot()
    tick = builders.make_ticks(snapshot)[0]
    sliver = tick.model_copy(update={"second": 1, "length_s": 0.1})

    points = race_view.rate_points([tick, sliver])

    assert len(points) == 1


def test_the_ramp_of_a_heat_is_no_speed() -> None:
    snapshot = builders.make_snapshot()
    heat = snapshot.cells[0].lanes["baseline"].heats[0]
    steady = builders.make_tick(snapshot, heat, 1)
    ramp = builders.make_tick(snapshot, heat, 0).model_copy(update={"is_steady": False})

    assert race_view.live_rate([ramp]) is None
    assert race_view.live_rate([ramp, steady]) == steady.tokens
