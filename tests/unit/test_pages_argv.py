"""Two command lines side by side: what is marked is what makes the lanes differ."""

from app.web.result_view import differences

BASELINE = ["vllm", "serve", "m", "--port", "4001", "--served-model-name", "slipstream-a", "-q"]
VARIANT = ["vllm", "serve", "m", "--port", "4002", "--served-model-name", "slipstream-b", "-q"]


def test_only_what_the_other_lane_has_not_is_marked() -> None:
    marked = differences([*VARIANT, "--speculative-config", "{}"], BASELINE)

    assert [piece.text for piece in marked if piece.is_different] == ["--speculative-config", "{}"]


def test_what_every_launch_gets_anew_is_not_a_difference() -> None:
    assert not any(piece.is_different for piece in differences(BASELINE, VARIANT))
