"""The load process against a server that knows to the token and microsecond what it sent."""

import json
import subprocess
import sys
import urllib.request
from bisect import bisect_right
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from workers.load.client import LoadProcess
from workers.load.messages import Done, Drive, Event, Started, Tick

HEATS = count(1)
MAX_ERROR = 0.001
ATTEMPTS = 4
"""A busy neighbour may delay a whole heat's edge; one heat in peace proves the arithmetic."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    command = [sys.executable, "-m", "bench.truth_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["port"]
        server.stdin.close()


async def drive(port: int, streams: int, seconds: float | None, **truth: Any) -> list[Event]:
    """One heat; the truth of it is under its id."""
    heat = f"heat{next(HEATS)}"
    max_tokens = truth.pop("max_tokens", None)
    body = {"stream": True} | ({"max_tokens": max_tokens} if max_tokens else {})
    order = Drive(
        id=heat,
        base_url=f"http://127.0.0.1:{port}",
        path="/v1/completions",
        bodies=tuple(body | {"truth": truth | {"heat": heat, "stream": n}} for n in range(streams)),
        seconds=seconds,
        open_deadline_s=30.0,
    )
    async with LoadProcess() as load:
        return [event async for event in load.drive(order)]


def truth_of(port: int, heat: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/truth/{heat}") as answer:
        streams = json.load(answer)
    return [streams[str(n)] for n in range(len(streams))]


def sent_until(stream: dict[str, Any], moment: float) -> float:
    """Cumulative tokens that the server had sent at `moment`, on the line between its chunks."""
    times, totals = stream["times"], stream["totals"]
    after = bisect_right(times, moment)
    if after in (0, len(times)):
        return float(totals[after - 1]) if after else 0.0
    share = (moment - times[after - 1]) / (times[after] - times[after - 1])
    return float(totals[after - 1] + share * (totals[after] - totals[after - 1]))


def window_error(port: int, events: list[Event]) -> float:
    """How far the window's throughput is from the server's own, as a share."""
    started, done = events[0], events[-1]
    assert isinstance(started, Started)
    assert isinstance(done, Done)
    assert done.window is not None
    opened, closed = (
        started.t0_monotonic + edge for edge in (done.window.open_s, done.window.close_s)
    )
    streams = truth_of(port, done.id)
    truth = sum(sent_until(one, closed) - sent_until(one, opened) for one in streams)
    return abs(done.window.tokens / truth - 1)


def ended(events: list[Event]) -> Done:
    done = events[-1]
    assert isinstance(done, Done)
    return done


SHAPES: dict[str, dict[str, Any]] = {
    "one token per chunk": {},
    "1 to 6 tokens per chunk": {"per_chunk": [1, 6]},
    "empty text in every third chunk": {"empty_every": 3},
    "role chunk first": {"role_chunk": True},
    "no token ids": {"token_ids": False, "per_chunk": [1, 4], "role_chunk": True},
    "all in step": {"is_spread": False},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
async def test_tokens_characters_and_text_equal_what_the_server_sent(
    port: int, shape: dict[str, Any]
) -> None:
    done = ended(await drive(port, 4, None, max_tokens=150, chunks_per_second=200.0, **shape))

    truth = truth_of(port, done.id)
    assert [one.tokens for one in done.streams] == [150] * 4
    assert [one.chunks - shape.get("role_chunk", 0) for one in done.streams] == [
        len(one["times"]) for one in truth
    ]
    assert [one.chars for one in done.streams] == [one["chars"] for one in truth]
    assert [one.text_sha256 for one in done.streams] == [one["text_sha256"] for one in truth]
    assert [one.first_tokens for one in done.streams] == [one["totals"][0] for one in truth]
    assert {one.finish for one in done.streams} == {"length"}
    assert (done.source, done.error) == ("usage", None)


@pytest.mark.parametrize("per_chunk", [[1, 1], [1, 6]], ids=["m=1", "m=1..6"])
async def test_window_throughput_is_within_a_thousandth_of_the_truth(
    port: int, per_chunk: list[int]
) -> None:
    errors: list[float] = []

    while len(errors) < ATTEMPTS and (not errors or min(errors) > MAX_ERROR):
        events = await drive(port, 8, 4.0, per_chunk=per_chunk)
        errors.append(window_error(port, events))

    assert min(errors) <= MAX_ERROR, errors


async def test_ticks_sum_to_the_total_and_cover_every_second(port: int) -> None:
    events = await drive(port, 3, 2.2, per_chunk=[1, 6], chunks_per_second=40.0)

    ticks = [event for event in events if isinstance(event, Tick)]
    done = ended(events)
    assert sum(tick.tokens for tick in ticks) == done.tokens == sum(s.tokens for s in done.streams)
    assert sum(tick.chunks for tick in ticks) == done.chunks
    assert [tick.second for tick in ticks] == list(range(len(ticks)))
    assert sum(tick.length_s for tick in ticks) == pytest.approx(done.seconds)
    assert [tick.partial for tick in ticks] == [False] * (len(ticks) - 1) + [True]
    assert any("speed" in tick.text for tick in ticks)


async def test_the_window_closes_when_the_first_stream_reaches_its_cap(port: int) -> None:
    events = await drive(port, 2, 20.0, max_tokens=60, chunks_per_second=100.0)

    window = ended(events).window
    assert window is not None
    assert window.closed_by == "first_end"
    assert window.close_s < 5.0


async def test_ttft_starts_with_the_request_and_ends_with_the_first_token(port: int) -> None:
    events = await drive(
        port, 2, None, max_tokens=5, role_chunk=True, first_after_s=0.3, is_spread=False
    )

    done = ended(events)
    truth = truth_of(port, done.id)
    for stream, sent in zip(done.streams, truth, strict=True):
        assert stream.ttft_s is not None
        assert stream.ttft_s >= sent["times"][0] - sent["asked_at"] >= 0.29


async def test_the_load_process_stays_small_and_reports_its_own_cost(port: int) -> None:
    done = ended(await drive(port, 64, 2.0))

    assert 10 < done.client.rss_mb < 80
    assert 0 < done.client.cpu_share < 1
    assert done.itl.p50_ms is not None
    assert 5 < done.itl.p50_ms < 20
