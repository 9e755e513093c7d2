"""What machine this is: CPU, memory, system, GPUs. Read once per run and frozen into its result."""

import platform
from pathlib import Path
from typing import Any

import psutil


def facts(gpus: list[dict[str, Any]]) -> dict[str, Any]:
    """Facts of this host for a result's `machine`; never its name or address."""
    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(logical=True),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "os": _os_name(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "gpus": gpus,
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.processor() or "unknown"
    return platform.processor() or platform.machine()


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
