"""What the load process and the worker say to each other: one JSON object per line, typed here.

Knows no socket and no clock. Times are seconds since the heat's t0 by time.monotonic.
"""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

Finish = Literal["length", "stop", "aborted", "error"]
Source = Literal["usage", "token_ids", "none"]
ClosedBy = Literal["plan", "first_end"]


@dataclass(frozen=True)
class Drive:
    """One heat: every body is one stream."""

    id: str
    base_url: str
    path: str
    bodies: tuple[dict[str, Any], ...]
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float | None = None
    """Planned length from the moment all streams have their first token; None:
    until all end by themselves."""
    open_deadline_s: float = 600.0
    spotlight: int = 0

    def to_json(self) -> str:
        """`bodies` last: the load process cuts the bodies out of this line without parsing them."""
        line = {"op": "drive"} | {k: getattr(self, k) for k in DRIVE_HEAD}
        return json.dumps(line | {"bodies": self.bodies}, separators=(",", ":"))


DRIVE_HEAD = ("id", "base_url", "path", "headers", "seconds", "open_deadline_s", "spotlight")


@dataclass(frozen=True)
class Ready:
    pid: int


@dataclass(frozen=True)
class Started:
    id: str
    t0_monotonic: float


@dataclass(frozen=True)
class FirstToken:
    id: str
    stream: int
    ttft_s: float


@dataclass(frozen=True)
class WindowOpen:
    id: str
    at_s: float


@dataclass(frozen=True)
class Tick:
    """Second n covers [t0+n, t0+n+1); only the last one may be partial, then with its length."""

    id: str
    second: int
    tokens: int
    chunks: int
    in_flight: int
    text: str
    partial: bool = False
    length_s: float = 1.0


@dataclass(frozen=True)
class Window:
    """The steady window; tokens are interpolated at both edges, so they may be fractions."""

    open_s: float
    close_s: float
    tokens: float
    closed_by: ClosedBy


@dataclass(frozen=True)
class StreamEnd:
    """What one stream came to."""

    stream: int
    tokens: int
    chunks: int
    chars: int
    prompt_tokens: int | None
    cached_tokens: int | None
    ttft_s: float | None
    first_tokens: int
    ended_s: float
    finish: Finish
    error: str | None
    """With finish "error" the reason it ended; with another finish a defect that did not end it."""
    text_sha256: str | None
    usage_tokens: int | None
    id_tokens: int | None


@dataclass(frozen=True)
class Gaps:
    """Time between chunks of a stream, over all streams. Per chunk:
    a chunk may hold several tokens."""

    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    per: str = "chunk"


@dataclass(frozen=True)
class ClientCost:
    """What the load process itself used during the heat; the tool suspects itself."""

    cpu_seconds: float
    cpu_share: float
    loop_lag_p99_ms: float
    rss_mb: float


@dataclass(frozen=True)
class Done:
    """The heat's totals; always the last event of a heat."""

    id: str
    cancelled: bool
    error: str | None
    source: Source
    tokens: int
    chunks: int
    chars: int
    seconds: float
    window: Window | None
    streams: tuple[StreamEnd, ...]
    itl: Gaps
    client: ClientCost

    @classmethod
    def from_fields(cls, raw: dict[str, Any]) -> "Done":
        window = Window(**known(Window, raw["window"])) if raw["window"] else None
        return cls(
            **known(cls, raw)
            | {
                "window": window,
                "streams": tuple(StreamEnd(**known(StreamEnd, one)) for one in raw["streams"]),
                "itl": Gaps(**known(Gaps, raw["itl"])),
                "client": ClientCost(**known(ClientCost, raw["client"])),
            }
        )


Event = Ready | Started | FirstToken | WindowOpen | Tick | Done

NAMES: dict[str, type[Event]] = {
    "ready": Ready,
    "started": Started,
    "first_token": FirstToken,
    "window_open": WindowOpen,
    "tick": Tick,
    "done": Done,
}
NAME_OF = {kind: name for name, kind in NAMES.items()}


def to_json(event: Event) -> str:
    """One line, without its newline."""
    return json.dumps({"event": NAME_OF[type(event)]} | asdict(event), separators=(",", ":"))


def from_json(line: str | bytes) -> Event:
    """The event on this line; ValueError when it is none of ours."""
    raw = json.loads(line)
    kind = NAMES.get(str(raw.get("event"))) if isinstance(raw, dict) else None
    if kind is None:
        raise ValueError(f"not an event of the load process: {line[:200]!r}")
    return kind.from_fields(raw) if kind is Done else kind(**known(kind, raw))


def known(kind: type[Any], raw: dict[str, Any]) -> dict[str, Any]:
    """Only the fields of this version, so that a newer load process does not break an older
    worker."""
    names = {one.name for one in fields(kind)}
    return {key: value for key, value in raw.items() if key in names}
