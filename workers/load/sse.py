"""Server-sent events out of byte pieces: whole `data:` payloads, whatever the cuts. Knows no JSON.

A line over its limit is dropped and counted, so that a server cannot fill the memory.
"""

MAX_LINE_BYTES = 4 * 1024 * 1024
"""A first chunk may echo 131072 prompt token ids: about 0.9 MB."""
MAX_HELD_BYTES = 16 * 1024 * 1024
"""All unfinished lines of a heat together."""


class Held:
    """Bytes of unfinished lines, over all streams of a heat."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Payloads:
    """Cuts one stream's body into `data:` payloads."""

    __slots__ = ("dropped", "held", "is_dropping", "rest", "rest_bytes")

    def __init__(self, held: Held) -> None:
        self.held = held
        self.rest: list[bytes] = []
        self.rest_bytes = 0
        self.is_dropping = False
        self.dropped = 0
        """Lines that were too long."""

    def feed(self, body: bytes) -> list[bytes]:
        """The payloads that are complete with this piece, without `data:` and blanks around."""
        if not self.rest and not self.is_dropping and body.endswith(b"\n"):
            end = body.find(b"\n")
            if end >= len(body) - 2 and end > 8 and body.startswith(b"data: "):
                return [body[6:end].rstrip()]  # one event in one piece: nearly all traffic is this
            return payloads_of(body.split(b"\n"))
        return self.feed_cut(body)

    def feed_cut(self, body: bytes) -> list[bytes]:
        """The same for pieces that do not begin and end with a line."""
        end = body.rfind(b"\n") + 1
        whole = b""
        if end:
            whole = b"".join(self.rest) + body[:end]
            if self.is_dropping:
                whole = body[body.find(b"\n") + 1 : end]
                self.is_dropping = False
            self.forget()
            body = body[end:]
        if body and not self.is_dropping:
            self.keep(body)
        return payloads_of(whole.split(b"\n")) if whole else []

    def finish(self) -> list[bytes]:
        """The last line when the server did not end it."""
        last = b"".join(self.rest)
        self.forget()
        return payloads_of([last])

    def keep(self, piece: bytes) -> None:
        size = self.rest_bytes + len(piece)
        if size > MAX_LINE_BYTES or self.held.bytes + len(piece) > MAX_HELD_BYTES:
            self.forget()
            self.is_dropping = True
            self.dropped += 1
            return
        self.rest.append(piece)
        self.rest_bytes = size
        self.held.bytes += len(piece)

    def forget(self) -> None:
        self.held.bytes -= self.rest_bytes
        self.rest_bytes = 0
        self.rest = []


def payloads_of(lines: list[bytes]) -> list[bytes]:
    """Comments, `event:`, `id:`, `retry:` and blank lines carry nothing to count."""
    return [
        payload for line in lines if line.startswith(b"data:") and (payload := line[5:].strip())
    ]
