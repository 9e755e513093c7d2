"""From a dead server's log to a cause and a remedy. Knows no engine: the signatures are data."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.engine_args import EngineKind
from workers.launchers.base import Exit
from workers.signatures.base import ANY, Signature
from workers.signatures.replay import REPLAY
from workers.signatures.vllm import VLLM

SIGNATURES: dict[EngineKind, tuple[Signature, ...]] = {
    EngineKind.VLLM: VLLM + ANY,
    EngineKind.REPLAY: REPLAY + ANY,
    EngineKind.ATTACH: (),
}

LINE_CHARACTERS = 400
SIGKILL = 9

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(r"^(\([^)]*pid=\d+\)\s*)?(ERROR [\d-]+ [\d:]+ \[[^\]]*\]\s*)?")
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b")
_NOISE = re.compile(r"nanobind: |leaked shared_memory|resource_tracker|^\s*$")


@dataclass(frozen=True)
class Diagnosis:
    """Why a server failed, as far as its log tells."""

    cause: str
    remedy: str
    line: str
    """The log line that says so; empty when there is none."""


def diagnose(engine: EngineKind, log_tail: str, ended: Exit | None) -> Diagnosis:
    """The first known cause in the log; otherwise how it ended and its most telling line."""
    lines = _clean(log_tail)
    rows = [row for row in SIGNATURES[engine] if not row.is_silent]
    for row in rows:
        if not row.is_wrapper and (hit := _find(row, lines)):
            return hit
    return _generic(lines, ended, [row for row in rows if row.is_wrapper])


def silent_faults(engine: EngineKind, log_tail: str) -> list[Diagnosis]:
    """Known faults that a living server only mentions."""
    lines = _clean(log_tail)
    hits = (_find(row, lines) for row in SIGNATURES[engine] if row.is_silent)
    return [hit for hit in hits if hit is not None]


def _clean(log_tail: str) -> list[str]:
    return [_ANSI.sub("", line).rstrip() for line in log_tail.splitlines()]


def _find(row: Signature, lines: Sequence[str]) -> Diagnosis | None:
    pattern = re.compile(row.pattern)
    is_armed = row.after is None
    for line in lines:
        is_armed = is_armed or re.search(row.after or "", line) is not None
        match = pattern.search(line) if is_armed else None
        if match:
            groups = [group or "" for group in match.groups()]
            return Diagnosis(row.cause.format(*groups), row.remedy.format(*groups), _short(line))
    return None


def _generic(lines: Sequence[str], ended: Exit | None, wrappers: Sequence[Signature]) -> Diagnosis:
    """Nobody has seen this one: the last exception that is no wrapper, else the last line."""
    plain = [_PREFIX.sub("", line) for line in lines if not _NOISE.search(line)]
    telling = [line for line in plain if not any(re.search(w.pattern, line) for w in wrappers)]
    exceptions = [line for line in telling if _EXCEPTION.match(line)]
    line = _short((exceptions or telling or plain or [""])[-1])
    how = f"The server ended ({ended})" if ended is not None else "The server failed"
    if ended is not None and ended.signal == SIGKILL:
        return Diagnosis(
            f"{how}; most often the kernel does that when memory runs out.",
            "Look for 'Out of memory' in `dmesg`; lower the memory the server may take.",
            line,
        )
    cause = f"{how}: {line}" if line else f"{how} without a word in its log."
    return Diagnosis(cause, "Read the last lines of its log.", line)


def _short(line: str) -> str:
    text = line.strip()
    return text if len(text) <= LINE_CHARACTERS else text[: LINE_CHARACTERS - 1] + "…"
