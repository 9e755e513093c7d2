"""Failures of the replay server."""

from workers.signatures.base import Signature

REPLAY: tuple[Signature, ...] = (
    Signature(
        r"Address already in use",
        "The port was taken by another process.",
        "Race again: a free port is chosen for each launch.",
        "run",
    ),
    Signature(
        r"slipstream-replay: error: unrecognized arguments: (.*)",
        "The replay server does not know the flag {0}.",
        "Remove it from args.",
        "run",
    ),
    Signature(
        r"slipstream-replay: error: (.*)",
        "The replay server refused: {0}",
        "Choose a race and lane that are published here (see recipes/replay-b300.yaml).",
        "run",
    ),
    Signature(
        r"Engine core initialization failed",
        "The server failed while it started.",
        "Read the log above this line.",
        "run",
        is_wrapper=True,
    ),
)
