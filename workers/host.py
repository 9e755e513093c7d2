"""What this host offers to races: engines, GPUs, keys. Found once per worker."""

import os
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app import __version__
from app.config import APP_DIR, Settings, is_clone
from app.domain.engine_args import EngineKind
from app.domain.result import ToolFacts
from workers.engines.found import binaries, find_engines
from workers.gpus import Gpus
from workers.redact import Redactor, environment_secrets

KEY_PREFIX = "SLIPSTREAM_KEY_"


@dataclass(frozen=True)
class Host:
    """This host, as races see it."""

    settings: Settings
    gpus: Gpus
    binaries: dict[str, tuple[str, ...]]
    engines: dict[str, dict[str, Any]]
    """What the dashboard shows of them."""
    gpu_facts: list[dict[str, Any]]
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    commit: str | None = None
    redact: Redactor = field(default_factory=lambda: Redactor([]), repr=False)

    @property
    def kinds(self) -> frozenset[str]:
        """Engine kinds that this host can race."""
        return frozenset({*self.binaries, EngineKind.ATTACH.value})

    @property
    def tool(self) -> ToolFacts:
        """Which Slipstream writes the results."""
        return ToolFacts(version=__version__, commit=self.commit)


def find_host(settings: Settings, gpus: Gpus) -> Host:
    """Look around once."""
    found = find_engines(settings.vllm_bin)
    driver, cuda = gpus.driver, gpus.cuda
    return Host(
        settings=settings,
        gpus=gpus,
        binaries=binaries(found),
        engines={
            kind: {"version": engine.version, "where": engine.where}
            for kind, engine in found.items()
        }
        | {EngineKind.ATTACH.value: {"version": None, "where": "any URL"}},
        gpu_facts=[{**asdict(gpu), "driver": driver, "cuda": cuda} for gpu in gpus.devices()],
        secrets=_secrets(),
        redact=Redactor([*_secrets().values(), *environment_secrets()]),
        commit=_commit(APP_DIR.parent) if is_clone() else None,
    )


def _secrets() -> dict[str, str]:
    return {
        name.removeprefix(KEY_PREFIX).upper(): value
        for name, value in os.environ.items()
        if name.startswith(KEY_PREFIX) and value
    }


def _commit(folder: Path) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
