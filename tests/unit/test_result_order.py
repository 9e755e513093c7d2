"""Numbers stand under the lane they belong to, whatever the lanes are called."""

import csv
import io
import re

from app.domain import result as documents
from app.domain.heats import HeatSummary, Window
from app.domain.recipe import validate
from app.domain.result import ToolFacts
from app.domain.snapshot import LaneView, Provenance, RunView, Snapshot
from app.domain.states import HeatState, LaneState, RunState
from app.domain.summary import CellView, cell_view, heat_view
from app.web import cells_csv, render, result_view
from app.web.result_view import Share
from tests.builders import NOON

SPEEDS = {"baseline": 100, "mtp-k3": 333, "mtp-k1": 111}
ORDER = list(SPEEDS)  # as raced, and not as the alphabet has it


def make_cell() -> CellView:
    """One cell, three lanes of two heats, each with a speed that names it."""
    heats = [
        heat_view(
            id=number,
            lane=name,
            cell=1,
            ordinal=ordinal,
            attempt=1,
            state=HeatState.DONE,
            summary=HeatSummary(
                tokens=speed * 10,
                seconds=10,
                window=Window(open_s=0, close_s=10, tokens=speed * 10),
            ),
            words=(),
        )
        for number, (name, speed) in enumerate(SPEEDS.items())
        for ordinal in (1, 2)
    ]
    return cell_view(
        id=1, position=0, workload="code", context=0, concurrency=1, lanes=ORDER, heats=heats
    )


def make_run() -> RunView:
    """A finished run."""
    return RunView(
        id="r",
        name="x",
        model="m",
        engine="replay",
        state=RunState.FINISHED,
        provenance=Provenance(kind="measured"),
        created_at=NOON,
        started_at=NOON,
        finished_at=NOON,
    )


def make_document() -> bytes:
    """The stored bytes of that race."""
    specs = {"baseline": {}, "mtp-k3": {"k": 3}, "mtp-k1": {"k": 1}}
    recipe = validate({"name": "x", "model": "m", "engine": "replay", "lanes": specs})
    lanes = tuple(
        LaneView(
            id=place,
            name=name,
            position=place,
            is_baseline=name == "baseline",
            speculates=name != "baseline",
            state=LaneState.DONE,
        )
        for place, name in enumerate(ORDER)
    )
    snapshot = Snapshot(run=make_run(), recipe=recipe, lanes=lanes, cells=(make_cell(),))
    return documents.canonical(documents.build(snapshot, ToolFacts(version="0")))


def test_a_stored_document_comes_back_with_its_lanes_in_the_order_of_the_race() -> None:
    stored = documents.parse(make_document())

    assert list(stored.cells[0].lanes) == ORDER
    assert list(stored.recipe.lanes) == ORDER
    assert documents.canonical(stored) == make_document()


def test_every_number_of_the_result_page_stands_under_its_lane() -> None:
    stored = documents.parse(make_document())
    page = result_view.result_page(
        stored, slug="s", sha256="0" * 64, frozen_at=NOON, share=Share("http://x/r/s", "")
    )
    html = render.render("pages/result.html", page)

    table = html[html.index("Speedup over the baseline") :]
    head = table[table.index("<thead") : table.index("</thead>")]
    body = table[table.index("<tbody") : table.index("</tbody>")]
    names = re.findall(r"baseline|mtp-k[13]", head)
    values = re.findall(r"\b(100|333|111)\b", body)
    assert [SPEEDS[name] for name in dict.fromkeys(names)] == [int(value) for value in values]


def test_every_number_of_the_csv_stands_beside_its_lane() -> None:
    text = cells_csv.render(documents.parse(make_document()))

    rows = list(csv.DictReader(io.StringIO(text)))
    found = {row["lane"]: round(float(row["tokens_per_second"])) for row in rows}
    assert found == SPEEDS
