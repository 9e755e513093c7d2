"""Prompts of an exact token length, the same for every lane, never served by a prefix cache.

    prompt = [begin token] + salt line + passages of the class up to the asked length + task

The salt opens every prompt, so nothing behind it is a known prefix; passages come in an order of
the stream's own. Knows no HTTP: a tokenizer or a way to measure is handed in.
"""

import hashlib
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

DATA = Path(__file__).parent / "data"
WORKLOADS = ("code", "english-prose", "japanese-prose", "chat", "structured")
WARMUP_SEEDS = 2
"""The last seeds of each class warm up and are never measured."""
MAX_MEASURES = 24
PAD = " a"
"""One token in every tokenizer seen so far; in a line of its own, where nothing merges with it."""


class Tokenizer(Protocol):
    """What a server's /tokenize gives."""

    async def count(self, text: str) -> int: ...

    async def encode(self, text: str) -> list[int]:
        """Ids as the server would see them, with its begin token if it adds one."""
        ...


Measure = Callable[[str], Awaitable[int]]
"""Text -> usage.prompt_tokens, for servers without /tokenize. Each call is a request."""


@dataclass(frozen=True)
class Seed:
    """One entry of the library."""

    passage: str
    task: str


@dataclass(frozen=True)
class Prompt:
    """What one stream asks. Exactly one of text and token_ids is what to send."""

    workload: str
    stream: int
    tokens: int
    """The real length, counted by the server's own tokenizer or usage."""
    text: str | None = None
    token_ids: tuple[int, ...] | None = None

    @property
    def content(self) -> str | list[int]:
        return list(self.token_ids) if self.token_ids is not None else self.text or ""


@cache
def seeds(workload: str) -> tuple[Seed, ...]:
    """The class's entries; ValueError with the known classes for an unknown one."""
    if workload not in WORKLOADS:
        raise ValueError(f"unknown workload {workload!r}; known: {', '.join(WORKLOADS)}")
    entries = (DATA / f"{workload}.txt").read_text("utf-8").split("\n---\n")
    pairs = (entry.rpartition("\n>>> ") for entry in entries)
    return tuple(Seed(passage.strip(), task.strip()) for passage, _, task in pairs)


def salt_of(*parts: object) -> str:
    """A heat's salt: of run, cell and repetition, never of the lane, so that lanes are paired."""
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:12]


def pick(workload: str, stream: int, *, is_warmup: bool) -> Seed:
    """The seed of this stream; warm-up never sees a measured one."""
    known = seeds(workload)
    chosen = known[-WARMUP_SEEDS:] if is_warmup else known[:-WARMUP_SEEDS]
    return chosen[stream % len(chosen)]


async def build(
    workload: str,
    context_tokens: int,
    streams: int,
    salt: str,
    tokenizer: Tokenizer,
    *,
    is_warmup: bool = False,
) -> list[Prompt]:
    """One prompt per stream, token ids of exactly `context_tokens`; 0: the natural short prompt."""
    numbers = range(streams)
    if context_tokens == 0:
        return [await natural(workload, n, salt, tokenizer.count, is_warmup) for n in numbers]
    blocks = await Blocks.encode(workload, tokenizer, is_warmup=is_warmup)
    prompts = []
    for stream in numbers:
        head = await blocks.encode_whole(salt_line(salt, stream))
        ids = blocks.compose(
            head, pick(workload, stream, is_warmup=is_warmup), stream, context_tokens
        )
        prompts.append(Prompt(workload, stream, len(ids), token_ids=tuple(ids)))
    return prompts


async def build_measured(
    workload: str,
    context_tokens: int,
    streams: int,
    salt: str,
    measure: Measure,
    *,
    is_warmup: bool = False,
) -> list[Prompt]:
    """The same as text, for servers without /tokenize: usage.prompt_tokens tells, the text follows.

    `Prompt.tokens` is what was measured; it differs from the asked length only where a tokenizer
    skips that number, or after MAX_MEASURES requests.
    """
    numbers = range(streams)
    if context_tokens == 0:
        return [await natural(workload, n, salt, measure, is_warmup) for n in numbers]
    return [await fit(workload, n, salt, context_tokens, measure, is_warmup) for n in numbers]


async def natural(workload: str, stream: int, salt: str, count: Measure, is_warmup: bool) -> Prompt:
    text = salt_line(salt, stream) + pick(workload, stream, is_warmup=is_warmup).task
    return Prompt(workload, stream, await count(text), text=text)


def salt_line(salt: str, stream: int) -> str:
    return f"Session {salt}-{stream:03d}.\n\n"


def passage_order(workload: str, stream: int, *, is_warmup: bool) -> Iterator[int]:
    """Indexes of passages without end, in an order of the stream's own, every round another."""
    known = len(seeds(workload))
    usable = range(known - WARMUP_SEEDS, known) if is_warmup else range(known - WARMUP_SEEDS)
    dice = random.Random(f"{workload}/{stream}")  # seeded: the same in every lane
    while True:
        yield from dice.sample(usable, len(usable))


class Blocks:
    """A class's texts as token ids: each is encoded once, however long the prompts get."""

    def __init__(self, workload: str, tokenizer: Tokenizer, *, is_warmup: bool) -> None:
        self.workload = workload
        self.tokenizer = tokenizer
        self.is_warmup = is_warmup
        self.begin: list[int] = []
        self.passages: list[list[int]] = []
        self.tasks: dict[str, list[int]] = {}

    @classmethod
    async def encode(cls, workload: str, tokenizer: Tokenizer, *, is_warmup: bool) -> "Blocks":
        blocks = cls(workload, tokenizer, is_warmup=is_warmup)
        one, other = await tokenizer.encode("a"), await tokenizer.encode("7")
        blocks.begin = one[:1] if len(one) > 1 and one[:1] == other[:1] else []
        for seed in seeds(workload):
            blocks.passages.append(await blocks.encode_inside(seed.passage + "\n\n"))
            blocks.tasks[seed.task] = await blocks.encode_inside("\n\n" + seed.task)
        return blocks

    async def encode_whole(self, text: str) -> list[int]:
        return await self.tokenizer.encode(text)

    async def encode_inside(self, text: str) -> list[int]:
        """Without the begin token, which stands at the very front only."""
        ids = await self.tokenizer.encode(text)
        return ids[1:] if self.begin and ids[:1] == self.begin else ids

    def compose(self, head: list[int], seed: Seed, stream: int, length: int) -> list[int]:
        """Exactly `length` ids: head, passages, task; a short prompt loses its task's start."""
        room = length - len(head)
        if room <= 0:
            return head[:length]
        task = self.tasks[seed.task][-room:]
        ids = list(head)
        for index in passage_order(self.workload, stream, is_warmup=self.is_warmup):
            free = length - len(task) - len(ids)
            if free <= 0:
                return ids + task
            ids += self.passages[index][:free]
        raise AssertionError("passages never end")


def filler(workload: str, stream: int, characters: int, *, is_warmup: bool) -> str:
    """This many characters of passages."""
    pieces: list[str] = []
    have = 0
    for index in passage_order(workload, stream, is_warmup=is_warmup):
        if have >= characters:
            break
        pieces.append(seeds(workload)[index].passage + "\n\n")
        have += len(pieces[-1])
    return "".join(pieces)[:characters]


async def fit(
    workload: str, stream: int, salt: str, wanted: int, measure: Measure, is_warmup: bool
) -> Prompt:
    """Search the filler's length: along the slope, between bounds, with pads at the end."""
    task = pick(workload, stream, is_warmup=is_warmup).task

    def text_of(characters: int, pads: int) -> str:
        middle = filler(workload, stream, characters, is_warmup=is_warmup)
        return f"{salt_line(salt, stream)}Notes{PAD * pads}.\n\n{middle}\n\n{task}"

    low, high = (0, await measure(text_of(0, 0))), None
    best = Prompt(workload, stream, low[1], text=text_of(0, 0))
    characters, pads = max(0, wanted - low[1]) * 3, 0
    for _ in range(MAX_MEASURES):
        if best.tokens == wanted or low[1] > wanted:
            break
        text = text_of(characters, pads)
        tokens = await measure(text)
        if abs(tokens - wanted) < abs(best.tokens - wanted):
            best = Prompt(workload, stream, tokens, text=text)
        if tokens <= wanted and pads == 0 and characters >= low[0]:
            low = (characters, tokens)
        elif tokens > wanted and pads == 0:
            high = (characters, tokens)
        characters, pads = next_try(wanted, low, high, (characters, tokens, pads))
    return best


def next_try(
    wanted: int,
    low: tuple[int, int],
    high: tuple[int, int] | None,
    last: tuple[int, int, int],
) -> tuple[int, int]:
    """The next (characters, pads): near the goal pads, one token each; before along the slope."""
    characters, tokens, pads = last
    if pads:  # padding was off: one more or fewer; a tokenizer may merge pads
        return characters, max(1, pads + wanted - tokens)
    if 0 < wanted - low[1] <= 8:
        return low[0], wanted - low[1]
    if high is None:
        rate = max(0.2, tokens / max(1, characters))
        return characters + max(1, int((wanted - tokens) / rate)), 0
    share = (wanted - low[1]) / (high[1] - low[1])
    step = int((high[0] - low[0]) * share)
    return low[0] + min(max(1, step), max(1, high[0] - low[0] - 1)), 0
