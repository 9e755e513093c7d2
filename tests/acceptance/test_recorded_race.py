"""A race that Slipstream recorded can be played again, and says whose recording it plays."""

import json

import pytest

from app.domain.errors import RecipeError
from app.domain.recipe import validate
from app.store import cards
from tests.acceptance.house import House, make_recipe


def test_a_recorded_result_is_played_at_its_own_speed(house: House) -> None:
    house.slipstream("race", house.write(repeats=1), "--out", house.folder / "first")
    recording = house.folder / "first" / "result.json"
    first = json.loads(recording.read_text())
    first["provenance"] = {"kind": "measured", "plays": None, "hardware": None}
    recording.write_text(json.dumps(first))

    args = {"race": str(recording), "load-seconds": 0}
    done = house.slipstream("race", house.write(repeats=1, args=args), "--json")

    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    assert again["provenance"]["kind"] == "replay"
    assert "A short replay (recorded by Slipstream" in again["provenance"]["plays"]
    for lane in ("baseline", "mtp-k5"):
        recorded = first["cells"][0]["lanes"][lane]["tokens_per_second"]
        assert again["cells"][0]["lanes"][lane]["tokens_per_second"] == pytest.approx(
            recorded, rel=0.1
        )


def test_a_file_of_the_host_cannot_be_named_over_http() -> None:
    recipe = validate(make_recipe(args={"race": "/etc/hostname.json"}))

    with pytest.raises(RecipeError, match="is not a published race"):
        cards.provenance_of(recipe)


def test_a_file_that_is_no_recording_is_refused(house: House) -> None:
    file = house.folder / "notes.json"
    file.write_text("{}")

    done = house.slipstream("race", house.write(args={"race": str(file)}))

    assert done.returncode == 2
    assert "is not a recorded race" in done.stderr
