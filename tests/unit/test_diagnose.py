"""From the logs of servers that really failed to a cause and a remedy."""

import re
from pathlib import Path

import pytest

from app.domain.engine_args import EngineKind
from workers.diagnose import SIGNATURES, diagnose, silent_faults
from workers.launchers.base import Exit

GOLDEN = Path(__file__).parent.parent / "golden" / "vllm"


@pytest.mark.parametrize(
    ("log", "cause", "remedy"),
    [
        ("fail-bad-flag.log", "flag --no-such-flag 3", "Remove it"),
        ("fail-bad-spec-json.log", "value of --speculative-config", "Correct it"),
        ("fail-bad-spec-method.log", "refused the recipe's settings (SpeculativeConfig)", "name"),
        ("fail-spec-unknown-key.log", "refused the recipe's settings (SpeculativeConfig)", "name"),
        ("fail-default-memory.log", "wants 0.92 of this machine's memory", "KVCACHE_SPACE"),
        ("fail-port-in-use.log", "port was taken", "Race again"),
        ("fail-spec-draft-missing.log", "does-not-exist", "drafter"),
        ("fail-spec-mtp-on-non-mtp-model.log", "cannot speculate by mtp", "0.21"),
        ("fail-v1-runner-0.26.0.log", "does not share Gemma 4's embedding", "V2_MODEL_RUNNER"),
        ("fail-synthetic.log", "Synthetic acceptance", "Leave it out"),
    ],
)
def test_a_failure_seen_before_is_named_with_its_remedy(log: str, cause: str, remedy: str) -> None:
    text = (GOLDEN / log).read_text("utf-8")

    found = diagnose(EngineKind.VLLM, text, Exit(code=1))

    assert cause in found.cause
    assert remedy in found.remedy
    assert found.line


@pytest.mark.parametrize(
    "log",
    [
        "startup-0.32.0-cpu-mtp.log",
        "startup-0.32.0-cpu-compiled.log",
        "startup-0.26.0-h200-mtp.log",
    ],
)
def test_the_log_of_a_healthy_server_matches_no_signature(log: str) -> None:
    text = (GOLDEN / log).read_text("utf-8")

    found = diagnose(EngineKind.VLLM, text, Exit(code=3))

    assert found.cause.startswith("The server ended (exit code 3): ")


def test_an_unknown_failure_names_the_exit_and_the_exception_behind_the_wrapper() -> None:
    log = (
        "(EngineCore pid=7) ERROR 11-21 05:03:47 [core.py:1330] FrobError: no frob on device 3\n"
        "RuntimeError: Engine core initialization failed. See root cause above.\n"
        "nanobind: leaked 4 instances!\n"
    )

    found = diagnose(EngineKind.VLLM, log, Exit(code=1))

    assert found.cause == "The server ended (exit code 1): FrobError: no frob on device 3"
    assert "log" in found.remedy


def test_a_condition_that_must_stand_earlier_is_required() -> None:
    log = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x2 and 3x4)"

    found = diagnose(EngineKind.VLLM, log, Exit(code=1))

    assert "embedding" not in found.cause


def test_a_silent_server_is_said_to_be_silent() -> None:
    found = diagnose(EngineKind.REPLAY, "", Exit(code=0))

    assert found.cause == "The server ended (exit code 0) without a word in its log."


def test_sigkill_points_at_memory() -> None:
    found = diagnose(EngineKind.VLLM, "INFO loading\n", Exit(code=None, signal=9))

    assert "memory" in found.cause
    assert "dmesg" in found.remedy


def test_a_gated_repository_is_known_for_every_started_engine() -> None:
    found = diagnose(EngineKind.VLLM, "huggingface_hub.errors.GatedRepoError: 403", Exit(code=1))

    assert "HF_TOKEN" in found.remedy


def test_a_useless_drafter_is_a_silent_fault_and_no_cause_of_death() -> None:
    log = "SpecDecoding metrics: Per-position 0.001, Avg Draft acceptance rate: 0.3%"

    faults = silent_faults(EngineKind.VLLM, log)

    assert len(faults) == 1
    assert "draft" not in diagnose(EngineKind.VLLM, log, Exit(code=1)).remedy


@pytest.mark.parametrize("kind", SIGNATURES)
def test_every_signature_compiles_and_fills_its_words(kind: EngineKind) -> None:
    for row in SIGNATURES[kind]:
        groups = ["x"] * re.compile(row.pattern).groups

        words = row.cause.format(*groups) + row.remedy.format(*groups)

        assert words.endswith(".") or words.endswith("x")
        assert row.source
