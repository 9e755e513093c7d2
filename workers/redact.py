"""Takes secrets out of what servers and engines say, before it is stored or shown."""

import os
import re
from collections.abc import Iterable

from app.domain.text import storable

HIDDEN = "[secret]"
SHORTEST_SECRET = 6
# Values of these variables never leave the worker, whatever prints them.
_SECRET_NAMES = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL)", re.IGNORECASE)
_PATTERNS = (
    re.compile(r"(?i)(?<=bearer )[a-z0-9._~+/=-]{6,}"),
    re.compile(r"(?i)(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(r"\b(?:hf|sk|ghp|gho|xox[abp])[_-][A-Za-z0-9_-]{8,}"),
    re.compile(
        r"(?i)\b(?:api[_-]?key|token|secret|password)\b(?:\"?\s*[:=]\s*\"?)([^\s\"',;&]{6,})"
    ),
)


class Redactor:
    """Knows the secrets of this worker by value, and what secrets look like."""

    def __init__(self, values: Iterable[str]) -> None:
        known = {value for value in values if len(value) >= SHORTEST_SECRET}
        # The longest first: a secret may hold another.
        self._values = sorted(known, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without secrets, and fit to be stored."""
        clean = storable(text)
        for value in self._values:
            clean = clean.replace(value, HIDDEN)
        for pattern in _PATTERNS:
            clean = pattern.sub(_hide, clean)
        return clean


def environment_secrets() -> list[str]:
    """Values of this process's variables whose names say that they are secret."""
    return [value for name, value in os.environ.items() if _SECRET_NAMES.search(name) and value]


def _hide(match: re.Match[str]) -> str:
    if match.lastindex is None:
        return HIDDEN
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return match.group()[:start] + HIDDEN + match.group()[end:]
