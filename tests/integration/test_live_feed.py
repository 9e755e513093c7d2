"""The live feed on a real server process: late, reconnecting and after the finish, every viewer
gets the same ticks, none missing, none twice."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.store.db import Database
from tests.integration import web_house as house
from tests.integration.web_house import Dashboard, Told


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    opened = house.open_house(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def served(tmp_path: Path, db: Database) -> Iterator[Dashboard]:
    with house.dashboard(tmp_path) as running:
        yield running


def until(told: Iterator[Told], count: int) -> Told:
    return next(each for each in told if len(each.ids) >= count)


def until_farewell(told: Iterator[Told]) -> Told:
    return next(each for each in told if each.farewell)


def test_every_viewer_of_a_race_gets_the_same_ticks(served: Dashboard, db: Database) -> None:
    run_id, token = house.make_run(db), house.bearer(db)
    ids = house.make_ticks(db, run_id, 5)

    with house.watch(served, run_id, token) as early:
        until(early, 5)
        ids += house.make_ticks(db, run_id, 300, first=5)
        with house.watch(served, run_id, token) as late:
            ids += house.make_ticks(db, run_id, 20, first=305)
            house.cancel_run(db, run_id)
            house.freeze_run(db, run_id)
            seen_early, seen_late = until_farewell(early), until_farewell(late)
    with house.watch(served, run_id, token) as afterwards:
        seen_after = until_farewell(afterwards)

    assert seen_early.ids == seen_late.ids == seen_after.ids == ids
    assert seen_early.ticks == seen_late.ticks == seen_after.ticks
    assert {each.farewell for each in (seen_early, seen_late, seen_after)} == {"ended"}
    assert seen_early.snapshots[-1]["run"]["slug"] == seen_after.snapshots[-1]["run"]["slug"]


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_viewer_misses_nothing_when_the_server_is_killed_and_started_again(
    served: Dashboard, db: Database, sign: int
) -> None:
    run_id, token = house.make_run(db), house.bearer(db)
    ids = house.make_ticks(db, run_id, 10)
    with house.watch(served, run_id, token) as first:
        before = until(first, 10)
        served.stop(sign)

    ids += house.make_ticks(db, run_id, 10, first=10)
    served.start()
    back = token | {"Last-Event-ID": str(before.last_id)}
    with house.watch(served, run_id, back) as second:
        until(second, 10)
        ids += house.make_ticks(db, run_id, 10, first=20)
        after = until(second, 20)

    assert before.ids + after.ids == ids


def test_streams_say_goodbye_within_two_seconds_of_sigterm(served: Dashboard, db: Database) -> None:
    run_id, token = house.make_run(db), house.bearer(db)
    house.make_ticks(db, run_id, 3)

    with house.watch(served, run_id, token) as stream:
        until(stream, 3)
        assert served.process is not None
        served.process.send_signal(signal.SIGTERM)
        told = until_farewell(stream)
    seconds = served.stop()

    assert told.farewell == "shutdown"
    assert seconds < 2
    assert "Traceback" not in served.log
    assert served.process.returncode in (0, -signal.SIGTERM)


def test_a_stream_starts_after_the_id_that_is_asked_for(served: Dashboard, db: Database) -> None:
    run_id, token = house.make_run(db), house.bearer(db)
    ids = house.make_ticks(db, run_id, 6)
    house.cancel_run(db, run_id)
    house.freeze_run(db, run_id)

    with house.watch(served, run_id, token, f"?after={ids[1]}") as asked:
        by_query = until_farewell(asked).ids
    header = token | {"Last-Event-ID": str(ids[3])}
    with house.watch(served, run_id, header, f"?after={ids[1]}") as resumed:
        by_header = until_farewell(resumed).ids

    assert (by_query, by_header) == (ids[2:], ids[4:])


def test_snapshots_come_first_and_again_with_every_change(served: Dashboard, db: Database) -> None:
    run_id, token = house.make_run(db), house.bearer(db)

    with house.watch(served, run_id, token) as stream:
        first = next(stream).snapshots[-1]["run"]["state"]
        house.cancel_run(db, run_id)
        told = until_farewell(stream)

    assert first == "queued"
    assert told.snapshots[-1]["run"]["state"] == "cancelled"
    assert told.ids == []


def test_a_deleted_run_ends_its_streams(served: Dashboard, db: Database) -> None:
    run_id, token = house.make_run(db), house.bearer(db)

    with house.watch(served, run_id, token) as stream:
        next(stream)
        house.cancel_run(db, run_id)
        deleted = httpx.delete(f"{served.url}/api/v1/runs/{run_id}", headers=token)
        told = until_farewell(stream)

    assert deleted.status_code == 204
    assert told.farewell == "ended"


def test_viewers_beyond_the_limit_are_told_to_come_later(tmp_path: Path, db: Database) -> None:
    run_id, token = house.make_run(db), house.bearer(db)
    with house.dashboard(tmp_path, SLIPSTREAM_MAX_VIEWERS="1") as served:
        url = f"{served.url}/api/v1/runs/{run_id}/events"
        with house.watch(served, run_id, token) as stream:
            next(stream)
            full = httpx.get(url, headers=token)

        with house.watch(served, run_id, token) as stream:
            next(stream)

    assert full.status_code == 503
    assert full.headers["retry-after"] == "10"
    assert full.headers["content-type"] == "application/problem+json"
