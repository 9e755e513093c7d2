"""Every flag a heat can earn, each from the smallest fact that earns it."""

from dataclasses import replace

import pytest

from app.domain.acceptance import Acceptance
from app.domain.flags import FLAGS
from app.domain.heats import ClientLoad, GpuSummary, HeatSummary, StreamSummary, Window
from workers.judge import Asked, Seen, flags

BASELINE = Asked(is_forced=True, seconds=10, max_tokens=1000, context=0, speculates=False, k=None)
MTP = replace(BASELINE, speculates=True, k=3)
COUNTS = Acceptance(drafts=100, drafted=300, accepted=200, per_position=(90, 70, 40))


def make_summary(**changes: object) -> HeatSummary:
    """A clean forced heat of two streams that were closed at the planned end."""
    clean = HeatSummary(
        tokens=1000,
        seconds=10.5,
        window=Window(open_s=0.5, close_s=10.5, tokens=950),
        streams=(make_stream(0), make_stream(1)),
        counter_tokens=1004,
    )
    return clean.model_copy(update=changes)


def make_stream(number: int, **changes: object) -> StreamSummary:
    """One stream of 500 tokens, closed by us."""
    stream = StreamSummary(stream=number, tokens=500, finish="aborted", prompt_tokens=100)
    return stream.model_copy(update=changes)


def test_a_clean_heat_earns_nothing() -> None:
    assert flags(make_summary(), BASELINE, Seen()) == ()
    assert flags(make_summary(acceptance=COUNTS), MTP, Seen()) == ()


@pytest.mark.parametrize(
    ("word", "changes"),
    [
        ("approximate", {"source": "none"}),
        ("count-mismatch", {"counter_tokens": 5000}),
        ("count-mismatch", {"counter_tokens": 999}),
        ("request-failed", {"error": "HTTP 500"}),
        ("request-failed", {"streams": (make_stream(0, finish="error"),)}),
        ("stopped-early", {"streams": (make_stream(0, finish="stop"),), "counter_tokens": 1000}),
        ("context-cut", {"streams": (make_stream(0, finish="length"),), "counter_tokens": 1000}),
        ("client-bound", {"client": ClientLoad(cpu_share=0.6)}),
        ("client-bound", {"client": ClientLoad(loop_lag_p99_ms=25)}),
        ("client-void", {"client": ClientLoad(cpu_share=0.9)}),
        ("throttled", {"gpu": GpuSummary(samples=3, throttle_reasons=("software power cap",))}),
        (
            "capped",
            {"window": Window(open_s=0, close_s=5, tokens=1, closed_by="first_end")},
        ),
        ("not-what-was-asked", {"acceptance": COUNTS}),
    ],
)
def test_a_fact_of_the_heat_earns_its_flag(word: str, changes: dict[str, object]) -> None:
    assert word in flags(make_summary(**changes), BASELINE, Seen())


@pytest.mark.parametrize(
    ("word", "seen"),
    [
        ("engine-died", Seen(engine_died=True)),
        ("cached-prefix", Seen(cached_tokens=16)),
        ("preempted", Seen(preemptions=1)),
        ("preempted", Seen(seconds_short=2)),
        ("not-alone", Seen(seconds_with_others=2)),
        ("not-alone", Seen(foreign_gpu_processes=1)),
        ("not-warm", Seen(is_warm=False)),
    ],
)
def test_a_fact_around_the_heat_earns_its_flag(word: str, seen: Seen) -> None:
    assert flags(make_summary(), BASELINE, seen) == (word,)


@pytest.mark.parametrize(
    "counts",
    [
        None,
        Acceptance(drafts=0, drafted=0, accepted=0),
        Acceptance(drafts=100, drafted=400, accepted=200),
    ],
)
def test_speculation_that_is_off_or_other_than_asked_is_seen(counts: Acceptance | None) -> None:
    assert flags(make_summary(acceptance=counts), MTP, Seen()) == ("not-what-was-asked",)


def test_without_counters_nothing_is_said_about_speculation() -> None:
    assert flags(make_summary(counter_tokens=None), MTP, Seen(has_counters=False)) == ()


def test_a_drafter_that_is_never_right_is_dead() -> None:
    counts = Acceptance(drafts=20, drafted=60, accepted=0)

    assert flags(make_summary(acceptance=counts), MTP, Seen()) == ("drafter-dead",)


def test_an_aborted_stream_may_leave_the_server_a_little_ahead() -> None:
    assert flags(make_summary(counter_tokens=1000 + 2 * 64), BASELINE, Seen()) == ()
    assert flags(make_summary(counter_tokens=1000 + 2 * 64 + 1), BASELINE, Seen()) == (
        "count-mismatch",
    )


def test_streams_that_ended_by_themselves_must_agree_to_the_token() -> None:
    ended = (make_stream(0, finish="length"), make_stream(1, finish="length"))
    asked = replace(BASELINE, max_tokens=500)

    assert flags(make_summary(streams=ended, counter_tokens=1000), asked, Seen()) == ()
    assert flags(make_summary(streams=ended, counter_tokens=1001), asked, Seen()) == (
        "count-mismatch",
    )


def test_a_prompt_more_than_one_percent_off_is_told() -> None:
    asked = replace(BASELINE, context=100)
    off = (make_stream(0, prompt_tokens=102),)

    assert flags(make_summary(), asked, Seen()) == ()
    assert "context-off" in flags(make_summary(streams=off), asked, Seen())


def test_stopping_early_is_right_in_natural_mode() -> None:
    natural = replace(BASELINE, is_forced=False)
    stopped = make_summary(streams=(make_stream(0, finish="stop"),), counter_tokens=1000)

    assert flags(stopped, natural, Seen()) == ()


def test_every_word_is_in_the_table() -> None:
    seen = Seen(engine_died=True, cached_tokens=1, preemptions=1, is_warm=False)

    assert set(flags(make_summary(source="none", error="x"), MTP, seen)) <= set(FLAGS)


@pytest.mark.parametrize(
    "counts",
    [
        Acceptance(drafts=100, drafted=100, accepted=80, per_position=(80,)),
        Acceptance(drafts=100, drafted=200, accepted=150, per_position=(90, 60, 0)),
    ],
)
def test_a_k_that_the_engine_ignores_is_seen(counts: Acceptance) -> None:
    assert flags(make_summary(acceptance=counts), MTP, Seen()) == ("not-what-was-asked",)


def test_a_few_short_drafts_near_the_end_of_the_context_are_fine() -> None:
    counts = Acceptance(drafts=100, drafted=295, accepted=200, per_position=(90, 70, 40))

    assert flags(make_summary(acceptance=counts), MTP, Seen()) == ()


def test_usage_that_contradicts_the_token_ids_voids_the_heat() -> None:
    lie = make_stream(0, usage_tokens=1000, id_tokens=500)

    assert "count-mismatch" in flags(make_summary(streams=(lie,)), BASELINE, Seen())


def test_drafts_accepted_and_requests_must_make_the_tokens() -> None:
    asked = replace(MTP, drafts_every_step=True)
    right = Acceptance(drafts=400, drafted=1200, accepted=604, per_position=(300, 200, 104))
    wrong = Acceptance(drafts=400, drafted=1200, accepted=300, per_position=(150, 100, 50))

    assert flags(make_summary(acceptance=right), asked, Seen()) == ()
    assert flags(make_summary(acceptance=wrong), asked, Seen()) == ("count-mismatch",)


def test_somebody_elses_load_is_seen_in_a_short_heat_too() -> None:
    busy = Seen(is_count_settled=False)

    assert flags(make_summary(counter_tokens=11_000), BASELINE, busy) == ("not-alone",)
    assert flags(make_summary(), BASELINE, Seen(steady_seconds=1, seconds_with_others=1)) == (
        "not-alone",
    )
    assert flags(make_summary(), BASELINE, busy) == ()


def test_a_stream_that_was_served_from_a_cache_says_so() -> None:
    cached = (make_stream(0, cached_tokens=255),)

    assert "cached-prefix" in flags(make_summary(streams=cached), BASELINE, Seen())
