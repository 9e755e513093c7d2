"""The race book: reads a published or recorded race and answers what one lane did. Knows nothing
of playing it.

    published/FILE.json#RACE_ID   schema slipstream.published/1, see docs/published.md
    result.json                   a recorded race: the same cells, its source is the run itself

Between recorded cells the aggregate speed is linear in the logarithm of the concurrency, then
linear in context; beyond the ends the nearest cell counts. Nothing is extrapolated.
"""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.domain.errors import SlipstreamError
from workers.replay.acceptance import blend, geometric

DEFAULT_FIRST_TOKEN_SECONDS = 0.03  # where no prefill was recorded: a short prompt's first token
DEFAULT_PREFILL_TOKENS_PER_SECOND = 10_000.0  # where no prefill was recorded


class BookError(SlipstreamError):
    """The race cannot be played; the message names the cure."""


@dataclass(frozen=True)
class Play:
    """What a lane does at one context and concurrency."""

    tokens_per_second: float  # aggregate over all streams
    per_position: tuple[float, ...]  # empty without speculation


@dataclass(frozen=True)
class Point:
    workload: str
    workload_class: str | None
    context: int
    concurrency: int
    play: Play


@dataclass(frozen=True)
class Book:
    """One lane of one race, ready to be asked."""

    race_id: str
    title: str
    lane: str
    k: int  # 0 in a lane without speculation
    source: dict[str, Any]
    points: tuple[Point, ...]
    prefill: tuple[tuple[int, float], ...]  # (context tokens, seconds to first token), ascending

    def play(self, context: float, concurrency: float, workload: str | None = None) -> Play:
        """The recorded play at this point; without a workload, time per token averaged over
        workloads.
        """
        groups: dict[str, list[Point]] = defaultdict(list)
        for point in self.points:
            groups[point.workload].append(point)
        named = [
            points
            for name, points in groups.items()
            if workload is not None and workload in (name, points[0].workload_class)
        ]
        return _average([_at(points, context, concurrency) for points in named or groups.values()])

    def prefill_seconds(self, prompt_tokens: int) -> float:
        """Seconds of prefill work, beyond the fixed DEFAULT_FIRST_TOKEN_SECONDS."""
        if not self.prefill:
            return prompt_tokens / DEFAULT_PREFILL_TOKENS_PER_SECOND
        known = [(0, DEFAULT_FIRST_TOKEN_SECONDS), *self.prefill]
        last_context, last_seconds = known[-1]
        if prompt_tokens > last_context:  # nearest beyond the end: the last recorded speed
            seconds = last_seconds * prompt_tokens / last_context
        else:
            seconds = _linear(known, prompt_tokens)
        return max(0.0, seconds - DEFAULT_FIRST_TOKEN_SECONDS)


def open_book(reference: str, lane: str) -> Book:
    """Read FILE[#RACE_ID] and pick one lane; BookError says what is wrong and what there is."""
    name, _, race_id = reference.partition("#")
    try:
        document = json.loads(Path(name).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BookError(
            f"cannot read the race {name}: {error}; give --race FILE[#RACE_ID]"
        ) from error
    race = _pick_race(document, race_id, name)
    lanes = _lanes_by_name(race)
    if lane not in lanes:
        raise BookError(f"race {race['id']} has no lane {lane!r}; it has {', '.join(lanes)}")
    points = tuple(_points(race, lane, lanes[lane]))
    if not points:
        raise BookError(
            f"lane {lane!r} of race {race['id']} has no speed to play; choose another lane"
        )
    return Book(
        race_id=race["id"],
        title=str(race.get("title") or race["id"]),
        lane=lane,
        k=len(points[0].play.per_position),
        source=_source(document, race),
        points=points,
        prefill=tuple(_prefill(race, lane)),
    )


def _pick_race(document: Any, race_id: str, name: str) -> dict[str, Any]:
    if not isinstance(document, dict) or not (document.get("races") or document.get("cells")):
        raise BookError(f"{name} holds no race; give a file of published/ or a result.json")
    if "races" not in document:
        return {"id": str(document.get("run", {}).get("id", "recorded")), **document}
    playable = {race["id"]: race for race in document["races"] if race["playable"]}
    by_id = {race["id"]: race for race in document["races"]}
    if race_id and race_id not in by_id:
        raise BookError(f"{name} has no race {race_id!r}; it has {', '.join(by_id)}")
    chosen = by_id[race_id] if race_id else next(iter(playable.values()), document["races"][0])
    if not chosen["playable"]:
        raise BookError(f"race {chosen['id']} cannot be played: {chosen['why_not']}")
    return dict(chosen)


def _lanes_by_name(race: dict[str, Any]) -> dict[str, dict[str, Any]]:
    lanes = race["lanes"]
    return lanes if isinstance(lanes, dict) else {lane["name"]: lane for lane in lanes}


def _source(document: dict[str, Any], race: dict[str, Any]) -> dict[str, Any]:
    if "source" in document:
        return {"kind": "published", **document["source"]}
    title = str(document.get("recipe", {}).get("name", race["id"]))
    return {"title": title, "kind": "recorded", "hardware": document.get("machine")}


def _points(race: dict[str, Any], name: str, lane: dict[str, Any]) -> list[Point]:
    found = []
    for cell in race["cells"]:
        figures = cell["lanes"].get(name) or {}
        if not figures.get("tokens_per_second"):
            continue
        play = Play(float(figures["tokens_per_second"]), _profile(figures, lane, cell))
        found.append(
            Point(
                workload=str(cell["workload"]),
                workload_class=cell.get("workload_class"),
                context=int(cell["context"]),
                concurrency=int(cell["concurrency"]),
                play=play,
            )
        )
    return found


def _profile(
    figures: dict[str, Any], lane: dict[str, Any], cell: dict[str, Any]
) -> tuple[float, ...]:
    acceptance = figures.get("acceptance")
    if not acceptance:
        if lane.get("k"):
            raise BookError(
                f"the lane with k = {lane['k']} has no acceptance at context {cell['context']}, "
                f"concurrency {cell['concurrency']}; it cannot be played"
            )
        return ()
    if acceptance.get("per_position"):
        return tuple(float(share) for share in acceptance["per_position"])
    return geometric(float(acceptance["rate"]), int(lane["k"]))


def _prefill(race: dict[str, Any], name: str) -> list[tuple[int, float]]:
    rows = []
    for row in race.get("prefill") or []:
        seconds = (row["lanes"].get(name) or {}).get("ttft_seconds")
        if seconds:
            rows.append((int(row["context"]), float(seconds)))
    return sorted(rows)


def _at(points: Sequence[Point], context: float, concurrency: float) -> Play:
    """Interpolate within one workload: concurrency first (on its logarithm), then context."""
    by_context: dict[int, list[Point]] = defaultdict(list)
    for point in points:
        by_context[point.context].append(point)
    plays = []
    for at, row in sorted(by_context.items()):
        known = sorted(((math.log(p.concurrency), p) for p in row), key=lambda pair: pair[0])
        plays.append((at, _mix([(x, p.play) for x, p in known], math.log(max(1.0, concurrency)))))
    return _mix(plays, context)


def _mix(known: Sequence[tuple[float, Play]], x: float) -> Play:
    left, right, weight = _bracket([at for at, _ in known], x)
    a, b = known[left][1], known[right][1]
    speed = a.tokens_per_second + (b.tokens_per_second - a.tokens_per_second) * weight
    return Play(speed, blend(a.per_position, b.per_position, weight))


def _linear(known: Sequence[tuple[float, float]], x: float) -> float:
    left, right, weight = _bracket([at for at, _ in known], x)
    return known[left][1] + (known[right][1] - known[left][1]) * weight


def _bracket(axis: Sequence[float], x: float) -> tuple[int, int, float]:
    """Indices of the neighbours of x on an ascending axis, and the weight of the right one."""
    if x <= axis[0]:
        return 0, 0, 0.0
    for i in range(1, len(axis)):
        if x <= axis[i]:
            return i - 1, i, (x - axis[i - 1]) / (axis[i] - axis[i - 1])
    return len(axis) - 1, len(axis) - 1, 0.0


def _average(plays: Sequence[Play]) -> Play:
    """Equal tokens of each workload: mean seconds per token, mean acceptance."""
    seconds_per_token = sum(1 / play.tokens_per_second for play in plays) / len(plays)
    columns = zip(*(play.per_position for play in plays), strict=True)
    profile = tuple(sum(column) / len(plays) for column in columns)
    return Play(1 / seconds_per_token, profile)
