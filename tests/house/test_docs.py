"""The documents keep up with the code: settings, words, commands."""

import re

import pytest

from app.config import Settings
from tests.house import flags_page
from tests.house.tree import ROOT

NOUNS = (
    "recipe",
    "run",
    "lane",
    "cell",
    "heat",
    "race",
    "ghost",
    "tick",
    "verdict",
    "result",
    "engine",
    "launcher",
    "draft",
    "drafted",
    "accepted",
    "tau",
    "flag",
    "seat",
    "spotlight",
    "window",
)


@pytest.mark.parametrize("field", sorted(Settings.model_fields))
def test_every_setting_is_in_the_operating_guide(field: str) -> None:
    guide = (ROOT / "docs" / "operating.md").read_text()

    assert f"| `SLIPSTREAM_{field.upper()}` |" in guide


def test_the_operating_guide_names_no_setting_that_is_gone() -> None:
    guide = (ROOT / "docs" / "operating.md").read_text()
    named = set(re.findall(r"^\| `SLIPSTREAM_(\w+)` \|", guide, re.MULTILINE))

    assert named - {field.upper() for field in Settings.model_fields} == set()


def test_the_flags_page_is_the_table_of_flags() -> None:
    assert (ROOT / "docs" / "flags.md").read_text() == flags_page.render()


@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_has_one_line_in_the_glossary(noun: str) -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()

    assert sum(line.startswith(f"| {noun} |") for line in lines) == 1


def test_every_make_command_in_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text()))

    assert {"race", "test", "check"} <= named
    assert [target for target in named if f"\n{target}: " not in makefile] == []


def test_every_document_that_the_readme_links_exists() -> None:
    links = re.findall(r"\]\(([\w./-]+)\)", (ROOT / "README.md").read_text())

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_ci_runs_the_readme_command_with_nothing_allowed_to_skip() -> None:
    script = (ROOT / ".ci" / "run").read_text()

    assert "\nmake engines\n" in script
    assert "SLIPSTREAM_NO_SKIP=1 make check\n" in script
