"""The snapshot: all that is known of a run at one moment, as pages, API,
terminal and SSE show it."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from app.domain.recipe import Recipe
from app.domain.states import LaneState, RunState
from app.domain.summary import CellView, View


class Provenance(View):
    """Where numbers come from. A replay is never a measurement, and says whose race it plays."""

    kind: Literal["measured", "replay", "published", "imported"] = "measured"
    plays: str | None = None
    """Title of the source that a replay plays, e.g. 'Blackwell Shenanigans 003 … (blog post)'."""
    hardware: str | None = None
    """Hardware of that source."""


class StepView(View):
    """One launch step that has begun, with its length once the next one began."""

    name: str
    started_at: datetime
    seconds: float | None = None


class Failure(View):
    """Why a lane failed: at which step, with what cause and remedy."""

    step: str
    cause: str
    remedy: str = ""
    line: str = ""
    """The log line that gave it away."""


class WarmUp(View):
    """Driven warm-up at one concurrency: probes in tokens per second;
    the first is the cold figure."""

    concurrency: int
    probes: tuple[float, ...]
    agreed: bool


class LaneView(View):
    """One lane: how it was started and how it stands."""

    id: int
    name: str
    position: int
    is_baseline: bool
    speculates: bool
    drafter: str | None = None
    k: int | None = None
    state: LaneState
    steps: tuple[StepView, ...] = ()
    """Launch steps so far; the last one is current while seconds is None."""
    url: str | None = None
    argv: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    engine_version: str | None = None
    served_model: str | None = None
    max_model_len: int | None = None
    launch_seconds: float | None = None
    warmups: tuple[WarmUp, ...] = ()
    failure: Failure | None = None
    log_tail: str = ""


class Now(View):
    """What the worker is doing at this moment."""

    lane: str | None = None
    cell: int | None = None
    heat: int | None = None
    ordinal: int | None = None
    text: str = ""
    """A sentence for people: 'baseline · heat 2 of 3 · code, 8192 tokens, 4 streams'."""
    since: datetime | None = None


class RunView(View):
    """One run in a list."""

    id: str
    name: str
    model: str
    engine: str
    state: RunState
    provenance: Provenance
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    lanes: tuple[str, ...] = ()
    heats_done: int = 0
    heats_total: int = 0
    eta_seconds: float | None = None
    queue_position: int | None = None
    """1 = next; None when not queued."""
    is_cancelling: bool = False
    error: str | None = None
    slug: str | None = None
    """Slug of the frozen result, when there is one."""
    headline: str | None = None


class Snapshot(View):
    """Everything about a run. `version` rises with every change;
    `last_tick` is the newest tick id."""

    run: RunView
    recipe: Recipe
    lanes: tuple[LaneView, ...]
    cells: tuple[CellView, ...]
    now: Now = Now()
    worker: str | None = None
    version: int = 0
    last_tick: int = 0
    machine: dict[str, Any] = Field(default_factory=dict)
