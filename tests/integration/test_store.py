"""The store on a real SQLite file: queue, progress, ticks, results, tokens."""

from datetime import UTC, datetime, timedelta

import pytest

from app.domain import result as documents
from app.domain.acceptance import Acceptance
from app.domain.errors import ConflictError, NotFoundError
from app.domain.heats import HeatSummary, Window
from app.domain.recipe import Recipe, validate
from app.domain.result import ToolFacts
from app.domain.snapshot import Failure, Provenance
from app.domain.states import HeatState, LaneState, RunState
from app.domain.ticks import Tick
from app.store import progress, queue, results, runs, ticks, tokens, workers
from app.store.db import Database
from app.store.queue import Claim
from app.store.tokens import TokenKind

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LATER = NOON + timedelta(seconds=60)
MEASURED = Provenance(kind="measured")
TOOL = ToolFacts(version="0.1.0")


def make_recipe(**changes: object) -> Recipe:
    """Two lanes, two cells, two heats."""
    data = {
        "name": "A race",
        "model": "m",
        "engine": "replay",
        "lanes": {"baseline": {}, "mtp-k3": {"k": 3}},
        "matrix": {"contexts": [0], "concurrency": [1, 4]},
        "repeats": 2,
    }
    return validate(data | changes)


def submit(database: Database, *, at: datetime = NOON, **changes: object) -> str:
    """A queued run."""
    with database.write() as session:
        return runs.submit(session, make_recipe(**changes), provenance=MEASURED, now=at).run_id


def claim(database: Database, worker: str = "gpu-a", *, at: datetime = NOON) -> Claim | None:
    """What the queue gives this worker."""
    with database.write() as session:
        return queue.claim(session, worker, now=at, lease_seconds=15, engines=["replay"])


def must_claim(database: Database, worker: str = "gpu-a", *, at: datetime = NOON) -> Claim:
    """A claim that is there."""
    held = claim(database, worker, at=at)
    assert held is not None
    return held


def make_summary(tokens_per_second: float, drafts: int = 0) -> HeatSummary:
    """A heat of ten seconds."""
    counts = Acceptance(drafts=drafts, drafted=3 * drafts, accepted=2 * drafts) if drafts else None
    return HeatSummary(
        tokens=int(tokens_per_second * 10),
        seconds=10,
        window=Window(open_s=0, close_s=10, tokens=tokens_per_second * 10),
        acceptance=counts,
    )


def drive(database: Database, held: Claim, lane: str, speed: float) -> None:
    """Drive all heats of a lane at a speed."""
    with database.read() as session:
        heats = progress.planned(session, held.run_id, lane)
    for heat in heats:
        with database.write() as session:
            assert progress.heat_begin(session, held, heat.id, now=NOON)
        with database.write() as session:
            ticks.append(session, make_tick(held.run_id, heat.id, heat.cell, lane))
        with database.write() as session:
            assert progress.heat_end(
                session,
                held,
                heat.id,
                HeatState.DONE,
                summary=make_summary(speed * heat.concurrency),
                flags=(),
                error=None,
                now=NOON,
            )
    with database.write() as session:
        assert progress.lane_done(session, held, lane, log_tail="", now=NOON)


def make_tick(run: str, heat: int, cell: int, lane: str, second: int = 0) -> Tick:
    """One second with 100 tokens."""
    return Tick(
        run=run, lane=lane, cell=cell, heat=heat, second=second, tokens=100, in_flight=1, text="é"
    )


def test_claim_gives_the_oldest_run_to_one_worker_only(database: Database) -> None:
    oldest = submit(database)
    submit(database, at=LATER)

    first = claim(database, "gpu-a", at=LATER)
    second = claim(database, "gpu-b", at=LATER)
    third = claim(database, "gpu-c", at=LATER)

    assert first is not None
    assert first.run_id == oldest
    assert second is not None
    assert second.run_id != oldest
    assert third is None


def test_a_worker_gets_only_runs_of_engines_it_has(database: Database) -> None:
    submit(database)

    with database.write() as session:
        held = queue.claim(session, "gpu-a", now=NOON, lease_seconds=15, engines=["vllm"])

    assert held is None


def test_a_silent_worker_loses_its_run_and_its_writes(database: Database) -> None:
    submit(database)
    dead = must_claim(database, "gpu-a")

    heir = must_claim(database, "gpu-b", at=LATER)

    with database.write() as session:
        assert not queue.renew(session, dead, now=LATER, lease_seconds=15).is_ours
        assert queue.renew(session, heir, now=LATER, lease_seconds=15).is_ours
        assert not progress.finish(session, dead, RunState.FINISHED, now=LATER)


def test_an_interrupted_heat_keeps_its_ticks_and_is_driven_again(database: Database) -> None:
    run_id = submit(database)
    dead = must_claim(database)
    with database.read() as session:
        heat = progress.planned(session, run_id, "baseline")[0]
    with database.write() as session:
        progress.lane_step(session, dead, "baseline", LaneState.RACING, "racing", now=NOON)
        progress.heat_begin(session, dead, heat.id, now=NOON)
        ticks.append(session, make_tick(run_id, heat.id, heat.cell, "baseline"))

    must_claim(database, "gpu-b", at=LATER)

    with database.read() as session:
        again = progress.planned(session, run_id, "baseline")[0]
        kept = ticks.after(session, run_id)
    assert (again.ordinal, again.attempt, again.position) == (heat.ordinal, 2, heat.position)
    assert [tick.heat for tick in kept] == [heat.id]


def test_the_same_key_gives_the_same_run_and_another_request_is_refused(
    database: Database,
) -> None:
    def send(body: str) -> runs.Submitted:
        with database.write() as session:
            return runs.submit(
                session,
                make_recipe(),
                provenance=MEASURED,
                now=NOON,
                idempotency_key="k",
                request_sha256=body,
            )

    first, again = send("a"), send("a")

    assert (again.run_id, first.is_new, again.is_new) == (first.run_id, True, False)
    with pytest.raises(ConflictError, match="another request"):
        send("b")


def test_cancelling_a_queued_run_ends_it_at_once(database: Database) -> None:
    run_id = submit(database)

    with database.write() as session:
        view = runs.request_cancel(session, run_id, now=NOON)

    assert view.state is RunState.CANCELLED
    assert claim(database) is None


def test_cancelling_a_running_run_tells_its_worker(database: Database) -> None:
    run_id = submit(database)
    held = must_claim(database)

    with database.write() as session:
        runs.request_cancel(session, run_id, now=NOON)

    with database.write() as session:
        renewal = queue.renew(session, held, now=NOON, lease_seconds=15)
    assert (renewal.is_ours, renewal.is_cancelled) == (True, True)


def test_an_ended_run_cannot_be_cancelled_and_a_running_one_not_deleted(
    database: Database,
) -> None:
    run_id = submit(database)
    held = must_claim(database)
    with pytest.raises(ConflictError), database.write() as session:
        runs.delete(session, run_id)

    with database.write() as session:
        progress.finish(session, held, RunState.FINISHED, now=NOON)

    with pytest.raises(ConflictError), database.write() as session:
        runs.request_cancel(session, run_id, now=NOON)
    with database.write() as session:
        runs.delete(session, run_id)
    with pytest.raises(NotFoundError), database.read() as session:
        runs.snapshot(session, run_id, now=NOON)


def test_a_failed_lane_fails_its_own_heats_only(database: Database) -> None:
    run_id = submit(database)
    held = must_claim(database)
    failure = Failure(step="loading weights", cause="no memory")

    with database.write() as session:
        progress.lane_failed(session, held, "baseline", failure, log_tail="oops", now=NOON)

    with database.read() as session:
        assert progress.unfinished_lanes(session, run_id) == ["mtp-k3"]
        shown = runs.snapshot(session, run_id, now=NOON)
    assert shown.lanes[0].failure == failure
    assert shown.run.heats_done == 4


def test_a_finished_race_is_frozen_once_with_its_speedups(database: Database) -> None:
    run_id = submit(database)
    held = must_claim(database)
    drive(database, held, "baseline", 100)
    drive(database, held, "mtp-k3", 180)

    with database.write() as session:
        progress.finish(session, held, RunState.FINISHED, now=NOON)
        first = results.freeze(session, run_id, tool=TOOL, now=NOON)
    with database.write() as session:
        again = results.freeze(session, run_id, tool=TOOL, now=LATER)

    document = documents.parse(first.document)
    assert again == first
    assert documents.canonical(document) == first.document
    assert documents.sha256(first.document) == first.sha256
    assert document.headline.speedup == pytest.approx(1.8)
    assert [spark.tokens for spark in document.sparks] == [(100,), (100,)]
    assert first.sentence.startswith("mtp-k3 is 1.80× baseline")


def test_ticks_come_back_in_order_none_twice(database: Database) -> None:
    run_id = submit(database)
    held = must_claim(database)
    with database.read() as session:
        heat = progress.planned(session, run_id, "baseline")[0]
    sent = [make_tick(run_id, heat.id, heat.cell, "baseline", second) for second in range(5)]

    for tick in sent:
        with database.write() as session:
            ticks.append(session, tick)

    with database.read() as session:
        page = ticks.after(session, run_id, limit=2)
        rest = ticks.after(session, run_id, page[-1].id)
    assert [tick.model_copy(update={"id": 0}) for tick in (*page, *rest)] == sent
    assert held.run_id == run_id


def test_every_write_raises_the_version_that_viewers_watch(database: Database) -> None:
    run_id = submit(database)
    held = must_claim(database)
    with database.read() as session:
        before = runs.marks(session, [run_id])[run_id]

    with database.write() as session:
        progress.lane_facts(session, held, "baseline", {"url": "http://127.0.0.1:1"})

    with database.read() as session:
        after = runs.marks(session, [run_id, "gone"])
    assert list(after) == [run_id]
    assert after[run_id].version > before.version


def test_runs_are_listed_newest_first_in_pages(database: Database) -> None:
    ids = [submit(database, at=NOON + timedelta(seconds=n)) for n in range(5)]

    with database.read() as session:
        first = runs.list_runs(session, now=NOON, limit=2)
        second = runs.list_runs(session, now=NOON, limit=2, cursor=first.next_cursor)
        third = runs.list_runs(session, now=NOON, limit=2, cursor=second.next_cursor)

    seen = [run.id for page in (first, second, third) for run in page.runs]
    assert seen == ids[::-1]
    assert third.next_cursor is None
    assert [run.queue_position for run in first.runs] == [5, 4]


def test_a_link_opens_one_session_once(database: Database) -> None:
    with database.write() as session:
        link = tokens.mint(session, TokenKind.LINK, now=NOON, ttl=timedelta(minutes=5))

    def redeem(at: datetime) -> str | None:
        with database.write() as session:
            return tokens.redeem_link(session, link, now=at, session_ttl=timedelta(hours=1))

    secret = redeem(NOON)

    assert secret is not None
    assert redeem(NOON) is None
    with database.read() as session:
        assert tokens.is_valid(session, secret, TokenKind.SESSION, now=NOON)
        assert not tokens.is_valid(session, secret, TokenKind.BEARER, now=NOON)
        assert not tokens.is_valid(
            session, secret, TokenKind.SESSION, now=NOON + timedelta(hours=2)
        )


def test_an_expired_link_opens_nothing(database: Database) -> None:
    with database.write() as session:
        link = tokens.mint(session, TokenKind.LINK, now=NOON, ttl=timedelta(seconds=5))

    with database.write() as session:
        assert tokens.redeem_link(session, link, now=LATER, session_ttl=timedelta(hours=1)) is None


def test_living_workers_are_those_heard_of_lately(database: Database) -> None:
    def beat(name: str, at: datetime) -> None:
        with database.write() as session:
            workers.beat(
                session, workers.WorkerView(name, "host", 1, NOON, at, {"replay": {}}, [], None)
            )

    beat("old", NOON)
    beat("new", LATER)

    with database.read() as session:
        living = workers.living(session, now=LATER)
    assert [worker.name for worker in living] == ["new"]
