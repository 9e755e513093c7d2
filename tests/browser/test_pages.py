"""Every page in a real browser: nothing to complain of, whole without script, accessible."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Elsewhere, Races, Visitor

PATHS = {
    "home": "/",
    "submit": "/submit",
    "live, running": "/runs/{running}",
    "live, finished": "/runs/{finished}",
    "live, five lanes": "/runs/{sweep}",
    "live, failed": "/runs/{failed}",
    "live, launching": "/runs/{launching}",
    "live, queued": "/runs/{queued}",
    "result": "/r/{slug}",
    "result, five lanes": "/r/{sweep_slug}",
    "result, failed": "/r/{failed_slug}",
    "embed": "/e/{slug}",
    "patterns": "/_patterns",
}
every_page = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)


def address(path: str, races: Races) -> str:
    return path.format_map(vars(races))


def settle(page: Page) -> None:
    """Wait until a live page has drawn its chart, where it has one to draw."""
    if page.locator("[data-bar]").count():
        expect(page.locator("[data-chart].js-plotly-plot")).to_be_visible()


def axe_findings(page: Page) -> list[str]:
    answer = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa",
                                                  "best-practice"]})  # fmt: skip
    return [
        f"{found['id']}: {node['target']} {node.get('failureSummary', '')[:200]}"
        for found in answer.response["violations"]
        for node in found["nodes"]
    ]


@every_page
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(path: str, scheme: str, races: Races, visitor: Visitor) -> None:
    page = visitor.open(address(path, races), color_scheme=scheme, bypass_csp=True)
    settle(page)

    assert axe_findings(page) == []


@every_page
def test_a_page_gives_the_browser_nothing_to_complain_of(
    path: str, races: Races, visitor: Visitor
) -> None:
    page = visitor.open(address(path, races))
    settle(page)

    assert visitor.complaints == []


@every_page
def test_nothing_scrolls_sideways_at_360_pixels(path: str, races: Races, visitor: Visitor) -> None:
    page = visitor.open(address(path, races), width=360)
    settle(page)

    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_race_is_whole_without_script(races: Races, visitor: Visitor) -> None:
    page = visitor.open(f"/runs/{races.running}", script=False)

    expect(page.locator("[data-ratio]")).to_contain_text("×")
    expect(page.locator("[data-chart] path.line")).to_have_count(2)
    expect(page.locator("[data-matrix] tbody tr")).to_have_count(4)
    expect(page.get_by_role("button", name="Pause")).to_be_hidden()
    expect(page.get_by_role("button", name="Cancel the run")).to_be_visible()


def test_the_form_works_without_script(visitor: Visitor) -> None:
    page = visitor.open("/submit?card=replay-b300", script=False)

    page.get_by_role("button", name="Race it").click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("REPLAY")
    expect(page.locator("[data-now-text]")).to_contain_text("queue")


def test_a_bad_recipe_is_explained_and_nothing_typed_is_lost(visitor: Visitor) -> None:
    page = visitor.open("/submit")
    typed = page.get_by_label("Recipe", exact=True)
    typed.fill("name: x\nmodel: m\nengine: attach\nlanez: {}\n")

    page.get_by_role("button", name="Race it").click()

    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("lanez is not a key that a recipe knows.")
    expect(typed).to_have_value("name: x\nmodel: m\nengine: attach\nlanez: {}\n")


def test_a_published_race_fills_the_form(visitor: Visitor) -> None:
    page = visitor.open("/")

    page.get_by_role("link", name="Replay it").first.click()

    expect(page.get_by_label("Recipe", exact=True)).to_have_value(re.compile("engine: replay"))


def test_the_theme_is_kept_and_applied_before_the_first_paint(visitor: Visitor) -> None:
    page = visitor.open("/", color_scheme="light")

    page.get_by_text("dark", exact=True).click()
    page.reload()

    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    assert page.locator('input[value="dark"]').is_checked()


def test_the_embed_shows_in_a_sandboxed_frame_elsewhere(
    races: Races, visitor: Visitor, elsewhere: Elsewhere
) -> None:
    frame_html = f'<iframe sandbox src="{visitor.url}/e/{races.slug}" width="320"></iframe>'
    (elsewhere.folder / "post.html").write_text(frame_html)
    page = visitor.open("/")

    page.goto(f"{elsewhere.url}/post.html")

    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading")).to_contain_text("mtp-k4 is")
    expect(frame.locator(".spark")).to_have_count(2)


def test_a_page_elsewhere_cannot_frame_the_dashboard(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    (elsewhere.folder / "trap.html").write_text(f'<iframe src="{visitor.url}/"></iframe>')
    page = visitor.open("/")

    page.goto(f"{elsewhere.url}/trap.html")

    expect(page.frame_locator("iframe").locator(".hero")).to_have_count(0)
    assert "frame-ancestors" in " ".join(visitor.complaints)


def test_exploring_fetches_plotly_only_when_asked(races: Races, visitor: Visitor) -> None:
    page = visitor.open(f"/r/{races.sweep_slug}")
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    assert page.evaluate("typeof Plotly") == "undefined"

    page.get_by_role("button", name="Explore").click()

    expect(page.locator(".explored.js-plotly-plot")).to_have_count(2)
    assert all(url.startswith(visitor.url) for url in fetched)
    assert visitor.complaints == []


def test_a_missing_page_says_what_to_do(visitor: Visitor) -> None:
    page = visitor.open("/r/nothing-here")

    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    expect(page.get_by_text("Check the link.")).to_be_visible()
