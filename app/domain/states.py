"""States of runs, lanes and heats, and which of them are ends."""

from enum import StrEnum


class RunState(StrEnum):
    """Where a run is on its way from submitted to frozen."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class LaneState(StrEnum):
    """Where one lane is; a failed lane never stops the others."""

    WAITING = "waiting"
    LAUNCHING = "launching"
    RACING = "racing"
    STOPPING = "stopping"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class HeatState(StrEnum):
    """Where one heat is; an interrupted heat keeps its ticks and is driven again as a new
    attempt."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class LaunchStep(StrEnum):
    """Named steps that a viewer sees while a server starts."""

    PREFLIGHT = "preflight"
    STARTING = "starting"
    DOWNLOADING = "downloading weights"
    LOADING_WEIGHTS = "loading weights"
    COMPILING = "compiling"
    CAPTURING_GRAPHS = "capturing graphs"
    WAITING_READY = "waiting for ready"
    PROVING = "proving it is ours"
    READY = "ready"
    WARMING = "warming up"
    RACING = "racing"
    STOPPING = "stopping"


ENDED_RUNS = frozenset({RunState.FINISHED, RunState.FAILED, RunState.CANCELLED})
ENDED_LANES = frozenset({LaneState.DONE, LaneState.FAILED, LaneState.CANCELLED})
ENDED_HEATS = frozenset(
    {HeatState.DONE, HeatState.FAILED, HeatState.INTERRUPTED, HeatState.CANCELLED}
)
