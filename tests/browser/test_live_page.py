"""The live page in a real browser: it moves, tells the truth, and obeys its reader."""

import re
import signal

import pytest
from playwright.sync_api import Page, expect

from app.store.db import Database
from app.store.progress import PlannedHeat
from app.web import formats
from tests import builders
from tests.browser import driver
from tests.browser.conftest import Races, Visitor
from tests.browser.driver import Race
from tests.integration.web_house import Dashboard

PLOT = "[data-chart].js-plotly-plot"


@pytest.fixture
def race(db: Database) -> tuple[Race, PlannedHeat]:
    return driver.half_way(db)


def bar(page: Page, lane: str) -> str:
    return page.locator(f'[data-bar="{lane}"] .num').inner_text()


def test_the_page_moves_with_every_tick(race: tuple[Race, PlannedHeat], visitor: Visitor) -> None:
    run, heat = race
    page = visitor.open(f"/runs/{run.run_id}")
    expect(page.locator(PLOT)).to_be_visible()
    expect(page.locator('[data-fact="clock"]')).to_have_text("7 s")
    before = bar(page, "mtp-k4")

    run.tick(heat, 7)

    expect(page.locator('[data-fact="clock"]')).to_have_text("8 s")
    assert bar(page, "mtp-k4") != before
    assert visitor.complaints == []


def test_the_numbers_are_the_databases(
    race: tuple[Race, PlannedHeat], visitor: Visitor, db: Database
) -> None:
    run, heat = race
    for second in range(7, 12):
        run.tick(heat, second)
    run.end(heat)
    cell = run.snapshot().cells[0]
    judged = cell.lanes["mtp-k4"].speedup
    assert judged is not None

    page = visitor.open(f"/runs/{run.run_id}?cell=0")

    expect(page.locator(PLOT)).to_be_visible()
    speed = page.locator('[data-score="1"] [data-fact="value"]')
    expect(speed).to_have_text(formats.rate(cell.lanes["mtp-k4"].tokens_per_second))
    expect(page.locator('[data-ratio] [data-fact="value"]')).to_have_text(
        formats.ratio(judged.value)
    )
    expect(page.locator('[data-ratio] [data-fact="interval"]')).to_have_text(
        formats.interval(judged.low, judged.high)
    )
    entry = page.locator(f'[data-matrix] [data-cell="{cell.id}"] [data-lane="mtp-k4"] .times')
    expect(entry).to_have_text(formats.ratio(judged.value))


def test_tokens_on_screen_are_the_sum_of_the_ticks(
    race: tuple[Race, PlannedHeat], visitor: Visitor
) -> None:
    run, heat = race
    view = builders.make_heat(heat.id, heat.lane, heat.cell, heat.ordinal, speed=1)
    ticks = [builders.make_tick(run.snapshot(), view, second) for second in range(7)]

    page = visitor.open(f"/runs/{run.run_id}")

    expect(page.locator(PLOT)).to_be_visible()
    assert bar(page, "mtp-k4") == formats.count(sum(tick.tokens for tick in ticks))


def test_server_and_script_write_the_same_words(races: Races, visitor: Visitor) -> None:
    parts = [
        "[data-score]", "[data-ratio]", "[data-bars]", "[data-matrix] tbody", "[data-finding]",
        "[data-progress-text]", "[data-acceptance] figcaption", "[data-flags]",
    ]  # fmt: skip
    quiet = visitor.open(f"/runs/{races.sweep}", script=False)
    loud = visitor.open(f"/runs/{races.sweep}")
    expect(loud.locator(PLOT)).to_be_visible()

    for part in parts:
        said = [" ".join(text.split()) for text in quiet.locator(part).all_inner_texts()]
        drawn = [" ".join(text.split()) for text in loud.locator(part).all_inner_texts()]
        assert drawn == said, part


def test_pausing_stops_the_drawing_and_never_the_data(
    race: tuple[Race, PlannedHeat], visitor: Visitor
) -> None:
    run, heat = race
    page = visitor.open(f"/runs/{run.run_id}")
    clock = page.locator('[data-fact="clock"]')
    expect(clock).to_have_text("7 s")
    page.get_by_role("button", name="Pause").click()

    run.tick(heat, 7)
    expect(page.locator("[data-race]")).to_have_attribute("data-waiting", "1")
    paused = clock.inner_text()
    page.get_by_role("button", name="Go on").click()

    assert paused == "7 s"
    expect(clock).to_have_text("8 s")


def test_the_keyboard_reaches_pause_before_the_chart_and_then_cancel(
    race: tuple[Race, PlannedHeat], visitor: Visitor
) -> None:
    run, _ = race
    page = visitor.open(f"/runs/{run.run_id}")
    expect(page.locator(PLOT)).to_be_visible()
    reached: list[str] = []
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))

    pause, cancel = reached.index("Pause"), reached.index("Cancel the run")
    chart = reached.index("Another cell or lane")
    assert pause < cancel < chart


def test_cancel_asks_the_worker_to_stop(race: tuple[Race, PlannedHeat], visitor: Visitor) -> None:
    run, _ = race
    page = visitor.open(f"/runs/{run.run_id}", script=False)

    page.get_by_role("button", name="Cancel the run").click()

    assert run.snapshot().run.is_cancelling
    expect(page.get_by_text("Cancelling …")).to_be_visible()


def test_a_queued_run_can_be_cancelled_from_the_page(db: Database, visitor: Visitor) -> None:
    run = Race(db).submit()
    page = visitor.open(f"/runs/{run.run_id}")

    page.get_by_role("button", name="Cancel the run").click()

    expect(page.locator("[data-now-text]")).to_contain_text("Cancelled")
    assert visitor.complaints == []


def test_the_title_and_the_icon_tell_a_stale_tab(
    race: tuple[Race, PlannedHeat], visitor: Visitor
) -> None:
    run, _ = race

    page = visitor.open(f"/runs/{run.run_id}")

    expect(page).to_have_title(re.compile(r"^\d\.\d\d× · racing · Gemma"))
    icon = page.locator('link[rel="icon"]')
    expect(icon).to_have_attribute("href", "/static/favicon-racing.svg")


def test_a_finish_is_shown_without_a_reload(
    race: tuple[Race, PlannedHeat], visitor: Visitor
) -> None:
    run, heat = race
    page = visitor.open(f"/runs/{run.run_id}")
    expect(page.locator(PLOT)).to_be_visible()

    run.end(heat)
    slug = run.finish()

    link = page.get_by_role("link", name="Result")
    expect(link).to_have_attribute("href", f"/r/{slug}")
    expect(page.locator("[data-announce]")).to_contain_text("finished")


def test_a_failure_appears_the_second_it_happens(db: Database, visitor: Visitor) -> None:
    run = Race(db).submit().claim()
    run.drive("baseline", seconds=2)
    page = visitor.open(f"/runs/{run.run_id}")

    run.fail("mtp-k4")

    panel = page.get_by_role("alert")
    expect(panel).to_contain_text("Lane mtp-k4 failed while loading weights")
    expect(panel).to_contain_text("CUDA out of memory")


def test_a_lost_feed_says_so_and_comes_back_with_nothing_missing(
    house: Dashboard, race: tuple[Race, PlannedHeat], visitor: Visitor
) -> None:
    run, heat = race
    page = visitor.open(f"/runs/{run.run_id}")
    expect(page.locator('[data-fact="clock"]')).to_have_text("7 s")

    house.stop(signal.SIGKILL)
    expect(page.locator("[data-feed]")).to_contain_text("Live feed lost; retrying")
    run.tick(heat, 7)
    house.start()
    run.tick(heat, 8)

    expect(page.locator('[data-fact="clock"]')).to_have_text("9 s", timeout=30_000)
    expect(page.locator("[data-feed]")).to_be_hidden()


def test_plotly_offers_no_upload_and_no_mode_bar(races: Races, visitor: Visitor) -> None:
    page = visitor.open(f"/runs/{races.finished}")
    expect(page.locator(PLOT)).to_be_visible()

    page.locator(PLOT).hover()

    expect(page.locator(".modebar-btn")).to_have_count(0)
    assert "Share" not in page.locator("[data-chart]").inner_text()
    assert visitor.complaints == []
