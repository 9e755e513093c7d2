"""Prompts: exact length, paired between lanes, fresh in every heat, our own text."""

import re
import zlib

import pytest

from workers.prompts import library
from workers.prompts.library import WORKLOADS, Prompt, build, build_measured, salt_of, seeds

BEGIN = 2


class Words:
    """A tokenizer of words, spaces and pieces of up to five letters, with a begin token."""

    def __init__(self) -> None:
        self.calls = 0
        self.characters = 0

    async def encode(self, text: str) -> list[int]:
        self.calls += 1
        self.characters += len(text)
        pieces = re.findall(r" ?[A-Za-z]{1,5}|\s+|[^\sA-Za-z]", text)
        return [BEGIN, *(10 + zlib.crc32(piece.encode()) % 30_000 for piece in pieces)]

    async def count(self, text: str) -> int:
        return len(await self.encode(text))


def shown(prompts: list[Prompt]) -> list[str | list[int]]:
    return [prompt.content for prompt in prompts]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_class_has_at_least_8_measured_seeds_with_passage_and_task(workload: str) -> None:
    known = seeds(workload)

    assert len(known) >= 8 + library.WARMUP_SEEDS
    assert all(len(seed.passage) > 60 and len(seed.task) > 30 for seed in known)
    assert len(set(known)) == len(known)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("tokens", [1, 16, 100, 512, 4096])
async def test_token_prompts_have_exactly_the_asked_length(workload: str, tokens: int) -> None:
    prompts = await build(workload, tokens, 3, "salt", Words())

    assert [len(prompt.token_ids or ()) for prompt in prompts] == [tokens] * 3
    assert [prompt.tokens for prompt in prompts] == [tokens] * 3
    assert all((prompt.token_ids or ())[0] == BEGIN for prompt in prompts)
    assert all((prompt.token_ids or ()).count(BEGIN) == 1 for prompt in prompts)


async def test_131072_tokens_cost_a_few_small_calls_of_the_tokenizer() -> None:
    words = Words()

    prompts = await build("english-prose", 131_072, 8, "salt", words)

    assert {len(prompt.token_ids or ()) for prompt in prompts} == {131_072}
    assert words.calls < 40
    assert words.characters < 20_000


@pytest.mark.parametrize("context", [0, 300])
async def test_lanes_get_equal_prompts_and_heats_get_fresh_ones(context: int) -> None:
    heat = salt_of("run", "code", context, 4, 0)
    next_heat = salt_of("run", "code", context, 4, 1)

    baseline = await build("code", context, 12, heat, Words())
    variant = await build("code", context, 12, heat, Words())
    repeat = await build("code", context, 12, next_heat, Words())

    assert shown(baseline) == shown(variant)
    assert len({str(content) for content in shown(baseline)}) == 12
    assert not {str(c) for c in shown(baseline)} & {str(c) for c in shown(repeat)}


async def test_no_prefix_behind_the_first_tokens_is_shared_between_heats() -> None:
    one = (await build("chat", 400, 1, "aaaa", Words()))[0].token_ids or ()
    other = (await build("chat", 400, 1, "bbbb", Words()))[0].token_ids or ()

    common = next(n for n, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)

    assert common < 8


async def test_warm_up_uses_other_texts() -> None:
    measured = await build("code", 0, 16, "s", Words())
    warmup = await build("code", 0, 16, "s", Words(), is_warmup=True)

    tasks = [{(prompt.text or "").split("\n\n")[1] for prompt in few} for few in (measured, warmup)]

    assert tasks[0] & tasks[1] == set()


async def test_the_natural_prompt_is_salt_and_task_without_padding() -> None:
    prompt = (await build("japanese-prose", 0, 1, "s1", Words()))[0]

    assert prompt.text == "Session s1-000.\n\n" + seeds("japanese-prose")[0].task
    assert prompt.token_ids is None


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("tokens", [200, 512, 8192])
async def test_measured_text_reaches_the_asked_length(workload: str, tokens: int) -> None:
    words = Words()

    prompts = await build_measured(workload, tokens, 2, salt_of("run", 1), words.count)

    assert [prompt.tokens for prompt in prompts] == [tokens] * 2
    assert [await words.count(prompt.text or "") for prompt in prompts] == [tokens] * 2
    assert words.calls <= 2 * (library.MAX_MEASURES + 2)


async def test_a_text_longer_than_asked_says_its_real_length() -> None:
    prompt = (await build_measured("code", 5, 1, salt_of("run", 1), Words().count))[0]

    assert prompt.tokens is not None
    assert prompt.tokens > 5


async def test_no_server_sees_a_measured_prompt_before_it_is_raced() -> None:
    asked: list[str] = []

    async def measure(text: str) -> int:
        asked.append(text)
        return len(text) // 4

    prompts = await build_measured("code", 512, 2, salt_of("run", 1), measure)

    assert asked
    assert not {prompt.text for prompt in prompts} & set(asked)


async def test_lengths_found_once_cost_no_further_requests() -> None:
    words = Words()
    fits: library.Fits = {}
    await build_measured("code", 512, 2, salt_of("run", 1), words.count, fits=fits)
    asked = words.calls

    again = await build_measured("code", 512, 2, salt_of("run", 2), words.count, fits=fits)

    assert words.calls == asked
    assert [await words.count(prompt.text or "") for prompt in again] == [512] * 2


async def test_without_lengths_the_short_prompt_can_still_be_raced() -> None:
    async def silent(_text: str) -> None:
        return None

    (prompt,) = await build_measured("code", 0, 1, salt_of("run", 1), silent)

    assert prompt.tokens is None
    with pytest.raises(ValueError, match="only context 0"):
        await build_measured("code", 512, 1, salt_of("run", 1), silent)


async def test_a_tokenizer_that_gives_nothing_does_not_hang_the_worker() -> None:
    class Mute(Words):
        async def encode(self, text: str) -> list[int]:
            return [1, 2] if text.startswith("Session") else []

    with pytest.raises(ValueError, match="no tokens"):
        await build("code", 64, 1, salt_of("run", 1), Mute())


async def test_a_tokenizer_that_knows_only_the_warm_up_does_not_hang_the_race() -> None:
    spared = {seed.passage + "\n\n" for seed in seeds("code")[-library.WARMUP_SEEDS :]}

    class Partial(Words):
        async def encode(self, text: str) -> list[int]:
            return [1, 2] if text.startswith("Session") or text in spared else []

    with pytest.raises(ValueError, match="no tokens"):
        await build("code", 64, 1, salt_of("run", 1), Partial())


async def test_an_unknown_workload_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown workload 'poems'; known: code, english-prose"):
        await build("poems", 0, 1, "s", Words())
