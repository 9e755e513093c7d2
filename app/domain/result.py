"""The result document: frozen, canonical, known by its sha256;
every page and export is drawn from it."""

import hashlib
import json
from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic import Field

from app.domain.recipe import BASELINE, Recipe
from app.domain.snapshot import Failure, LaneView, Provenance, Snapshot, WarmUp
from app.domain.summary import CellView, LaneCell, View
from app.domain.verdicts import Verdict

T = TypeVar("T")

HIDDEN_URL = "http://hidden"


class ToolFacts(View):
    """Which Slipstream made the document."""

    name: Literal["slipstream"] = "slipstream"
    version: str
    commit: str | None = None


class LaneFacts(View):
    """One lane as it ran."""

    name: str
    is_baseline: bool
    speculates: bool
    drafter: str | None
    k: int | None
    state: str
    argv: tuple[str, ...]
    env: dict[str, str]
    url: str | None
    engine_version: str | None
    max_model_len: int | None
    launch_seconds: float | None
    warmups: tuple[WarmUp, ...]
    failure: Failure | None


class Spark(View):
    """Tokens per second of one lane over its heats in the headline cell, for small drawings."""

    lane: str
    cell: int
    tokens: tuple[int, ...]


class Headline(View):
    """The one sentence of a result and the cell it speaks of."""

    sentence: str
    lane: str | None = None
    cell: int | None = None
    """Position of the cell in `cells`."""
    baseline_tokens_per_second: float | None = None
    lane_tokens_per_second: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: Verdict = Verdict.NONE


class RunFacts(View):
    """The run that was frozen."""

    id: str
    name: str
    state: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Result(View):
    """The document of a finished run. See docs/result-format.md."""

    schema_: Literal["slipstream.result/1"] = Field("slipstream.result/1", alias="schema")
    run: RunFacts
    provenance: Provenance
    recipe: Recipe
    machine: dict[str, Any]
    engine: dict[str, Any]
    lanes: tuple[LaneFacts, ...]
    cells: tuple[CellView, ...]
    headline: Headline
    sparks: tuple[Spark, ...] = ()
    flags: tuple[str, ...] = ()
    tool: ToolFacts

    model_config = View.model_config | {"populate_by_name": True}


def build(snapshot: Snapshot, tool: ToolFacts, sparks: tuple[Spark, ...] = ()) -> Result:
    """The document of a run that has ended. Pure: the same snapshot gives the same document."""
    run = snapshot.run
    cells = tuple(cell.model_copy(update={"id": cell.position}) for cell in snapshot.cells)
    words = {word for cell in cells for lane in cell.lanes.values() for word in lane.flags}
    versions = {lane.engine_version for lane in snapshot.lanes if lane.engine_version}
    return Result(
        schema="slipstream.result/1",
        run=RunFacts(
            id=run.id,
            name=run.name,
            state=run.state.value,
            created_at=run.created_at,
            started_at=run.started_at,
            finished_at=run.finished_at,
        ),
        provenance=run.provenance,
        recipe=_public_recipe(snapshot.recipe),
        machine=snapshot.machine,
        engine={"name": run.engine, "versions": sorted(versions)},
        lanes=tuple(_lane_facts(lane) for lane in snapshot.lanes),
        cells=cells,
        headline=headline(cells),
        sparks=sparks,
        flags=tuple(sorted(words)),
        tool=tool,
    )


def _public_recipe(recipe: Recipe) -> Recipe:
    """The recipe without addresses of servers that were attached: a result is read by strangers."""
    lanes = {
        name: lane.model_copy(update={"url": HIDDEN_URL}) if lane.url else lane
        for name, lane in recipe.lanes.items()
    }
    return recipe.model_copy(update={"lanes": lanes})


def canonical(result: Result) -> bytes:
    """UTF-8 JSON with sorted keys and no spare space: the bytes that are stored,
    served and hashed."""
    data = result.model_dump(mode="json", by_alias=True)
    text = json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def sha256(document: bytes) -> str:
    """Name of a document by its content."""
    return hashlib.sha256(document).hexdigest()


def parse(document: bytes) -> Result:
    """A stored document as a model again, its lanes everywhere in the order they were raced.

    Canonical JSON sorts keys, so a cell's lanes come back in the order of the alphabet: drawn under
    the headings of `lanes`, numbers would stand in the wrong column.
    """
    stored = Result.model_validate_json(document)
    order = [lane.name for lane in stored.lanes]
    cells = tuple(
        cell.model_copy(update={"lanes": _in_order(cell.lanes, order)}) for cell in stored.cells
    )
    recipe = stored.recipe.model_copy(update={"lanes": _in_order(stored.recipe.lanes, order)})
    return stored.model_copy(update={"cells": cells, "recipe": recipe})


def _in_order(lanes: dict[str, T], order: list[str]) -> dict[str, T]:
    return {name: lanes[name] for name in order if name in lanes}


def headline(cells: tuple[CellView, ...]) -> Headline:
    """The strongest thing that an interval supports, and how the lane fares in all other cells.

    Order: faster cells, the largest first; else slower cells, the smallest first; else too close;
    else one heat; else nothing. The tally keeps one good cell from speaking for bad ones.
    """
    best: tuple[tuple[int, float], CellView, str, LaneCell] | None = None
    for cell in cells:
        for name, lane in cell.lanes.items():
            if name == BASELINE or lane.speedup is None or lane.speedup.value is None:
                continue
            judged = lane.speedup
            sign = -1 if judged.verdict is Verdict.SLOWER else 1
            rank = (_RANK[judged.verdict], sign * (judged.value or 0))
            if best is None or rank > best[0]:
                best = (rank, cell, name, lane)
    if best is None:
        return Headline(sentence=_nothing_to_say(cells))
    _, cell, name, lane = best
    said = _speak(cell, name, lane)
    return said.model_copy(update={"sentence": said.sentence + _tally(cells, name)})


_RANK = {
    Verdict.FASTER: 4,
    Verdict.SLOWER: 3,
    Verdict.TOO_CLOSE: 2,
    Verdict.ONE_HEAT: 1,
    Verdict.NONE: 0,
}


def _speak(cell: CellView, name: str, lane: LaneCell) -> Headline:
    judged = lane.speedup
    if judged is None or judged.value is None:
        raise ValueError("only lanes with a speedup are spoken of")
    base = cell.lanes.get(BASELINE)
    where = describe_cell(cell.workload, cell.context, cell.concurrency)
    bounds = (
        f" ({judged.low:.2f}–{judged.high:.2f})"  # en dash of a range
        if judged.low is not None and judged.high is not None
        else ""
    )
    endings = {
        Verdict.TOO_CLOSE: ": too close to call",
        Verdict.ONE_HEAT: ": one heat, no interval",
    }
    sentence = f"{name} is {judged.value:.2f}× baseline{bounds} at {where}"
    return Headline(
        sentence=sentence + endings.get(judged.verdict, "") + ".",
        lane=name,
        cell=cell.position,
        baseline_tokens_per_second=base.tokens_per_second if base else None,
        lane_tokens_per_second=lane.tokens_per_second,
        speedup=judged.value,
        low=judged.low,
        high=judged.high,
        verdict=judged.verdict,
    )


def _tally(cells: tuple[CellView, ...], name: str) -> str:
    """How the lane fares over all cells; empty when there is only one."""
    verdicts = [judged.verdict for cell in cells if (judged := cell.lanes[name].speedup)]
    if len(verdicts) < 2:
        return ""
    words = {
        "faster": verdicts.count(Verdict.FASTER),
        "slower": verdicts.count(Verdict.SLOWER),
        "too close to call": verdicts.count(Verdict.TOO_CLOSE),
        "without a verdict": verdicts.count(Verdict.ONE_HEAT) + verdicts.count(Verdict.NONE),
    }
    parts = [f"{word} in {count}" for word, count in words.items() if count]
    if len(parts) == 1:
        return f" It is {parts[0].rpartition(' in ')[0]} in all {len(verdicts)} cells."
    return f" Of {len(verdicts)} cells it is {', '.join(parts)}."


def describe_cell(workload: str, context: int, concurrency: int) -> str:
    """A cell in words: 'code, 8,192 tokens of context, 4 streams'."""
    streams = "1 stream" if concurrency == 1 else f"{concurrency} streams"
    length = "no context" if context == 0 else f"{context:,} tokens of context"
    return f"{workload}, {length}, {streams}"


def _nothing_to_say(cells: tuple[CellView, ...]) -> str:
    measured = any(
        lane.tokens_per_second is not None for cell in cells for lane in cell.lanes.values()
    )
    if measured:
        return "No lane can be compared with the baseline."
    return "No heat of this run counts."


def _lane_facts(lane: LaneView) -> LaneFacts:
    return LaneFacts(
        name=lane.name,
        is_baseline=lane.is_baseline,
        speculates=lane.speculates,
        drafter=lane.drafter,
        k=lane.k,
        state=lane.state.value,
        argv=lane.argv,
        env=lane.env,
        url=lane.url if lane.argv else None,
        engine_version=lane.engine_version,
        max_model_len=lane.max_model_len,
        launch_seconds=lane.launch_seconds,
        warmups=lane.warmups,
        failure=lane.failure,
    )
