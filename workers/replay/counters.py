"""The counters of the replay server, under vLLM's names. Knows nothing of HTTP or of who counts.

Held at every step: drafts + accepted + requests (with a first token) = generation tokens + tokens
cut off at the cap.
"""

import time
from dataclasses import dataclass, field

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
KV_TOKENS = 2_000_000  # size of the pretended KV cache, in tokens


@dataclass
class Counters:
    """Lifetime counts; `positions` is 0 in a lane without speculation."""

    positions: int
    generation_tokens: int = 0
    prompt_tokens: int = 0
    first_tokens: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    cut_tokens: int = 0
    steps: int = 0
    first_token_seconds: float = 0.0
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISH_REASONS, 0))
    per_position: list[int] = field(default_factory=list)
    born: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.per_position = [0] * self.positions

    def count_draft(self, kept: int) -> None:
        self.drafts += 1
        self.drafted += self.positions
        self.accepted += kept
        for position in range(kept):
            self.per_position[position] += 1


@dataclass(frozen=True)
class Gauges:
    running: int
    waiting: int
    kv_tokens: int


def render(counters: Counters, gauges: Gauges, model: str, process_start: float) -> str:
    """The Prometheus text of GET /metrics."""
    page = _Page(model)
    page.bare("process_start_time_seconds", "gauge", f"{process_start:.2f}")
    page.bare("process_cpu_seconds_total", "counter", f"{time.process_time():.2f}")
    if counters.positions:
        _speculation(page, counters)
    page.gauge(
        "num_requests_running", "Number of requests in model execution batches.", gauges.running
    )
    page.gauge(
        "num_requests_waiting", "Number of requests waiting to be processed.", gauges.waiting
    )
    usage = min(1.0, gauges.kv_tokens / KV_TOKENS)
    page.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", usage)
    page.counter(
        "prefix_cache_queries",
        "Prefix cache queries, in tokens.",
        counters.prompt_tokens,
        counters.born,
    )
    page.counter("prefix_cache_hits", "Prefix cache hits, in tokens.", 0, counters.born)
    page.counter("num_preemptions", "Cumulative number of preemptions.", 0, counters.born)
    page.counter(
        "prompt_tokens",
        "Number of prefill tokens processed.",
        counters.prompt_tokens,
        counters.born,
    )
    page.counter(
        "generation_tokens",
        "Number of generation tokens processed.",
        counters.generation_tokens,
        counters.born,
    )
    page.labelled(
        "request_success",
        "Count of successfully processed requests.",
        [(f'finished_reason="{why}"', n) for why, n in counters.finished.items()],
        counters.born,
    )
    page.summary("time_to_first_token_seconds", counters.first_tokens, counters.first_token_seconds)
    return page.text()


def _speculation(page: "_Page", counters: Counters) -> None:
    born = counters.born
    page.counter("spec_decode_num_drafts", "Number of spec decoding drafts.", counters.drafts, born)
    page.counter("spec_decode_num_draft_tokens", "Number of draft tokens.", counters.drafted, born)
    page.counter(
        "spec_decode_num_accepted_tokens", "Number of accepted tokens.", counters.accepted, born
    )
    page.labelled(
        "spec_decode_num_accepted_tokens_per_pos",
        "Accepted tokens per draft position.",
        [(f'position="{i}"', n) for i, n in enumerate(counters.per_position)],
        born,
    )


class _Page:
    """One text in the exposition format, line by line."""

    def __init__(self, model: str) -> None:
        escaped = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        self._engine, self._model = 'engine="0"', f'model_name="{escaped}"'
        self._lines: list[str] = []

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def bare(self, name: str, kind: str, value: str) -> None:
        self._lines += [f"# TYPE {name} {kind}", f"{name} {value}"]

    def gauge(self, name: str, meaning: str, value: float) -> None:
        self._head(f"vllm:{name}", meaning, "gauge")
        self._lines.append(f"vllm:{name}{{{self._engine},{self._model}}} {float(value)}")

    def counter(self, name: str, meaning: str, value: int, born: float) -> None:
        self._head(f"vllm:{name}_total", meaning, "counter")
        self._lines.append(f"vllm:{name}_total{{{self._engine},{self._model}}} {float(value)}")
        self._head(f"vllm:{name}_created", meaning, "gauge")
        self._lines.append(f"vllm:{name}_created{{{self._engine},{self._model}}} {born}")

    def labelled(self, name: str, meaning: str, rows: list[tuple[str, int]], born: float) -> None:
        self._head(f"vllm:{name}_total", meaning, "counter")
        for label, value in rows:
            labels = ",".join(sorted((self._engine, self._model, label)))
            self._lines.append(f"vllm:{name}_total{{{labels}}} {float(value)}")
        self._head(f"vllm:{name}_created", meaning, "gauge")
        for label, _ in rows:
            labels = ",".join(sorted((self._engine, self._model, label)))
            self._lines.append(f"vllm:{name}_created{{{labels}}} {born}")

    def summary(self, name: str, count: int, total: float) -> None:
        self._head(f"vllm:{name}", "Histogram of time to first token in seconds.", "histogram")
        labels = f"{self._engine},{self._model}"
        self._lines += [
            f'vllm:{name}_bucket{{{self._engine},le="+Inf",{self._model}}} {float(count)}',
            f"vllm:{name}_count{{{labels}}} {float(count)}",
            f"vllm:{name}_sum{{{labels}}} {total}",
        ]

    def _head(self, name: str, meaning: str, kind: str) -> None:
        self._lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
