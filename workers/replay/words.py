"""Tokens and text of the replay server: a simple, deterministic tokenizer and a small vocabulary
of our own.

A text is cut into pieces of 4 UTF-8 bytes; one piece is one token, so `count(a + b)` is within one
token of `count(a) + count(b)`, and the id of a piece is its checksum. A generated token is a word
of WORDS (id = FIRST_WORD_ID + index). What a stream says depends only on prompt and seed, never on
the lane: greedy speculation is lossless.
"""

import json
import random
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

VOCABULARY_SIZE = 262_144  # Gemma 4's
BYTES_PER_TOKEN = 4
FIRST_WORD_ID = 1000
BLOCK = 256  # words drawn at a time
HELD_SHARE = (
    10  # one word in ten ends in the middle of a character: its text comes with the next chunk
)

_TEXT = (
    " the| a| car| behind| in| front| of| and| to| draft| token| step| lane| race| wind|"
    " runs| fast| slow| then| when| it| is| was| we| you| they| can| will| each| one| two|"
    " three| more| less| than| so| that| this| road| curve| straight| engine| wheel| turns|"
    " light| heavy| morning| rain| track| line| start| finish| lap| second| third| keeps|"
    " holds| gives| takes| measures| counts| shows| says| with| without| for| from| at| on|"
    " over| under| near| far| again|,|.| because| if| else| return| value| list| name|"
    " number| result| speed| time| mean| window| open| close| stream| model| drafter| target|"
    " accepts| proposes| verifies| position| first| last| next| past| same| other| both| few|"
    " many| old| new| long| short| cold| warm| green| blue| orange| quiet| loud| small|"
    " large| early| late| still"
)
WORDS = tuple(_TEXT.split("|"))
JSON_WORDS = tuple(json.dumps(word)[1:-1] for word in WORDS)


def count_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8")) // BYTES_PER_TOKEN)


def encode(text: str) -> list[int]:
    """Token ids of a text."""
    raw = text.encode("utf-8")
    return [
        zlib.crc32(raw[i : i + BYTES_PER_TOKEN]) % VOCABULARY_SIZE
        for i in range(0, len(raw), BYTES_PER_TOKEN)
    ]


def render_chat(messages: Sequence[Any]) -> str:
    """The chat template: one turn per message, then the model's turn is opened."""
    turns = [f"<turn>{m.get('role', '')}\n{_content(m)}</turn>\n" for m in messages]
    return "".join(turns) + "<turn>model\n"


def _content(message: Any) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content)


class Writer:
    """The endless text of one stream: token by token, the same for the same prompt and seed."""

    def __init__(self, prompt: str | Sequence[int], seed: int) -> None:
        raw = prompt if isinstance(prompt, str) else ",".join(map(str, prompt))
        digest = blake2b(raw.encode("utf-8"), digest_size=8).digest()
        self._random = random.Random(int.from_bytes(digest, "big") ^ seed)
        self._block: list[int] = []
        self.natural_length = 200 + self._random.randrange(
            400
        )  # tokens, when it may stop by itself

    def write(self, tokens: int) -> list[int]:
        """The next `tokens` word indices."""
        while len(self._block) < tokens:
            self._block.extend(self._random.choices(range(len(WORDS)), k=BLOCK))
        taken, self._block = self._block[:tokens], self._block[tokens:]
        return taken


def is_held(word: int) -> bool:
    """True when this word's text waits for the next chunk (bytes that are not yet whole
    characters).
    """
    return word % HELD_SHARE == 0
