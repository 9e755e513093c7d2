"""Frozen results: written once, read for ever."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select as sqlalchemy_select
from sqlmodel import Session, col, select

from app.domain import result as documents
from app.domain.errors import ConflictError, NotFoundError
from app.domain.recipe import BASELINE
from app.domain.result import Spark, ToolFacts
from app.domain.snapshot import Snapshot
from app.domain.states import ENDED_RUNS, RunState
from app.store import names, progress, runs, ticks
from app.store.queue import Claim
from app.store.tables import ResultRow


@dataclass(frozen=True)
class Frozen:
    """A stored document and what is known of it without reading it."""

    slug: str
    run_id: str
    sha256: str
    document: bytes
    created_at: datetime
    title: str
    sentence: str
    provenance: str


@dataclass(frozen=True)
class ResultCard:
    """A result in a list."""

    slug: str
    run_id: str
    title: str
    sentence: str
    provenance: str
    created_at: datetime
    sha256: str


def finish(
    session: Session,
    held: Claim,
    state: RunState,
    *,
    tool: ToolFacts,
    now: datetime,
    error: str | None = None,
) -> bool:
    """Close the run and freeze it in one transaction: nobody sees an ended race without its result.

    A cancelled run is closed and not frozen. False when the run is no longer ours.
    """
    if not progress.finish(session, held, state, now=now, error=error):
        return False
    if state is not RunState.CANCELLED:
        freeze(session, held.run_id, tool=tool, now=now)
    return True


def freeze(session: Session, run_id: str, *, tool: ToolFacts, now: datetime) -> Frozen:
    """Write the document of an ended run; a run that is frozen already keeps its first document."""
    known = of_run(session, run_id)
    if known is not None:
        return known
    session.flush()
    snapshot = runs.snapshot(session, run_id, now=now)
    if snapshot.run.state not in ENDED_RUNS:
        raise ConflictError(
            f"Run {run_id} is {snapshot.run.state}.", remedy="Wait until it has ended."
        )
    built = documents.build(snapshot, tool, _sparks(session, snapshot))
    document = documents.canonical(built)
    row = ResultRow(
        slug=names.slug(snapshot.run.name, run_id),
        run_id=run_id,
        sha256=documents.sha256(document),
        document=document,
        created_at=now,
        title=snapshot.run.name,
        sentence=built.headline.sentence,
        provenance=built.provenance.kind,
    )
    session.add(row)
    runs.touch(runs.get(session, run_id))
    return _frozen(row)


def get(session: Session, slug: str) -> Frozen:
    """The document behind /r/{slug}; NotFoundError when there is none."""
    return _frozen(_row(session, slug))


def of_run(session: Session, run_id: str) -> Frozen | None:
    """The document of a run; None while it has none."""
    row = session.exec(select(ResultRow).where(ResultRow.run_id == run_id)).first()
    return _frozen(row) if row is not None else None


def list_results(session: Session, *, limit: int = 50) -> tuple[ResultCard, ...]:
    """The newest results, without their documents."""
    rows = session.execute(
        sqlalchemy_select(
            col(ResultRow.slug),
            col(ResultRow.run_id),
            col(ResultRow.title),
            col(ResultRow.sentence),
            col(ResultRow.provenance),
            col(ResultRow.created_at),
            col(ResultRow.sha256),
        )
        .order_by(col(ResultRow.created_at).desc())
        .limit(limit)
    )
    return tuple(ResultCard(*row) for row in rows)


def delete(session: Session, slug: str) -> None:
    """Remove a result for good."""
    session.delete(_row(session, slug))


def _row(session: Session, slug: str) -> ResultRow:
    row = session.get(ResultRow, slug)
    if row is None:
        raise NotFoundError(f"There is no result {slug[:80]!r}.", remedy="Check the link.")
    return row


def _sparks(session: Session, snapshot: Snapshot) -> tuple[Spark, ...]:
    """Seconds of the first standing heat of the headline's two lanes."""
    head = documents.headline(snapshot.cells)
    if head.cell is None or head.lane is None:
        return ()
    cell = next(cell for cell in snapshot.cells if cell.position == head.cell)
    sparks = []
    for name in (BASELINE, head.lane):
        standing = [h for h in cell.lanes[name].heats if h.tokens_per_second is not None]
        if standing:
            tokens = tuple(ticks.tokens_of_heat(session, standing[0].id))
            sparks.append(Spark(lane=name, cell=cell.position, tokens=tokens))
    return tuple(sparks)


def _frozen(row: ResultRow) -> Frozen:
    return Frozen(
        slug=row.slug,
        run_id=row.run_id,
        sha256=row.sha256,
        document=row.document,
        created_at=row.created_at,
        title=row.title,
        sentence=row.sentence,
        provenance=row.provenance,
    )
