"""The tick: what one lane did in one second of one heat."""

from pydantic import BaseModel, ConfigDict

SPOTLIGHT_BYTES = 2048


class GpuSample(BaseModel):
    """One reading of one GPU by NVML; None where the driver does not tell."""

    model_config = ConfigDict(frozen=True)

    power_w: float | None = None
    memory_mib: int | None = None
    memory_total_mib: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    utilisation_percent: int | None = None
    memory_bus_percent: int | None = None
    throttle_reasons: tuple[str, ...] = ()


class Tick(BaseModel):
    """Second `second` of a heat, [t0 + second, t0 + second + length_s). Ids rise within a run."""

    model_config = ConfigDict(frozen=True)

    id: int = 0
    run: str
    lane: str
    cell: int
    heat: int
    second: int
    length_s: float = 1.0
    tokens: int
    in_flight: int
    is_steady: bool = True
    """Whether the second began after all streams had their first token: ramp is no speed."""
    running: int | None = None
    """Requests the server says it is running; None without counters."""
    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    accepted_per_position: tuple[int, ...] | None = None
    text: str = ""
    """New text of the spotlight stream in this second, at most SPOTLIGHT_BYTES of UTF-8."""
    gpu: GpuSample | None = None


def clip(text: str, limit_bytes: int = SPOTLIGHT_BYTES) -> str:
    """The end of `text` that fits into `limit_bytes` of UTF-8, never half a character."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit_bytes:
        return raw.decode("utf-8")
    return raw[-limit_bytes:].decode("utf-8", "ignore")
