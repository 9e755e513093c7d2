"""Streams that real servers sent, read by both readers and at every cut."""

from pathlib import Path

import pytest

from workers.load.chunks import needles_for, read_fast, read_json
from workers.load.sse import Held, Payloads
from workers.load.tally import Tally

STREAMS = Path(__file__).parents[1] / "golden" / "streams"
# name: (mode, tokens, usage at the end, token ids, chunks, prompt tokens)
HELD = {
    "sglang-stream-chat": ("usage", 12, 12, None, 14, 20),
    "sglang-stream-completions-tokenids-continuous": ("usage", 12, 12, None, 12, 8),
    "sglang-stream-completions-usage-final-token_ids": ("token_ids", 12, 12, 12, 12, 8),
    "vllm-baseline-stream-chat": ("usage", 48, 48, None, 23, 21),
    "vllm-baseline-stream-completions-no-usage": ("none", 12, None, None, 12, None),
    "vllm-baseline-stream-completions-text": ("usage", 48, 48, None, 23, 12),
    "vllm-baseline-stream-completions-usage-final-only": ("none", 12, 12, None, 12, 16),
    "vllm-mtp-stream-chat-tokenids": ("usage", 48, 48, 48, 17, 21),
    "vllm-mtp-stream-completions-stream-interval": ("usage", 48, 48, None, 7, 16),
    "vllm-mtp-stream-completions-tokenids": ("usage", 48, 48, 48, 18, 16),
}


def payloads(name: str) -> list[bytes]:
    return Payloads(Held()).feed((STREAMS / f"{name}.sse").read_bytes())


def test_every_recorded_stream_has_its_expected_counts() -> None:
    assert {path.stem for path in STREAMS.glob("*.sse")} == set(HELD)


@pytest.mark.parametrize("name", HELD)
def test_a_recorded_stream_is_counted_to_the_token(name: str) -> None:
    tally = Tally()

    for payload in payloads(name)[:-1]:
        tally.add_chunk(read_json(payload))

    seen = (tally.mode, tally.tokens, tally.usage, tally.id_tokens, tally.chunks)
    assert (*seen, tally.prompt_tokens) == HELD[name]
    assert tally.first_tokens == 1
    assert tally.defect is None


@pytest.mark.parametrize("name", HELD)
def test_the_fast_reader_agrees_with_the_whole_reader(name: str) -> None:
    lines = payloads(name)[:-1]
    needles = needles_for(lines[0])
    slow, fast = Tally(), Tally()

    for payload in lines:
        slow.add_chunk(read_json(payload))
        found = read_fast(payload, needles)
        fast.add(*found) if found else fast.add_chunk(read_json(payload))

    texts = slow.flush_text(), fast.flush_text()
    assert texts[0] == texts[1] != ""
    assert slow.sha256.digest() == fast.sha256.digest()
    assert (slow.tokens, slow.chunks, slow.chars) == (fast.tokens, fast.chunks, fast.chars)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 301, 1000])
def test_cuts_anywhere_change_nothing(size: int) -> None:
    whole = (STREAMS / "vllm-mtp-stream-chat-tokenids.sse").read_bytes()
    cutter = Payloads(Held())

    pieces = [cutter.feed(whole[at : at + size]) for at in range(0, len(whole), size)]

    assert [payload for piece in pieces for payload in piece] == Payloads(Held()).feed(whole)
    assert cutter.held.bytes == 0
