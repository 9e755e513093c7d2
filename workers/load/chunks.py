"""One `data:` payload of an OpenAI-compatible stream -> what it adds. Knows no time and no stream.

Two readers. `read_json` is the meaning: it parses everything. `read_fast` finds the same facts of
an ordinary chunk by searching bytes, at a fifth of the cost; None for everything else. Searching is
safe because a quotation mark inside a JSON string is always escaped: `"completion_tokens":` can
only be a key.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

MAX_TOKENS = 2**53
"""More than any server ever counted: a count beyond is nonsense,
and would not survive JSON elsewhere."""
TEXT_KEYS = ("text", "content", "reasoning_content", "reasoning")
STRING_END = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
PROMPT_IDS = re.compile(rb'"prompt_token_ids": ?\[[^\]]*\]')
LONG_PAYLOAD_BYTES = 64 * 1024

Fast = tuple[int | None, int | None, bytes]
"""(cumulative usage, new token ids, new text as the inside of a JSON string)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one payload says. None = it does not say."""

    usage: int | None = None
    ids: int | None = None
    text: bytes = b""
    """The inside of a JSON string, as `read_fast` cuts it out."""
    finish: str | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    is_choice: bool = False
    """False for the closing usage chunk and for error objects."""
    defect: str | None = None


class Needles(NamedTuple):
    """The byte strings of one server's way of writing JSON; a tuple, as every chunk unpacks it."""

    usage: bytes
    finish: bytes
    ids: bytes
    texts: tuple[bytes, ...]


def needles_for(first_payload: bytes) -> Needles:
    """Servers write `"key":` or `"key": `; which one is seen in the first payload."""
    gap = b" " if b'": ' in first_payload else b""
    keys = (
        (b"text",)
        if b'"text":' in first_payload
        else (b"content", b"reasoning_content", b"reasoning")
    )
    return Needles(
        usage=b'"completion_tokens":' + gap,
        finish=b'"finish_reason":' + gap + b"null",
        ids=b'"token_ids":' + gap + b"[",
        texts=tuple(b'"' + key + b'":' + gap + b'"' for key in keys),
    )


def read_fast(payload: bytes, needles: Needles) -> Fast | None:
    """The facts of an ordinary chunk in mid-stream; None: ask `read_json`."""
    usage_key, finish_null, ids_key, text_keys = needles
    if finish_null not in payload:
        return None
    usage = ids = None
    at = payload.rfind(usage_key)
    if at > 0:
        at += len(usage_key)
        digits = payload[at : payload.find(b"}", at)]
        if not digits.isdigit():
            digits = digits.partition(b",")[0]
        if not digits.isdigit() or len(digits) > 15:
            return None
        usage = int(digits)
    at = payload.find(ids_key)
    if at > 0:
        at += len(ids_key)
        end = payload.find(b"]", at)
        ids = payload.count(b",", at, end) + 1 if end > at else 0
    if usage is None and ids is None:
        return None
    text = None
    for needle in text_keys:
        at = payload.find(needle)
        if at > 0:
            at += len(needle)
            end = payload.find(b'"', at)
            new = payload[at:end] if payload[end - 1] != 92 else long_string(payload, at)
            text = text + new if text else new
    return None if text is None else (usage, ids, text)


def long_string(payload: bytes, at: int) -> bytes:
    """The inside of the JSON string that starts at `at` and has escaped quotation marks or
    backslashes."""
    found = STRING_END.match(payload, at)
    return found.group() if found else b""


def read_json(payload: bytes) -> Chunk:
    """What this payload says, whatever it is; never raises."""
    if len(payload) > LONG_PAYLOAD_BYTES:
        payload = PROMPT_IDS.sub(
            b'"prompt_token_ids":null', payload
        )  # 131072 ints are 5 MB in Python
    try:
        raw = json.loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return Chunk(defect=f"a data line is not JSON: {shown(payload)}")
    if not isinstance(raw, dict):
        return Chunk(defect=f"a data line is no JSON object: {shown(payload)}")
    choices = raw.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    choice = first if isinstance(first, dict) else None
    if raw.get("error") and choice is None:
        return Chunk(error=error_text(raw["error"]))
    return read_choice(choice, as_object(raw.get("usage")))


def read_choice(choice: dict[str, Any] | None, usage: dict[str, Any]) -> Chunk:
    inner = choice or {}
    delta = as_object(inner.get("delta"))
    ids = inner.get("token_ids")
    details = usage.get("prompt_tokens_details")
    tokens = usage.get("completion_tokens")
    finish = inner.get("finish_reason")
    return Chunk(
        usage=count(tokens),
        ids=len(ids) if isinstance(ids, list) else None,
        text=b"".join(inside(part.get(key)) for part in (inner, delta) for key in TEXT_KEYS),
        finish=str(finish) if finish else None,
        prompt_tokens=count(usage.get("prompt_tokens")),
        cached_tokens=count(details.get("cached_tokens")) if isinstance(details, dict) else None,
        is_choice=choice is not None,
        defect=None
        if tokens is None or count(tokens) is not None
        else f"usage.completion_tokens is {str(tokens)[:40]}",
    )


def as_object(value: object) -> dict[str, Any]:
    """An empty object for everything that is none."""
    return value if isinstance(value, dict) else {}


def count(value: object) -> int | None:
    """A number of tokens, or None for everything that cannot be one."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_TOKENS else None


def inside(text: object) -> bytes:
    """Text as the inside of a JSON string, so that both readers hand over the same kind."""
    return json.dumps(text)[1:-1].encode() if isinstance(text, str) and text else b""


def plain(raw: bytes) -> str:
    """The text of joined insides; half a UTF-8 character becomes U+FFFD, as in every browser."""
    if b"\\" not in raw:
        return raw.decode("utf-8", "replace")
    try:
        return str(json.loads('"' + raw.decode("utf-8", "replace") + '"', strict=False))
    except ValueError:
        return raw.decode("utf-8", "replace")


def error_text(error: object) -> str:
    """The message inside an error object, at most 500 characters."""
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or error)[:500]


def shown(payload: bytes) -> str:
    return repr(payload[:80].decode("utf-8", "replace"))
