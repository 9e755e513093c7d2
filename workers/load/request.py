"""A drive command -> where to connect and the exact bytes to send. Pure: no sockets, no clock."""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

BODIES = re.compile(rb'"bodies"\s*:\s*\[')
# Possessive: a prompt of megabytes is one match without a stack of steps to take back.
TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]]', re.DOTALL)
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Target:
    """Where the server is."""

    host: str
    port: int
    is_tls: bool
    path_prefix: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port in PORTS.values() else f"{host}:{self.port}"


def split_drive(line: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The command without its bodies, and each body's own bytes.

    Parsing 256 prompts of token ids into Python integers would cost more memory than the whole
    process may have.
    ValueError when the line is no drive command.
    """
    found = BODIES.search(line)
    if not found:
        raise ValueError("the drive command has no bodies")
    bodies: list[bytes] = []
    depth, start = 0, found.end()
    for token in TOKEN.finditer(line, found.end()):
        mark = line[token.start() : token.start() + 1]
        if mark in b"{[":
            start = token.start() if depth == 0 else start
            depth += 1
        elif mark in b"}]":
            depth -= 1
            if depth == 0:
                bodies.append(line[start : token.end()])
            elif depth < 0:
                head = json.loads(line[: found.end()] + line[token.start() :])
                return head, bodies
    raise ValueError("the bodies of the drive command do not end")


def target_of(base_url: str) -> Target:
    """ValueError, with what is wrong, for everything but http and https."""
    parts = urlsplit(base_url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"base_url {base_url!r} is no http:// or https:// address")
    return Target(
        host=parts.hostname,
        port=parts.port or PORTS[parts.scheme],
        is_tls=parts.scheme == "https",
        path_prefix=parts.path.rstrip("/"),
    )


def head_bytes(target: Target, path: str, headers: dict[str, str]) -> bytes:
    """Everything before content-length; ValueError for a header that would split the request."""
    ours = {
        "host": target.authority,
        "user-agent": "slipstream-load",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    lines = ours | {name.lower(): value for name, value in headers.items()}
    text = f"POST {target.path_prefix}{path} HTTP/1.1\r\n"
    text += "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    if text.count("\r") != len(lines) + 1 or text.count("\n") != len(lines) + 1:
        raise ValueError("a header or the path has a line break in it")
    return text.encode("latin-1")


def request_bytes(head: bytes, body: bytes) -> bytes:
    return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)
