"""Engines found on this host, without running any."""

import sys
from pathlib import Path

import pytest

from workers.engines.found import binaries, find_engines


def make_vllm(prefix: Path, version: str = "0.32.0+cpu", python: str = "/usr/bin/python3") -> Path:
    program = prefix / "bin" / "vllm"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{python}\nraise SystemExit('must not run')\n")
    program.chmod(0o755)
    metadata = prefix / f"lib/python3.11/site-packages/vllm-{version}.dist-info/METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    return program


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLIPSTREAM_VLLM_BIN", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_replay_is_always_there() -> None:
    found = find_engines()["replay"]

    assert found.argv_prefix == (sys.executable, "-m", "workers.replay")
    assert found.version


def test_the_setting_wins(tmp_path: Path) -> None:
    program = make_vllm(tmp_path / "mine", "0.33.0")
    make_vllm(tmp_path / "here" / ".engines" / "vllm-cpu")

    found = find_engines(str(program))

    assert found["vllm"].argv_prefix == (str(program),)
    assert (found["vllm"].version, found["vllm"].where) == ("0.33.0", "SLIPSTREAM_VLLM_BIN")
    assert binaries(found)["vllm"] == (str(program),)


def test_the_environment_variable_is_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPSTREAM_VLLM_BIN", str(make_vllm(tmp_path / "mine")))

    assert find_engines()["vllm"].where == "SLIPSTREAM_VLLM_BIN"


def test_a_setting_that_points_nowhere_is_not_papered_over(tmp_path: Path) -> None:
    make_vllm(tmp_path / "here" / ".engines" / "vllm-cpu")

    assert "vllm" not in find_engines(str(tmp_path / "typo"))


def test_the_engines_folder_beside_us_comes_before_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = make_vllm(tmp_path / "here" / ".engines" / "vllm-cpu")
    other = make_vllm(tmp_path / "other", "0.1.0")
    monkeypatch.setenv("PATH", str(other.parent))

    found = find_engines()["vllm"]

    assert found.argv_prefix == (str(program),)
    assert found.version == "0.32.0+cpu"


def test_a_command_elsewhere_is_asked_by_its_first_line(tmp_path: Path) -> None:
    make_vllm(tmp_path / "venv", "0.31.0")
    script = tmp_path / "bin" / "vllm"
    script.parent.mkdir()
    script.write_text(f"#!{tmp_path}/venv/bin/python\n")
    script.chmod(0o755)

    assert find_engines(str(script))["vllm"].version == "0.31.0"
