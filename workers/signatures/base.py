"""What a signature is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Signature:
    """One known failure. A wrapper only says that the real cause stands further up."""

    pattern: str
    """Searched in each log line."""
    cause: str
    """May name groups of the pattern: {0} is the first."""
    remedy: str
    source: str
    is_wrapper: bool = False
    is_silent: bool = False
    """The server lives on, yet what it measures is void or weak."""
    after: str | None = None
    """Another pattern that must stand in an earlier line (or the same)."""


ANY: tuple[Signature, ...] = (
    Signature(
        r"(401 Client Error|GatedRepoError|Access to model .* is restricted)",
        "The model's repository is gated, and the server has no access.",
        "Accept the model's licence on the hub, and set HF_TOKEN in the worker's environment.",
        "huggingface_hub",
    ),
    Signature(
        r"No space left on device",
        "The disk (or shared memory) is full.",
        "Free space where the model cache lies; in containers, give /dev/shm more.",
        "OS text",
    ),
    Signature(
        r"CUDA out of memory|CUDA error: out of memory",
        "The GPU's memory does not suffice.",
        "Lower gpu-memory-utilization, max-num-seqs or max-model-len, or end other processes.",
        "torch text",
    ),
)
