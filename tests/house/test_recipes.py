"""Every recipe card that we ship can be raced, and plays a race that we ship."""

from pathlib import Path

import pytest

from app.domain.recipe_text import from_yaml
from tests.house.tree import ROOT, name_of

CARDS = sorted((ROOT / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("card", CARDS, ids=name_of)
def test_the_recipe_is_valid(card: Path) -> None:
    recipe = from_yaml(card.read_bytes())

    assert "baseline" in recipe.lanes


@pytest.mark.parametrize("card", CARDS, ids=name_of)
def test_a_replay_recipe_says_so_and_plays_a_published_race(card: Path) -> None:
    recipe = from_yaml(card.read_bytes())
    replays = recipe.engine == "replay"
    race = str(recipe.args.get("race", ""))

    assert not replays or "REPLAY" in recipe.name
    assert not replays or (ROOT / "published" / f"{race}.json").is_file()


def test_there_is_a_recipe_for_the_embedded_default() -> None:
    assert "recipes/replay-b300.yaml" in [name_of(card) for card in CARDS]
