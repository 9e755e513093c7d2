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


Measure = Callable[[str], Awaitable[int | None]]
"""Text -> usage.prompt_tokens, for servers without /tokenize; None when the server does not tell.
Each call is a request."""

Fits = dict[tuple[str, int, int, bool], tuple[int, int, int]]
"""(workload, context, stream, is_warmup) -> characters and pads of filler, and their tokens."""


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
    tokens: int | None
    """The length by the server's own tokenizer or usage; None when it was not asked."""
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
    """The salt of a heat: from run, cell and repetition, never from the lane, so that lanes are
    paired. Twelve decimal digits: tokenizers take digits one by one or in groups of a fixed size,
    so that every salt is as long as every other."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()
    return f"{int(digest, 16) % 10**12:012d}"


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
        texts = [natural(workload, n, salt, is_warmup) for n in numbers]
        return [
            Prompt(workload, n, await tokenizer.count(text), text=text)
            for n, text in enumerate(texts)
        ]
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
    fits: Fits | None = None,
) -> list[Prompt]:
    """The same as text, for servers without /tokenize: usage.prompt_tokens tells, the text follows.

    Lengths are measured under another salt than the prompt is built with, so that no cache has seen
    it; a salt may tokenise a token longer or shorter, and usage tells the real length in the heat.
    `fits` remembers what was found, so that later heats cost no request. At context 0 no length is
    needed and nothing is measured.
    """
    known = fits if fits is not None else {}
    prompts = []
    for stream in range(streams):
        if context_tokens == 0:
            text = natural(workload, stream, salt, is_warmup)
            prompts.append(Prompt(workload, stream, None, text=text))
            continue
        key = (workload, context_tokens, stream, is_warmup)
        if key not in known:
            probe = salt_of(salt, "probe")
            known[key] = await fit(workload, stream, probe, context_tokens, measure, is_warmup)
        characters, pads, tokens = known[key]
        text = filled(workload, stream, salt, characters, pads, is_warmup=is_warmup)
        prompts.append(Prompt(workload, stream, tokens, text=text))
    return prompts


def natural(workload: str, stream: int, salt: str, is_warmup: bool) -> str:
    """The short prompt: salt and task."""
    return salt_line(salt, stream) + pick(workload, stream, is_warmup=is_warmup).task


def filled(
    workload: str, stream: int, salt: str, characters: int, pads: int, *, is_warmup: bool
) -> str:
    """A prompt with this much filler."""
    task = pick(workload, stream, is_warmup=is_warmup).task
    middle = filler(workload, stream, characters, is_warmup=is_warmup) + PAD * pads
    return f"{salt_line(salt, stream)}{middle}\n\n{task}"


def salt_line(salt: str, stream: int) -> str:
    return f"Session {salt}-{stream:03d}.\n\n"


def usable_seeds(workload: str, *, is_warmup: bool) -> range:
    """Indexes of the seeds that this kind of heat may use."""
    known = len(seeds(workload))
    return range(known - WARMUP_SEEDS, known) if is_warmup else range(known - WARMUP_SEEDS)


def passage_order(workload: str, stream: int, *, is_warmup: bool) -> Iterator[int]:
    """Indexes of passages without end, in an order of the stream's own, every round another."""
    usable = usable_seeds(workload, is_warmup=is_warmup)
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
        usable = usable_seeds(self.workload, is_warmup=self.is_warmup)
        if not any(self.passages[index] for index in usable):
            raise ValueError("the tokenizer gives no tokens for text")
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
) -> tuple[int, int, int]:
    """Search the filler's length: by the slope first, by halving when that fails, by padding at
    the end. ValueError when the server does not tell lengths at all."""

    async def ask(characters: int, pads: int) -> int:
        text = filled(workload, stream, salt, characters, pads, is_warmup=is_warmup)
        tokens = await measure(text)
        if tokens is None:
            raise ValueError("the server tells no prompt length: only context 0 can be raced")
        return tokens

    low, high = (0, await ask(0, 0)), None
    best, best_tokens = (0, 0), low[1]
    characters, pads = max(0, wanted - low[1]) * 3, 0
    tried: set[tuple[int, int]] = set()
    for _ in range(MAX_MEASURES):
        if best_tokens == wanted or low[1] > wanted:
            break
        tokens = await ask(characters, pads)
        if abs(tokens - wanted) < abs(best_tokens - wanted):
            best, best_tokens = (characters, pads), tokens
        if tokens <= wanted and pads == 0 and characters >= low[0]:
            low = (characters, tokens)
        elif tokens > wanted and pads == 0:
            high = (characters, tokens)
        tried.add((characters, pads))
        characters, pads = next_try(wanted, low, high, (characters, tokens, pads))
        while (characters, pads) in tried and characters > 0:
            characters -= 1  # a pad that merges with what is before it needs another end before it
    return (*best, best_tokens)


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
