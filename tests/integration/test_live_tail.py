"""The tail in this process: what it asks of the database, and what it does with slow viewers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from app.store.db import Database
from app.web.live import Tail, Viewer
from app.web.wire import Event, farewell
from tests.integration import web_house as house


@asynccontextmanager
async def tailing(db: Database, folder: Path, **changes: Any) -> AsyncIterator[Tail]:
    settings = house.settings_for(folder, live_poll_seconds=0.01, **changes)
    tail = Tail(db, settings, house.now)
    task = asyncio.create_task(tail.run())
    try:
        yield tail
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        db.close()


async def ticks_of(viewer: Viewer, count: int) -> list[Event]:
    told: list[Event] = []
    while len(told) < count:
        news = await asyncio.wait_for(viewer.queue.get(), house.DEADLINE_SECONDS)
        told += [news] if news.tick else []
    return told


async def farewell_of(viewer: Viewer) -> Event:
    while True:
        news = await asyncio.wait_for(viewer.queue.get(), house.DEADLINE_SECONDS)
        if news.is_last:
            return news


async def test_each_event_is_encoded_once_for_all_viewers(tmp_path: Path) -> None:
    db = house.open_house(tmp_path)
    run_id = house.make_run(db)

    async with tailing(db, tmp_path) as tail:
        viewers = [await tail.join(run_id) for _ in range(3)]
        house.make_ticks(db, run_id, 4)
        told = [await ticks_of(viewer, 4) for viewer in viewers]

    assert all(mine is first for other in told for mine, first in zip(other, told[0], strict=True))


async def test_a_slow_viewer_is_dropped_and_the_others_go_on(tmp_path: Path) -> None:
    db = house.open_house(tmp_path)
    run_id = house.make_run(db)

    async with tailing(db, tmp_path, viewer_queue=8) as tail:
        slow, quick = await tail.join(run_id), await tail.join(run_id)
        told = []
        for second in range(0, 20, 4):
            house.make_ticks(db, run_id, 4, first=second)
            told += await ticks_of(quick, 4)
        last = await farewell_of(slow)

    assert [tick.tick for tick in told] == sorted({tick.tick for tick in told})
    assert last == farewell("slow")


async def test_nothing_is_asked_of_the_database_while_nobody_watches(tmp_path: Path) -> None:
    db = house.open_house(tmp_path)
    run_id = house.make_run(db)
    asked: list[str] = []

    async with tailing(db, tmp_path) as tail:
        viewer = await tail.join(run_id)
        house.make_ticks(db, run_id, 1)
        await ticks_of(viewer, 1)
        tail.leave(viewer)
        await asyncio.sleep(0.05)  # the look that may be under way
        event.listen(db.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
        await asyncio.sleep(0.1)

    assert asked == []
    assert tail.viewers == 0


async def test_only_the_change_mark_is_asked_while_nothing_happens(tmp_path: Path) -> None:
    db = house.open_house(tmp_path)
    run_id = house.make_run(db)
    asked: list[str] = []

    async with tailing(db, tmp_path) as tail:
        viewer = await tail.join(run_id)
        house.make_ticks(db, run_id, 1)
        await ticks_of(viewer, 1)
        await asyncio.sleep(0.05)
        event.listen(db.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
        await asyncio.sleep(0.1)

    assert {text for text in asked if not text.startswith("BEGIN")} == {"PRAGMA data_version"}


async def test_the_feed_survives_a_database_that_fails_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = house.open_house(tmp_path)
    run_id = house.make_run(db)
    failures = [RuntimeError("disk I/O error")]
    ask = db.change_mark

    def fail_once(connection: Any) -> object:
        if failures:
            raise failures.pop()
        return ask(connection)

    monkeypatch.setattr(db, "change_mark", fail_once)
    async with tailing(db, tmp_path) as tail:
        viewer = await tail.join(run_id)
        ids = house.make_ticks(db, run_id, 3)
        told = await ticks_of(viewer, 3)

    assert [tick.tick for tick in told] == ids


async def test_viewers_who_come_and_go_in_a_storm_miss_nothing(tmp_path: Path) -> None:
    db = house.open_house(tmp_path)
    run_id = house.make_run(db)

    async def follow(tail: Tail) -> list[int]:
        viewer = await tail.join(run_id)
        backlog = [each.tick for each in await tail.backlog(run_id, 0)]
        while len(backlog) < 60:
            news = await asyncio.wait_for(viewer.queue.get(), house.DEADLINE_SECONDS)
            backlog += [news.tick] if news.tick > max(backlog, default=0) else []
        tail.leave(viewer)
        return backlog

    async with tailing(db, tmp_path) as tail:
        following = []
        ids: list[int] = []
        for second in range(60):
            ids += await asyncio.to_thread(house.make_ticks, db, run_id, 1, first=second)
            following.append(asyncio.create_task(follow(tail)))
        told = await asyncio.gather(*following)

    assert all(each == ids for each in told)
