"""A worker is cancelled, told to stop, killed; engines die, hang and refuse.
Nothing stays behind."""

import json
import signal
import time

import pytest

from app.domain.snapshot import Snapshot
from app.domain.states import HeatState, LaneState, RunState
from app.store import queue
from tests.acceptance.house import House, is_alive, tree_of, wait_for
from workers.recorder import utc_now

LONG = {"seconds": 60, "max_tokens": 200_000}


def has_ticks(house: House, run_id: str) -> bool:
    """Whether the race is under way."""
    return bool(house.ticks(run_id))


def ended(snapshot: Snapshot) -> bool:
    """Whether the run has ended."""
    return snapshot.run.state in (RunState.FINISHED, RunState.FAILED, RunState.CANCELLED)


def lane_faults(faults: dict[str, object]) -> dict[str, object]:
    """A recipe whose variant's server misbehaves."""
    return {
        "lanes": {"baseline": {}, "mtp-k5": {"k": 5, "args": {"faults": json.dumps(faults)}}},
        "repeats": 1,
    }


def test_cancel_takes_effect_within_two_seconds_and_leaves_no_process(house: House) -> None:
    run_id = house.submit(decode=LONG)

    with house.worker() as worker:
        wait_for(lambda: has_ticks(house, run_id), explain=house.log)
        tree = tree_of(worker.pid)
        asked = time.monotonic()
        house.cancel(run_id)
        house.wait(run_id, ended)
        took = time.monotonic() - asked

        assert house.snapshot(run_id).run.state is RunState.CANCELLED
        assert [process for process in tree if is_alive(process)] == []
        assert took < 2


def test_sigterm_gives_the_run_back_and_ends_politely(house: House) -> None:
    run_id = house.submit(decode=LONG)

    with house.worker() as worker:
        wait_for(lambda: has_ticks(house, run_id), explain=house.log)
        tree = tree_of(worker.pid)
        worker.send_signal(signal.SIGTERM)

        assert worker.wait(20) == 0
        assert [process for process in tree if is_alive(process)] == []
    assert house.snapshot(run_id).run.state is RunState.QUEUED


def test_a_killed_worker_loses_no_tick_and_its_heir_goes_on_from_the_first_unfinished_heat(
    house: House,
) -> None:
    run_id = house.submit(decode={"seconds": 2.5, "max_tokens": 8192}, repeats=2)

    with house.worker() as worker:
        house.wait(run_id, lambda snapshot: snapshot.run.heats_done == 1)
        done_before = wait_for(lambda: _ticks_of_a_second_heat(house, run_id), explain=house.log)
        tree = tree_of(worker.pid)
        worker.kill()
        killed = time.monotonic()
        wait_for(lambda: not any(is_alive(process) for process in tree), 2, house.log)
        assert time.monotonic() - killed < 2
    with house.worker():
        final = house.wait(run_id, lambda snapshot: snapshot if ended(snapshot) else None)

    assert final.run.state is RunState.FINISHED, house.log()
    kept = {tick.id for tick in house.ticks(run_id)}
    assert done_before <= kept
    attempts = [heat.attempt for lane in final.cells[0].lanes.values() for heat in lane.heats]
    assert attempts == [1, 2, 1, 1]
    assert all(
        heat.state is HeatState.DONE
        for lane in final.cells[0].lanes.values()
        for heat in lane.heats
    )


def _ticks_of_a_second_heat(house: House, run_id: str) -> set[int]:
    seen = house.ticks(run_id)
    heats = {tick.heat for tick in seen}
    return {tick.id for tick in seen} if len(heats) > 1 else set()


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"exit_start": {"exit_code": 3}}, "exit code 3"),
        ({"refuse_flags": True}, "unrecognized arguments"),
    ],
)
def test_a_lane_whose_server_does_not_start_fails_and_the_others_go_on(
    house: House, faults: dict[str, object], words: str
) -> None:
    run_id = house.submit(**lane_faults(faults))

    with house.worker():
        final = house.wait(run_id, lambda snapshot: snapshot if ended(snapshot) else None)

    baseline, variant = final.lanes
    assert final.run.state is RunState.FINISHED
    assert baseline.state is LaneState.DONE
    assert variant.state is LaneState.FAILED
    assert variant.failure is not None
    assert words in variant.failure.cause + variant.log_tail
    assert variant.failure.step in ("starting", "loading weights")
    assert variant.log_tail
    assert house.document(run_id)["lanes"][1]["failure"]["cause"] == variant.failure.cause


def test_a_server_that_never_gets_ready_fails_its_lane_in_time(house: House) -> None:
    run_id = house.submit(**lane_faults({"hang_start": True}), ready_seconds=2)

    with house.worker():
        final = house.wait(run_id, lambda snapshot: snapshot if ended(snapshot) else None)

    assert final.lanes[1].failure is not None
    assert "ready in time" in final.lanes[1].failure.cause
    assert final.lanes[0].state is LaneState.DONE


def test_a_server_that_dies_in_mid_heat_voids_it_and_fails_its_lane(house: House) -> None:
    run_id = house.submit(**lane_faults({"die": {"after_tokens": 100}}))

    with house.worker():
        final = house.wait(run_id, lambda snapshot: snapshot if ended(snapshot) else None)

    heat = final.cells[0].lanes["mtp-k5"].heats[0]
    assert "engine-died" in heat.flags
    assert heat.tokens_per_second is None
    assert final.lanes[1].state is LaneState.FAILED
    assert final.lanes[0].state is LaneState.DONE


def test_a_deaf_server_that_leaves_a_grandchild_is_gone_with_all_it_started(house: House) -> None:
    faults = json.dumps({"ignore_sigterm": True, "fork_child": True})
    race = {"race": "b300-sglang-gemma4-26b-a4b", "load-seconds": 0, "faults": faults}
    run_id = house.submit(args=race, decode=LONG)

    with house.worker() as worker:
        wait_for(lambda: has_ticks(house, run_id), explain=house.log)
        tree = tree_of(worker.pid)
        house.cancel(run_id)
        house.wait(run_id, ended)
        assert [process for process in tree if is_alive(process)] == []
        assert len(tree) >= 4  # shim, server, its grandchild, load process


def test_a_second_worker_on_the_same_folder_is_refused(house: House) -> None:
    with house.worker() as worker:
        wait_for(lambda: (house.folder / "data" / "slipstream.db").exists(), explain=house.log)
        refused = house.slipstream("worker")

        assert refused.returncode == 2
        assert f"pid {worker.pid}" in refused.stderr


def test_race_beside_a_worker_lets_that_worker_race(house: House) -> None:
    with house.worker():
        wait_for(lambda: (house.folder / "data" / "slipstream.db").exists(), explain=house.log)
        done = house.slipstream("race", house.write(repeats=1), "--out", house.folder / "out")

    assert done.returncode == 0, done.stderr
    assert (house.folder / "out" / "result.json").exists()


def test_a_run_of_a_silent_worker_is_claimed_after_its_lease(house: House) -> None:
    run_id = house.submit(repeats=1)
    with house.database() as database, database.write() as session:
        queue.claim(session, "gone:1", now=utc_now(), lease_seconds=1, engines=["replay"])

    with house.worker():
        final = house.wait(run_id, lambda snapshot: snapshot if ended(snapshot) else None)

    assert final.run.state is RunState.FINISHED
