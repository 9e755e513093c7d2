"""The replay server's arithmetic: the book's interpolation, the pace of steps, acceptance draws."""

import json
import math
import random
from pathlib import Path

import pytest

from workers.replay.acceptance import accepted, blend, geometric, tokens_per_step
from workers.replay.book import BookError, open_book
from workers.replay.pace import Pace

PUBLISHED = Path(__file__).resolve().parents[2] / "published"
B300 = f"{PUBLISHED}/b300-sglang-gemma4-26b-a4b.json"
GB10 = f"{PUBLISHED}/gb10-vllm-gemma4-26b-31b.json"
LAPTOP = f"{PUBLISHED}/rtx5090m-vllm-llamacpp-gemma4.json"


def paced_tokens_per_second(
    seed: int, profile: tuple[float, ...], speed: float, streams: int
) -> float:
    """Ten seconds of planned steps, without a clock: tokens over planned time."""
    rng = random.Random(seed)
    pace = Pace(rng, heat_noise=0.0)
    pace.begin(0.0)
    pace.tune(speed, streams * tokens_per_step(profile))
    total = 0
    while pace.deadline < 10.0:
        pace.next_deadline()
        tokens = sum(1 + accepted(profile, rng.random()) for _ in range(streams))
        pace.count(tokens)
        total += tokens
    return total / pace.deadline


def test_a_recorded_cell_is_played_at_its_recorded_speed() -> None:
    book = open_book(B300, "mtp-k5")

    play = book.play(32768, 4)

    assert play.tokens_per_second == pytest.approx(744.750)
    assert sum(play.per_position) / 5 == pytest.approx(1.0)


def test_between_cells_speed_is_linear_in_log_concurrency_and_in_context() -> None:
    book = open_book(B300, "baseline")

    between_concurrency = book.play(0, 2).tokens_per_second
    between_context = book.play(4096, 1).tokens_per_second

    assert between_concurrency == pytest.approx(
        188.961 + (592.781 - 188.961) * math.log(2) / math.log(4)
    )
    assert between_context == pytest.approx((188.961 + 171.862) / 2)


def test_beyond_the_ends_the_nearest_cell_counts() -> None:
    book = open_book(B300, "baseline")

    assert book.play(0, 64) == book.play(0, 8)
    assert book.play(200_000, 1) == book.play(32768, 1)


def test_a_workload_is_found_by_name_and_by_class_and_else_averaged_per_token() -> None:
    book = open_book(f"{GB10}#gb10-26b", "baseline")

    by_name, by_class, unnamed = (book.play(0, 1, w) for w in ("py_code", "code", None))

    assert by_name == by_class
    assert by_name.tokens_per_second == pytest.approx(600 / 15.17)
    assert unnamed.tokens_per_second == pytest.approx(1800 / (16.47 + 15.15 + 15.17))


def test_time_to_first_token_follows_the_recorded_prefill() -> None:
    book = open_book(B300, "mtp-k5")

    assert book.prefill_seconds(8192) + 0.03 == pytest.approx(0.131)
    assert book.prefill_seconds(0) == 0.0
    assert book.prefill_seconds(262144) + 0.03 == pytest.approx(2 * 14.671)


def test_a_race_without_a_baseline_is_refused_with_its_reason() -> None:
    with pytest.raises(BookError, match="No baseline was published"):
        open_book(f"{LAPTOP}#rtx5090m-e4b-vllm", "mtp-k3")


def test_an_unknown_race_or_lane_is_refused_with_what_there_is() -> None:
    with pytest.raises(BookError, match="it has gb10-26b, gb10-31b"):
        open_book(f"{GB10}#nope", "baseline")
    with pytest.raises(BookError, match="it has baseline, mtp-k5"):
        open_book(B300, "mtp-k9")


def test_a_recorded_result_can_be_played_too(tmp_path: Path) -> None:
    acceptance = {"rate": 0.5, "per_position": [0.6, 0.4]}
    lanes = {
        "baseline": {"tokens_per_second": 10.0, "acceptance": None},
        "mtp": {"tokens_per_second": 20.0, "acceptance": acceptance},
    }
    document = {
        "run": {"id": "r1"},
        "recipe": {"name": "my race"},
        "lanes": [{"name": "baseline", "k": 0}, {"name": "mtp", "k": 2}],
        "cells": [{"workload": "code", "context": 0, "concurrency": 1, "lanes": lanes}],
    }
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document))

    book = open_book(str(path), "mtp")

    assert book.play(0, 1).per_position == (0.6, 0.4)
    assert book.source["title"] == "my race"


@pytest.mark.parametrize(("rate", "k"), [(0.0, 3), (0.5, 1), (0.613, 2), (0.9012, 5), (1.0, 5)])
def test_a_geometric_profile_keeps_the_overall_rate(rate: float, k: int) -> None:
    profile = geometric(rate, k)

    assert sum(profile) / k == pytest.approx(rate, abs=1e-12)
    assert list(profile) == sorted(profile, reverse=True)


def test_draws_accept_each_position_at_its_share() -> None:
    profile = (0.8, 0.5, 0.2)
    rng = random.Random(1)

    kept = [accepted(profile, rng.random()) for _ in range(20_000)]

    shares = [sum(k > i for k in kept) / len(kept) for i in range(3)]
    assert shares == pytest.approx(profile, abs=0.02)


def test_blending_keeps_a_profile_falling() -> None:
    assert blend((1.0, 0.5), (0.5, 0.1), 0.5) == (0.75, 0.3)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("profile", "speed", "streams"),
    [((), 188.961, 1), ((0.722, 0.536, 0.412, 0.309), 352.0, 1), ((0.9, 0.8, 0.7), 1785.913, 8)],
)
def test_ten_planned_seconds_are_within_half_a_percent_of_the_recorded_speed(
    seed: int, profile: tuple[float, ...], speed: float, streams: int
) -> None:
    played = paced_tokens_per_second(seed, profile, speed, streams)

    assert played == pytest.approx(speed, rel=0.005)


def test_repeats_with_other_seeds_differ() -> None:
    plays = {paced_tokens_per_second(seed, (0.7, 0.4), 100.0, 1) for seed in range(4)}

    assert len(plays) == 4
