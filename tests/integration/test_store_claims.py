"""What a claim protects: lanes, heats, ticks and cancels when workers die, fail or come back."""

from sqlmodel import Session

from app.domain.snapshot import Failure
from app.domain.states import HeatState, LaneState, RunState
from app.store import progress, queue, runs, ticks
from app.store.db import Database
from app.store.queue import Claim
from tests.integration.test_store import (
    LATER,
    NOON,
    make_summary,
    make_tick,
    must_claim,
    submit,
)


def test_a_lane_whose_heats_are_all_done_is_done_for_the_heir_too(database: Database) -> None:
    run_id = submit(database)
    dead = must_claim(database)
    with database.read() as session:
        heats = progress.planned(session, run_id, "baseline")
    for heat in heats:
        with database.write() as session:
            progress.heat_begin(session, dead, heat.id, now=NOON)
        with database.write() as session:
            end_heat(session, dead, heat.id)
    with database.write() as session:
        progress.lane_step(session, dead, "baseline", LaneState.STOPPING, "stopping", now=NOON)

    must_claim(database, "gpu-b", at=LATER)

    with database.read() as session:
        lanes = runs.snapshot(session, run_id, now=LATER).lanes
        assert progress.unfinished_lanes(session, run_id) == ["mtp-k3"]
    assert [lane.state for lane in lanes] == [LaneState.DONE, LaneState.WAITING]


def test_a_lane_that_fails_in_mid_heat_takes_that_heat_along(database: Database) -> None:
    run_id = submit(database)
    held = must_claim(database)
    with database.read() as session:
        heat = progress.planned(session, run_id, "baseline")[0]
    with database.write() as session:
        progress.heat_begin(session, held, heat.id, now=NOON)

    with database.write() as session:
        failure = Failure(step="racing", cause="died")
        progress.lane_failed(session, held, "baseline", failure, log_tail="", now=NOON)

    with database.read() as session:
        shown = runs.snapshot(session, run_id, now=NOON)
    states = {heat.state for cell in shown.cells for heat in cell.lanes["baseline"].heats}
    assert states == {HeatState.FAILED}
    assert shown.run.heats_done == 4


def test_a_worker_that_lost_its_run_writes_no_tick(database: Database) -> None:
    run_id = submit(database)
    dead = must_claim(database)
    with database.read() as session:
        heat = progress.planned(session, run_id, "baseline")[0]
    must_claim(database, "gpu-b", at=LATER)

    with database.write() as session:
        written = progress.tick(session, dead, make_tick(run_id, heat.id, heat.cell, "baseline"))

    assert not written
    with database.read() as session:
        assert ticks.after(session, run_id) == []


def test_a_cancel_that_comes_with_the_workers_end_is_not_forgotten(database: Database) -> None:
    run_id = submit(database)
    held = must_claim(database)
    with database.write() as session:
        runs.request_cancel(session, run_id, now=NOON)

    with database.write() as session:
        assert queue.give_back(session, held, now=NOON)

    with database.read() as session:
        assert runs.view(session, run_id, now=NOON).state is RunState.CANCELLED


def test_a_run_whose_worker_is_gone_can_be_cancelled_and_its_worker_may_not_come_back(
    database: Database,
) -> None:
    run_id = submit(database)
    dead = must_claim(database)

    with database.write() as session:
        view = runs.request_cancel(session, run_id, now=LATER)

    assert view.state is RunState.CANCELLED
    with database.write() as session:
        assert not progress.finish(session, dead, RunState.FINISHED, now=LATER)


def test_a_race_that_finishes_closes_a_lane_with_all_its_heats_as_done(
    database: Database,
) -> None:
    run_id = submit(database)
    held = must_claim(database)
    with database.read() as session:
        heats = progress.planned(session, run_id, "baseline")
    for heat in heats:
        with database.write() as session:
            end_heat(session, held, heat.id)
    with database.write() as session:
        progress.lane_step(session, held, "baseline", LaneState.STOPPING, "stopping", now=NOON)

    with database.write() as session:
        assert progress.finish(session, held, RunState.FINISHED, now=NOON)

    with database.read() as session:
        lanes = runs.snapshot(session, run_id, now=NOON).lanes
    assert [lane.state for lane in lanes] == [LaneState.DONE, LaneState.FAILED]


def test_a_run_may_end_with_an_error_that_no_database_takes(database: Database) -> None:
    run_id = submit(database)
    held = must_claim(database)

    with database.write() as session:
        assert progress.finish(session, held, RunState.FAILED, now=NOON, error="a\x00b\ud800")

    with database.read() as session:
        assert runs.view(session, run_id, now=NOON).error == "a\ufffdb\ufffd"


def test_the_ticks_of_some_heats_are_read_without_those_of_the_others(database: Database) -> None:
    run_id = submit(database)
    held = must_claim(database)
    with database.read() as session:
        first, second, third = progress.planned(session, run_id, "baseline")[:3]
    for heat, second_of_heat in ((third, 0), (second, 0), (first, 0), (first, 1)):
        with database.write() as session:
            tick = make_tick(run_id, heat.id, heat.cell, "baseline", second_of_heat)
            assert progress.tick(session, held, tick)

    with database.read() as session:
        found = ticks.of_heats(session, [first.id, third.id])
        none = ticks.of_heats(session, [])

    seen = [(tick.heat, tick.second) for tick in found]
    assert seen == [(third.id, 0), (first.id, 0), (first.id, 1)]
    assert none == []


def end_heat(session: Session, held: Claim, heat: int) -> bool:
    """A heat that counts."""
    return progress.heat_end(
        session,
        held,
        heat,
        HeatState.DONE,
        summary=make_summary(100),
        flags=(),
        error=None,
        now=NOON,
    )
