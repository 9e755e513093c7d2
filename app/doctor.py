"""`slipstream doctor`: what is on this host, what is missing, and what to do about it."""

import json
import platform
import shutil
import socket
import sys
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from app.config import Settings, version
from app.domain.errors import SlipstreamError
from app.store.db import open_database
from workers.engines.found import find_engines
from workers.gpus import Gpus

FREE_GIB_WANTED = 1.0


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `is_fine` False means: a race here would fail for it."""

    what: str
    is_fine: bool
    found: str
    remedy: str = ""


def examine(settings: Settings) -> list[Finding]:
    """Look at everything a race needs; starts nothing and writes only to the database's folder."""
    return [
        Finding("slipstream", True, f"{version()}, Python {platform.python_version()}"),
        *_engines(settings),
        *_gpus(),
        _database(settings),
        _disk(settings),
        _port(settings),
        _browser(),
    ]


def show(findings: list[Finding], *, as_json: bool) -> None:
    """Print a table, or JSON."""
    if as_json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2) + "\n")
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        table.add_row("✓" if finding.is_fine else "✗", finding.what, finding.found, finding.remedy)
    Console(highlight=False).print(table)


def _engines(settings: Settings) -> list[Finding]:
    found = find_engines(settings.vllm_bin)
    rows = [
        Finding(kind, True, f"{engine.version or 'version unknown'} ({engine.where})")
        for kind, engine in found.items()
    ]
    if "vllm" not in found:
        wrong = bool(settings.vllm_bin)
        said = f"not at {settings.vllm_bin}" if wrong else "not found; replay and attach still race"
        rows.append(
            Finding("vllm", not wrong, said, "Set SLIPSTREAM_VLLM_BIN, or run `make engines`.")
        )
    return rows


def _gpus() -> list[Finding]:
    with Gpus() as gpus:
        rows = [
            Finding(f"gpu {gpu.index}", True, f"{gpu.name}, {gpu.memory_total_mib} MiB")
            for gpu in gpus.devices()
        ]
        if rows:
            rows.append(Finding("driver", True, f"{gpus.driver}, CUDA {gpus.cuda}"))
    return rows or [Finding("gpu", True, "none that NVML knows; CPU engines and replay still race")]


def _database(settings: Settings) -> Finding:
    try:
        database = open_database(settings.database)
        shown = database.url.render_as_string(hide_password=True)
        database.close()
    except SlipstreamError as error:
        return Finding("database", False, error.message, error.remedy)
    return Finding("database", True, shown)


def _disk(settings: Settings) -> Finding:
    folder = settings.data_dir
    while not folder.exists():
        folder = folder.parent
    free_gib = shutil.disk_usage(folder).free / 2**30
    return Finding(
        "disk",
        free_gib >= FREE_GIB_WANTED,
        f"{free_gib:.1f} GiB free at {settings.data_dir}",
        "" if free_gib >= FREE_GIB_WANTED else "Free some space, or set SLIPSTREAM_DATA_DIR.",
    )


def _port(settings: Settings) -> Finding:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            said = f"{settings.host}:{settings.port} is taken ({error.strerror})"
            return Finding("port", False, said, "Is Slipstream up already? Else set another port.")
    return Finding("port", True, f"{settings.host}:{settings.port} is free")


def _browser() -> Finding:
    for name in ("chromium", "chromium-browser", "google-chrome", "firefox"):
        where = shutil.which(name)
        if where:
            return Finding("browser", True, where)
    return Finding("browser", True, "none here; open the dashboard from another machine")
