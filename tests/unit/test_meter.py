"""Deltas of counters, and waiting until a server rests."""

import httpx
import pytest

from app.domain.acceptance import Acceptance
from app.domain.engine_args import EngineKind
from workers.engines import ENGINES
from workers.engines.base import Counters, LaunchPlan
from workers.meter import Meter, acceptance_delta, delta

BEFORE = Counters(
    generation_tokens=100,
    prompt_tokens=10,
    acceptance=Acceptance(drafts=10, drafted=30, accepted=20, per_position=(9, 7, 4)),
)
AFTER = Counters(
    generation_tokens=160,
    prompt_tokens=20,
    cached_tokens=5,
    acceptance=Acceptance(drafts=25, drafted=75, accepted=50, per_position=(22, 18, 10)),
)
PLAN = LaunchPlan(argv=(), env={}, base_url="http://x", served_model=None)


def page(tokens: int, running: int) -> str:
    """A /metrics page."""
    return f"vllm:generation_tokens_total {tokens}\nvllm:num_requests_running {running}\n"


def make_meter(pages: list[str]) -> Meter:
    """A meter whose server answers these pages in turn, the last one for ever."""

    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=pages.pop(0) if len(pages) > 1 else pages[0])

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return Meter(client, ENGINES[EngineKind.VLLM], PLAN)


def test_a_delta_counts_what_happened_in_between() -> None:
    change = delta(BEFORE, AFTER)

    assert (change.tokens, change.prompt_tokens, change.cached_tokens) == (60, 10, 0)
    assert change.acceptance == Acceptance(
        drafts=15, drafted=45, accepted=30, per_position=(13, 11, 6)
    )


def test_counters_that_fell_were_reset_and_say_nothing() -> None:
    change = delta(AFTER, BEFORE)

    assert (change.tokens, change.acceptance) == (None, None)


def test_a_missing_reading_gives_no_delta() -> None:
    assert delta(None, AFTER).tokens is None
    assert acceptance_delta(None, AFTER.acceptance) is None


@pytest.mark.anyio
async def test_a_server_rests_when_nothing_runs_and_the_count_stands_still() -> None:
    meter = make_meter([page(5, 1), page(8, 0), page(9, 0), page(9, 0)])

    settled = await meter.settled(5)

    assert settled.is_settled
    assert settled.counters is not None
    assert settled.counters.generation_tokens == 9


@pytest.mark.anyio
async def test_a_server_that_never_rests_is_reported_as_such() -> None:
    settled = await make_meter([page(5, 1)]).settled(0)

    assert not settled.is_settled
    assert settled.counters is not None


@pytest.mark.anyio
async def test_a_server_without_counters_gives_none_not_zero() -> None:
    assert await make_meter(["# nothing here\n"]).read() is None
