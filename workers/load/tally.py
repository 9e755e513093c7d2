"""What one stream has given so far: tokens, chunks, text. Pure counting; time is handed in.

Which number counts is decided once, by the first chunk that brings anything: cumulative usage,
else token ids,
else chunks with text. A usage that comes only at the end is reported beside the count and never
mixed into it:
it says how many, but not when.
"""

import hashlib
from typing import Literal

from workers.load.chunks import Chunk, plain

MAX_RAW_BYTES = 64 * 1024
"""Text that may wait for the next flush."""

Mode = Literal["usage", "token_ids", "none"]


class Tally:
    """The counts of one stream."""

    __slots__ = (
        "cached_tokens",
        "chars",
        "chunks",
        "defect",
        "first_tokens",
        "id_tokens",
        "mode",
        "prompt_tokens",
        "raw",
        "raw_bytes",
        "sha256",
        "text_chunks",
        "tokens",
        "usage",
    )

    def __init__(self) -> None:
        self.tokens = 0
        self.chunks = 0
        self.chars = 0
        self.first_tokens = 0
        self.text_chunks = 0
        self.usage: int | None = None
        self.id_tokens: int | None = None
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.mode: Mode | None = None
        self.defect: str | None = None
        self.raw: list[bytes] = []
        self.raw_bytes = 0
        self.sha256 = hashlib.sha256()

    def add(self, usage: int | None, ids: int | None, raw: bytes) -> int:
        """Count one ordinary chunk; how many tokens it brought."""
        self.chunks += 1
        if raw:
            self.text_chunks += 1
            self.raw.append(raw)
            self.raw_bytes += len(raw)
        if ids is not None:
            self.id_tokens = ids + (self.id_tokens or 0)
        if usage is not None:
            self.see_usage(usage)
        if self.mode is None and (raw or ids or usage):
            self.mode = "usage" if usage is not None else "token_ids" if ids is not None else "none"
        return self.grow()

    def add_chunk(self, chunk: Chunk) -> int:
        """The same for a chunk that was parsed whole: it may also bring prompt figures or no
        choice."""
        if chunk.defect:
            self.note(chunk.defect)
        if chunk.prompt_tokens is not None:
            self.prompt_tokens = chunk.prompt_tokens
        if chunk.cached_tokens is not None:
            self.cached_tokens = chunk.cached_tokens
        if chunk.is_choice:
            return self.add(chunk.usage, chunk.ids, chunk.text)
        if chunk.usage is not None:
            self.see_usage(chunk.usage)
        return self.grow()

    def see_usage(self, usage: int) -> None:
        if self.usage is not None and usage < self.usage:
            self.note(f"usage fell from {self.usage} to {usage}")
            return
        self.usage = usage

    def grow(self) -> int:
        """Bring the count up to its source; never down."""
        if self.mode == "usage":
            total = self.usage or 0
        else:
            total = self.id_tokens or 0 if self.mode == "token_ids" else self.text_chunks
        grown = total - self.tokens
        if grown <= 0:
            return 0
        if not self.tokens:
            self.first_tokens = grown
        self.tokens = total
        return grown

    def flush_text(self) -> str:
        """Turn the text that waited into characters and hash; give it back."""
        if not self.raw:
            return ""
        text = plain(b"".join(self.raw))
        self.raw.clear()
        self.raw_bytes = 0
        self.chars += len(text)
        self.sha256.update(text.encode("utf-8", "surrogatepass"))
        return text

    def note(self, defect: str) -> None:
        """Remember the first thing that was wrong without ending the stream."""
        self.defect = self.defect or defect
