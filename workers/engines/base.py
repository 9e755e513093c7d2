"""What an engine adapter is: pure functions from a recipe to a launch plan,
and from text to counters.

Starting, waiting and killing belong to the launchers; HTTP belongs to the meter.
Golden files test adapters.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from app.domain.acceptance import Acceptance
from app.domain.engine_args import EngineKind
from app.domain.recipe import Recipe
from app.domain.states import LaunchStep


@dataclass(frozen=True)
class Seat:
    """Where a server may sit: address, folder, and the names that prove it is ours."""

    host: str
    port: int
    served_model: str
    """Unique per launch, so that /v1/models of somebody else's server cannot be mistaken for
    ours."""
    work_dir: Path
    binaries: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Engine kind -> argv prefix that starts it, as found on this host
    (workers/engines/found.py)."""
    published_dir: Path | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    """API keys by upper-case name, from SLIPSTREAM_KEY_<NAME>; never written anywhere."""


@dataclass(frozen=True)
class LaunchPlan:
    """How to start one lane's server and how to talk to it.
    argv is empty when it already runs (attach)."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """What is set on top of the launcher's small base environment."""
    base_url: str
    served_model: str | None
    """Model name for requests; None: the only model that the server lists."""
    ready_path: str = "/health"
    models_path: str = "/v1/models"
    metrics_path: str | None = "/metrics"
    tokenize_path: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    """Request headers (API key). Never stored."""
    stop_grace_seconds: float = 15.0
    proves_itself: bool = True
    """False for attach: the server is not started by us, so nothing can be proven."""
    expects_speculation: bool | None = None
    """What the recipe asks of this lane; None where it cannot be known."""


@dataclass(frozen=True)
class Counters:
    """One reading of a server's own counters, converted to the one definition.
    None = it does not tell."""

    generation_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    running: int | None = None
    waiting: int | None = None
    preemptions: int | None = None
    kv_usage: float | None = None
    acceptance: Acceptance | None = None
    """Lifetime counts; None means the server does not speculate (or does not tell)."""
    requests_finished: int | None = None
    process_started_at: float | None = None
    """Unix seconds, from process_start_time_seconds."""


@dataclass(frozen=True)
class RequestShape:
    """What one stream of a heat asks for."""

    prompt: str | list[int] | list[dict[str, str]]
    """Text, token ids, or chat messages."""
    max_tokens: int
    is_forced: bool
    temperature: float
    top_p: float
    seed: int


class Engine(Protocol):
    """One row of ENGINES. Every method is pure."""

    kind: EngineKind
    counts_live: bool
    """Whether acceptance counters move while a heat runs."""

    def plan(self, recipe: Recipe, lane: str, seat: Seat) -> LaunchPlan:
        """The launch of `lane`; RecipeError or LaunchError when it cannot be planned."""
        ...

    def read(self, counters_text: str, log_tail: str) -> Counters:
        """Parse the server's counters page (and log, where that is the only source)."""
        ...

    def step(self, log_line: str) -> LaunchStep | None:
        """Which launch step this log line announces; None for most lines."""
        ...

    def request(self, shape: RequestShape, model: str) -> tuple[str, dict[str, Any]]:
        """Path and JSON body of one streaming request."""
        ...
