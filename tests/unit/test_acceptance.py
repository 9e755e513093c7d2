"""Acceptance arithmetic: one definition for all engines."""

import pytest

from app.domain.acceptance import Acceptance, total

# 4 requests x 200 tokens on a real vLLM with K = 3: 229 drafts, 687 drafted, 568 accepted.
SEEN = Acceptance(drafts=229, drafted=687, accepted=568, per_position=(208, 188, 172))


def test_rates_follow_the_glossary() -> None:
    assert SEEN.rate == pytest.approx(568 / 687)
    assert SEEN.tau == pytest.approx(1 + 568 / 229)
    assert SEEN.rate_per_position == pytest.approx((208 / 229, 188 / 229, 172 / 229))


def test_a_delta_takes_away_what_was_there_before() -> None:
    earlier = Acceptance(drafts=29, drafted=87, accepted=68, per_position=(28, 22, 18))

    delta = SEEN.minus(earlier)

    assert delta == Acceptance(drafts=200, drafted=600, accepted=500, per_position=(180, 166, 154))


def test_sums_are_token_weighted() -> None:
    other = Acceptance(drafts=10, drafted=10, accepted=1, per_position=(1,))

    whole = total([SEEN, other])

    assert whole is not None
    assert whole.rate == pytest.approx(569 / 697)
    assert whole.per_position == (209, 188, 172)


def test_nothing_drafted_has_no_rate() -> None:
    nothing = Acceptance(drafts=0, drafted=0, accepted=0, per_position=(0,))

    assert (nothing.rate, nothing.tau, nothing.rate_per_position) == (None, None, None)
    assert total([]) is None
