"""Pages are whole without script, escape what strangers wrote, and say whose numbers they show."""

import re
from pathlib import Path

import pytest

from app.domain.recipe_text import from_yaml
from app.domain.snapshot import Provenance, Snapshot
from app.store import cards
from app.web import embeds, home_view, live_view, patterns, render, result_view
from app.web.result_view import Share
from tests import builders
from tests.builders import NOON

STATIC = Path(__file__).parents[2] / "static"
SHARE = Share("http://x/r/s", '<iframe src="http://x/e/s"></iframe>')
HOSTILE = '<img src=x onerror="alert(1)">\u202e'


def live_html(snapshot: Snapshot) -> str:
    page = live_view.live_page(snapshot, builders.make_ticks(snapshot), now=NOON)
    return render.render("pages/live.html", page)


def result_html(snapshot: Snapshot) -> str:
    document = builders.make_result(snapshot)
    page = result_view.result_page(document, slug="s", sha256="0" * 64, frozen_at=NOON, share=SHARE)
    return render.render("pages/result.html", page)


def embed_html(snapshot: Snapshot, theme: embeds.Theme = "auto") -> str:
    page = embeds.embed_page(builders.make_result(snapshot), link="http://x/r/s", theme=theme)
    return render.render("embeds/result.html", page)


@pytest.mark.parametrize(
    "snapshot",
    [
        builders.make_snapshot(),
        builders.make_snapshot(("baseline",)),
        builders.make_snapshot(("baseline", *(f"mtp-k{k}" for k in range(1, 33)))),
        builders.make_snapshot(words={("mtp-k4", 0): ("engine-died",)}),
        builders.make_failed(),
    ],
    ids=["two lanes", "one lane", "33 lanes", "void cell", "failed lane"],
)
def test_every_page_of_a_run_renders(snapshot: Snapshot) -> None:
    assert "<h1" in live_html(snapshot)
    assert "<h1" in result_html(snapshot)
    assert "<h1" in embed_html(snapshot)


@pytest.mark.parametrize(
    "snapshot", [builders.make_queued(), builders.make_launching(), builders.make_running()],
    ids=["queued", "launching", "running"],
)  # fmt: skip
def test_an_unfinished_run_refreshes_itself_without_script(snapshot: Snapshot) -> None:
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in live_html(snapshot)


def test_a_finished_run_does_not_refresh() -> None:
    assert "http-equiv" not in live_html(builders.make_snapshot())


def test_a_replay_says_so_and_whose_race_it_plays() -> None:
    snapshot = builders.make_snapshot()

    for html in (live_html(snapshot), result_html(snapshot), embed_html(snapshot)):
        assert "REPLAY" in html
        assert "Blackwell Shenanigans 003" in html


def test_a_measured_run_has_no_banner() -> None:
    snapshot = builders.make_snapshot(provenance=Provenance(kind="measured"))

    assert "REPLAY" not in live_html(snapshot)
    assert "REPLAY" not in embed_html(snapshot)


def test_hostile_names_are_shown_not_run() -> None:
    snapshot = builders.make_snapshot(name=HOSTILE, notes=HOSTILE)

    for html in (live_html(snapshot), result_html(snapshot), embed_html(snapshot)):
        assert "<img" not in html
        assert "&lt;img" in html


def test_the_embed_has_no_script_and_weighs_under_30_kb() -> None:
    html = embed_html(builders.make_snapshot())
    styles = (STATIC / "css" / "tokens.css").read_text() + (STATIC / "css/embed.css").read_text()

    assert "<script" not in html
    assert len(html.encode()) + len(styles.encode()) < 30_000


def test_the_embed_takes_a_theme_and_says_when_it_was_measured() -> None:
    html = embed_html(builders.make_snapshot(), "dark")

    assert 'data-theme="dark"' in html
    assert "Replayed <time" in html


def test_a_void_number_is_not_shown_but_its_flag_is() -> None:
    html = result_html(builders.make_snapshot(words={("mtp-k4", 0): ("engine-died",)}))

    assert "void: engine-died" in html
    assert "The server died during the heat." in html


def test_what_the_lanes_do_not_share_is_marked() -> None:
    html = result_html(builders.make_snapshot())

    assert "<mark>--speculative-num-steps</mark>" in html
    assert "<mark>--race</mark>" not in html


def test_published_races_stand_with_the_sources_own_digits() -> None:
    page = home_view.home_page([], [], cards.published(), [], "curl")

    html = render.render("pages/home.html", page)

    assert "188.961" in html
    assert "1.868×" in html
    assert "not measured here" in html


def test_an_empty_home_teaches_the_next_act() -> None:
    page = home_view.home_page([], [], (), [], home_view.curl_line("http://h:1", "replay-b300"))

    html = render.render("pages/home.html", page)

    assert "No runs yet." in html
    assert "curl -X POST http://h:1/api/v1/runs" in html
    assert "No worker is connected." in html


def test_every_published_race_that_can_be_played_gives_a_recipe() -> None:
    for source in cards.published():
        for race in source.data["races"]:
            if race["playable"]:
                recipe = home_view.replay_recipe(source, race)
                assert cards.provenance_of(from_yaml(recipe)).plays


@pytest.mark.parametrize(
    "html",
    [
        live_html(builders.make_running()),
        result_html(builders.make_snapshot()),
        embed_html(builders.make_snapshot()),
        render.render("pages/patterns.html", patterns.patterns_page()),
    ],
    ids=["live", "result", "embed", "patterns"],
)
def test_no_page_has_inline_style_or_handlers(html: str) -> None:
    assert not re.search(r"<[^>]+\s(style|on[a-z]+)=", html)
    assert html.count("<script>") <= 1


def test_only_the_tokens_name_colours() -> None:
    named = re.compile(r"#[0-9a-fA-F]{3,8}\b|rgba?\((?!0,0,0,0)")
    files = [*STATIC.glob("css/*.css"), *STATIC.glob("js/*.js")]

    guilty = [f.name for f in files if f.name != "tokens.css" and named.search(f.read_text())]

    assert guilty == []


def test_no_style_sheet_shouts() -> None:
    assert [f.name for f in STATIC.glob("css/*.css") if "!important" in f.read_text()] == []
