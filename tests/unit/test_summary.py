"""From heats to cells and sentences."""

import pytest

from app.domain.acceptance import Acceptance
from app.domain.heats import HeatSummary, StreamSummary, Window
from app.domain.result import headline
from app.domain.states import HeatState
from app.domain.summary import CellView, HeatView, cell_view, heat_view, percentile
from app.domain.verdicts import Verdict


def make_heat(lane: str, ordinal: int, speed: float, **changes: object) -> HeatView:
    """A heat of ten seconds."""
    summary = HeatSummary(
        tokens=int(speed * 10),
        chars=int(speed * 40),
        seconds=10,
        window=Window(open_s=0, close_s=10, tokens=speed * 10),
        streams=(StreamSummary(stream=0, tokens=1, ttft_s=ordinal / 10),),
        acceptance=Acceptance(drafts=10, drafted=30, accepted=20, per_position=(10, 6, 4)),
    )
    fields: dict[str, object] = {
        "id": ordinal,
        "lane": lane,
        "cell": 1,
        "ordinal": ordinal,
        "attempt": 1,
        "state": HeatState.DONE,
        "summary": summary,
        "words": (),
    }
    return heat_view(**(fields | changes))  # type: ignore[arg-type]  # a builder's keywords


def make_cell(heats: list[HeatView]) -> CellView:
    """A cell with a baseline and one variant."""
    return cell_view(
        id=1,
        position=0,
        workload="code",
        context=8192,
        concurrency=4,
        lanes=["baseline", "mtp-k3"],
        heats=heats,
    )


def test_a_cell_compares_heats_that_drove_the_same_prompts() -> None:
    cell = make_cell(
        [
            make_heat("baseline", 1, 100),
            make_heat("baseline", 2, 200),
            make_heat("mtp-k3", 2, 360),
            make_heat("mtp-k3", 1, 180),
        ]
    )

    variant = cell.lanes["mtp-k3"]
    assert variant.speedup is not None
    assert variant.speedup.value == pytest.approx(1.8)
    assert variant.speedup.low == pytest.approx(1.8)
    assert variant.tokens_per_second == pytest.approx((180 * 360) ** 0.5)
    assert variant.acceptance is not None
    assert variant.acceptance.accepted_per_position == (20, 12, 8)


def test_a_voided_heat_shows_no_number_and_leaves_its_pair_out() -> None:
    void = make_heat("mtp-k3", 1, 999, words=("count-mismatch",))
    cell = make_cell(
        [
            make_heat("baseline", 1, 100),
            make_heat("baseline", 2, 100),
            void,
            make_heat("mtp-k3", 2, 150),
        ]
    )

    variant = cell.lanes["mtp-k3"]
    assert void.tokens_per_second is None
    assert variant.speedup is not None
    assert variant.speedup.value == pytest.approx(1.5)
    assert variant.speedup.verdict is Verdict.ONE_HEAT
    assert variant.flags == ("count-mismatch", "one-heat")


def test_an_approximate_count_gives_no_verdict() -> None:
    cell = make_cell(
        [make_heat("baseline", 1, 100), make_heat("mtp-k3", 1, 150, words=("approximate",))]
    )

    judged = cell.lanes["mtp-k3"].speedup
    assert judged is not None
    assert (judged.value, judged.verdict) == (None, Verdict.NONE)
    assert "exactly" in judged.reason


def test_latency_is_taken_over_all_streams_together() -> None:
    cell = make_cell([make_heat("baseline", ordinal, 100) for ordinal in range(1, 11)])

    ttft = cell.lanes["baseline"].ttft
    assert ttft is not None
    assert (ttft.n, ttft.p50, ttft.p95) == (10, 0.5, 1.0)


def test_percentiles_are_nearest_rank() -> None:
    values = [4.0, 1.0, 3.0, 2.0]

    assert [percentile(values, share) for share in (0.0, 0.5, 0.75, 1.0)] == [1.0, 2.0, 3.0, 4.0]


def test_the_sentence_names_lane_ratio_interval_and_cell() -> None:
    cell = make_cell(
        [
            make_heat("baseline", 1, 100),
            make_heat("baseline", 2, 100),
            make_heat("mtp-k3", 1, 180),
            make_heat("mtp-k3", 2, 180),
        ]
    )

    head = headline((cell,))

    assert head.sentence == (
        "mtp-k3 is 1.80× baseline (1.80–1.80) at code, 8,192 tokens of context, 4 streams."
    )
    assert (head.lane, head.cell, head.verdict) == ("mtp-k3", 0, Verdict.FASTER)


def test_a_race_without_a_standing_pair_says_so() -> None:
    only_baseline = make_cell([make_heat("baseline", 1, 100)])
    nothing = make_cell([])

    assert headline((only_baseline,)).sentence == "No lane can be compared with the baseline."
    assert headline((nothing,)).sentence == "No heat of this run counts."


def test_one_good_cell_does_not_speak_for_the_bad_ones() -> None:
    good = make_cell(
        [make_heat(lane, n, s) for lane, s in (("baseline", 100), ("mtp-k3", 180)) for n in (1, 2)]
    )
    bad = make_cell(
        [make_heat(lane, n, s) for lane, s in (("baseline", 100), ("mtp-k3", 50)) for n in (1, 2)]
    )

    assert headline((good, bad, bad)).sentence.endswith(
        "Of 3 cells it is faster in 1, slower in 2."
    )


def test_where_no_cell_is_faster_the_worst_slowdown_is_named() -> None:
    slow = make_cell(
        [make_heat(lane, n, s) for lane, s in (("baseline", 100), ("mtp-k3", 80)) for n in (1, 2)]
    )
    slower = make_cell(
        [make_heat(lane, n, s) for lane, s in (("baseline", 100), ("mtp-k3", 50)) for n in (1, 2)]
    )

    assert headline((slow, slower)).speedup == pytest.approx(0.5)
