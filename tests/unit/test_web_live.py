"""Queues, encoding and endings of the live feed, without a server."""

import asyncio
from datetime import timedelta

import pytest

from app.domain.states import RunState
from app.domain.ticks import Tick
from app.web import wire
from app.web.live import SETTLE_SECONDS, Viewer, is_over
from tests.builders import NOON, make_snapshot


def tick(id: int) -> wire.Event:
    text = "a\nb\r\n\u2028c"
    second = dict(run="r", lane="baseline", cell=1, heat=1, second=id, tokens=1, in_flight=1)
    return wire.tick_event(Tick(id=id, text=text, **second))


def test_a_tick_carries_its_id_and_stays_on_one_line() -> None:
    event = tick(7)

    lines = event.wire.decode().split("\n")
    assert lines[:2] == ["id: 7", "event: tick"]
    assert lines[2].startswith('data: {"id":7,')
    assert lines[3:] == ["", ""]


def test_a_snapshot_has_no_id_so_that_nobody_resumes_from_it() -> None:
    event = wire.snapshot_event(make_snapshot())

    assert event.wire.startswith(b"event: snapshot\n")


def test_what_was_seen_is_not_sent_again() -> None:
    events = [tick(1), tick(2), tick(3), wire.farewell("ended")]

    assert wire.unseen(events, tick=2, version=0) == events[2:]


def test_older_snapshots_are_not_sent_after_newer_ones() -> None:
    old, new = (wire.Event(b"", version=version) for version in (4, 5))

    assert wire.unseen([old, new], tick=0, version=4) == [new]


def test_a_viewer_that_lags_too_far_is_told_so_at_once() -> None:
    viewer = Viewer("r", asyncio.Queue(2))

    taken = [viewer.offer(tick(number)) for number in range(3)]

    assert taken == [True, True, False]
    assert viewer.queue.get_nowait() == wire.farewell("slow")
    assert viewer.queue.empty()
    assert viewer.is_dismissed


@pytest.mark.parametrize(
    ("state", "slug", "ended_seconds_ago", "expected"),
    [
        (RunState.RUNNING, None, 0, False),
        (RunState.FINISHED, None, 0, False),
        (RunState.FINISHED, "a-slug", 0, True),
        (RunState.FAILED, None, SETTLE_SECONDS + 1, True),
    ],
)
def test_a_run_is_over_once_it_is_frozen_or_had_its_time(
    state: RunState, slug: str | None, ended_seconds_ago: float, expected: bool
) -> None:
    finished = NOON - timedelta(seconds=ended_seconds_ago)
    run = make_snapshot().run.model_copy(
        update={"state": state, "slug": slug, "finished_at": finished}
    )

    assert is_over(run, NOON) is expected
