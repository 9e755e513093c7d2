"""How each fault spoils what a stream says. One small function per fault; the tables are read by
reply.py alone.

HOLDS   kind -> should this chunk wait for more tokens?
USAGES  kind -> the completion_tokens that usage claims
LINES   kind -> the bytes of one data line
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from workers.replay.faults import Fault


@dataclass
class Said:
    """What a stream has said so far."""

    tokens: int = 0
    chunks: int = 0
    steps: int = 0
    done: set[str] = field(default_factory=set)  # faults that happen once and have happened
    counts: dict[str, int] = field(default_factory=dict)

    def once(self, kind: str) -> bool:
        """True the first time it is asked for this kind."""
        is_first = kind not in self.done
        self.done.add(kind)
        return is_first


class Speaker(Protocol):
    def role_line(self) -> bytes: ...


def _merge_chunks(fault: Fault, said: Said, pending: int) -> bool:
    return said.steps % int(fault["steps"]) != 0


def _first_chunk_bundle(fault: Fault, said: Said, pending: int) -> bool:
    return said.chunks == 0 and pending < int(fault["tokens"])


def _lie_usage(tokens: int, fault: Fault, said: Said) -> int:
    return round(tokens * float(fault["factor"]))


def _usage_falls(tokens: int, fault: Fault, said: Said) -> int:
    return max(0, tokens - int(fault["by"])) if said.chunks and said.once("usage_falls") else tokens


def _bad_json(line: bytes, fault: Fault, said: Said, speaker: Speaker) -> bytes:
    return line[: len(line) // 2] + b"\n\n" if said.once("bad_json") else line


def _half_utf8(line: bytes, fault: Fault, said: Said, speaker: Speaker) -> bytes:
    """The first byte of a two-byte character, alone, inside the text."""
    if not said.once("half_utf8"):
        return line
    mark = b'"text":"' if b'"text":"' in line else b'"content":"'
    return line.replace(mark, mark + b"\xc3", 1)


def _long_line(line: bytes, fault: Fault, said: Said, speaker: Speaker) -> bytes:
    if not said.once("long_line"):
        return line
    return line[:-3] + b',"padding":"' + b"x" * int(fault["bytes"]) + b'"}\n\n'


def _role_chunk(line: bytes, fault: Fault, said: Said, speaker: Speaker) -> bytes:
    spoken = said.counts.get("role_chunk", 0)
    if spoken >= int(fault["chunks"]):
        return line
    said.counts["role_chunk"] = spoken + 1
    return line + speaker.role_line()


HOLDS: dict[str, Callable[[Fault, Said, int], bool]] = {
    "merge_chunks": _merge_chunks,
    "first_chunk_bundle": _first_chunk_bundle,
}
USAGES: dict[str, Callable[[int, Fault, Said], int]] = {
    "lie_usage": _lie_usage,
    "usage_falls": _usage_falls,
}
LINES: dict[str, Callable[[bytes, Fault, Said, Speaker], bytes]] = {
    "long_line": _long_line,
    "half_utf8": _half_utf8,
    "role_chunk": _role_chunk,
    "bad_json": _bad_json,
}
