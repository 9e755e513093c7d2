"""Which ticks the live page reads: those of the cell it shows, not the whole run's."""

from app.store import progress, runs
from app.store.db import Database
from app.web import pages
from tests.integration.test_store import NOON, make_tick, must_claim, submit


def test_the_live_page_reads_the_shown_cell_and_the_newest_heat_only(database: Database) -> None:
    run_id = submit(database)
    held = must_claim(database)
    with database.read() as session:
        heats = progress.planned(session, run_id, "baseline")
    shown, other, newest = heats[0], heats[2], heats[3]
    for heat in (shown, other, newest):
        with database.write() as session:
            tick = make_tick(run_id, heat.id, heat.cell, "baseline")
            assert progress.tick(session, held, tick)

    with database.read() as session:
        snapshot = runs.snapshot(session, run_id, now=NOON)
    found = pages.shown_ticks(database, snapshot, shown.position)

    assert [tick.heat for tick in found] == [shown.id, newest.id]


def test_a_race_without_ticks_reads_none(database: Database) -> None:
    run_id = submit(database)

    with database.read() as session:
        snapshot = runs.snapshot(session, run_id, now=NOON)

    assert pages.shown_ticks(database, snapshot, None) == []
