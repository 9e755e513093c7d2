"""Events of the live feed as bytes, encoded once for all viewers. Knows neither queues nor HTTP."""

from collections.abc import Iterable
from dataclasses import dataclass

from sse_starlette import ServerSentEvent

from app.domain.snapshot import Snapshot
from app.domain.ticks import Tick


@dataclass(frozen=True)
class Event:
    """One encoded event. `tick` is the id that it carries, 0 for none."""

    wire: bytes
    tick: int = 0
    version: int | None = None
    """Version of a snapshot."""
    is_last: bool = False


def tick_event(tick: Tick) -> Event:
    """A tick on the wire; its id is what Last-Event-ID brings back."""
    wire = _encode("tick", tick.model_dump_json(), id=str(tick.id))
    return Event(wire, tick=tick.id)


def snapshot_event(snapshot: Snapshot) -> Event:
    """A snapshot on the wire, without an id: reconnecting never starts from one."""
    return Event(_encode("snapshot", snapshot.model_dump_json()), version=snapshot.version)


def farewell(reason: str) -> Event:
    """The last event of a stream, and why."""
    return Event(_encode("farewell", f'{{"reason":"{reason}"}}'), is_last=True)


def unseen(events: Iterable[Event], tick: int, version: int) -> list[Event]:
    """Events that a viewer who has tick `tick` and snapshot `version` has not had yet."""
    return [
        event
        for event in events
        if event.is_last
        or event.tick > tick
        or (event.version is not None and event.version > version)
    ]


def _encode(event: str, data: str, id: str | None = None) -> bytes:
    return ServerSentEvent(data, event=event, id=id, sep="\n").encode()
