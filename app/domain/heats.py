"""What a heat left behind: raw counts; every rate is derived at the edge."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from app.domain.acceptance import Acceptance
from app.domain.text import storable

Text = Annotated[str, AfterValidator(storable)]


class Fact(BaseModel):
    """Frozen, and tolerant of facts that a later version adds."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Window(Fact):
    """The steady window: all streams decoding. Seconds since heat start;
    tokens are interpolated."""

    open_s: float
    close_s: float
    tokens: float
    closed_by: Literal["plan", "first_end"] = "plan"

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return self.close_s - self.open_s


class StreamSummary(Fact):
    """One stream of a heat."""

    stream: int
    tokens: int
    chunks: int = 0
    chars: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    ttft_s: float | None = None
    first_tokens: int | None = None
    ended_s: float | None = None
    finish: str = "aborted"
    error: Text | None = None
    text_sha256: str | None = None
    usage_tokens: int | None = None
    """What the server's usage says; None when it sends none."""
    id_tokens: int | None = None
    """How many token ids it sent; None when it sends none."""


class GapPercentiles(Fact):
    """Milliseconds between two chunks of a stream. Per chunk:
    with MTP a chunk carries several tokens."""

    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


class ClientLoad(Fact):
    """How busy the load process itself was during the heat."""

    cpu_seconds: float = 0.0
    cpu_share: float = 0.0
    loop_lag_p99_ms: float = 0.0
    rss_mb: float = 0.0


class GpuSummary(Fact):
    """GPU figures over the steady window, summed over the lane's GPUs."""

    samples: int
    power_w: float | None = None
    memory_mib: int | None = None
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    memory_bus_percent: float | None = None
    throttle_reasons: tuple[str, ...] = ()


class HeatSummary(Fact):
    """Everything counted in one heat."""

    tokens: int
    chunks: int = 0
    chars: int = 0
    seconds: float
    source: Literal["usage", "token_ids", "none"] = "usage"
    window: Window | None = None
    streams: tuple[StreamSummary, ...] = ()
    gaps: GapPercentiles = GapPercentiles()
    client: ClientLoad = ClientLoad()
    acceptance: Acceptance | None = None
    counter_tokens: int | None = None
    """Delta of the engine's own generation counter; None without counters."""
    counter_prompt_tokens: int | None = None
    gpu: GpuSummary | None = None
    sample_text: Text = ""
    error: Text | None = None

    @property
    def tokens_per_second(self) -> float | None:
        """Decode throughput: tokens in the steady window over its length; None without a window."""
        if self.window is None or self.window.seconds <= 0:
            return None
        return self.window.tokens / self.window.seconds

    @property
    def chars_per_second(self) -> float | None:
        """Characters per second at the heat's own characters per token."""
        speed = self.tokens_per_second
        if speed is None or not self.tokens or not self.chars:
            return None
        return speed * self.chars / self.tokens

    @property
    def prompt_tokens(self) -> int | None:
        """Real prompt length of one stream as the server counts it (the longest)."""
        known = [
            stream.prompt_tokens for stream in self.streams if stream.prompt_tokens is not None
        ]
        return max(known) if known else None
