"""How long the rest of a run may take."""

import pytest

from app.domain.recipe import validate
from workers.pace import Pace

RECIPE = validate(
    {
        "name": "x",
        "model": "m",
        "engine": "replay",
        "lanes": {"baseline": {}, "mtp": {"k": 3}},
        "matrix": {"concurrency": [1, 4]},
        "decode": {"seconds": 10},
        "warmup_seconds": 0,
    }
)


def test_before_anything_was_seen_the_recipe_is_the_guess() -> None:
    assert Pace(RECIPE).eta_seconds(heats_left=2, lanes_left=0) == pytest.approx(22)


def test_what_was_seen_replaces_the_guess() -> None:
    pace = Pace(RECIPE)

    pace.launched(100)
    pace.drove(20)
    pace.drove(40)

    assert pace.eta_seconds(heats_left=3, lanes_left=1) == pytest.approx(3 * 30 + 100)
