"""The wheel carries everything that a race needs, and races from an empty folder."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CARRIED = ("templates", "static", "migrations", "recipes", "published")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `pipx install .` builds it, without a download."""
    out = tmp_path_factory.mktemp("dist")
    run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT],
        cwd=out,
    )
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def slipstream(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment that holds the wheel; dependencies are lent by ours.

    A .pth file cannot lend ours whole: its editable install would put the clone on the path.
    """
    home = tmp_path_factory.mktemp("home") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    run([sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", wheel], cwd=home)
    ours = Path(sysconfig.get_path("purelib"))
    theirs = home / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    for entry in ours.iterdir():
        is_the_clone = "slipstream" in entry.name
        if not is_the_clone and not (theirs / entry.name).exists():
            (theirs / entry.name).symlink_to(entry)
    return home / "bin" / "slipstream"


def run(argv: list[str | Path], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run to the end in a bare environment; a failure shows what was printed."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={"PATH": os.defpath, "HOME": str(cwd), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{argv} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done


@pytest.mark.slow
def test_the_wheel_carries_every_folder_whole(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    wanted = {
        f"app/_bundled/{path.relative_to(ROOT).as_posix()}"
        for folder in CARRIED
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert wanted - names == set()


@pytest.mark.slow
def test_the_wheel_carries_nothing_else_than_the_product(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"app", "workers"}


@pytest.mark.slow
def test_an_installed_slipstream_races_from_an_empty_folder(
    slipstream: Path, tmp_path: Path
) -> None:
    shorter = ("matrix.contexts=[0]", "matrix.concurrency=[1]", "decode.seconds=1", "repeats=1")
    settings = [word for change in shorter for word in ("--set", change)]

    run([slipstream, "race", "replay-b300", *settings, "--out", "out"], cwd=tmp_path)

    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [cell["concurrency"] for cell in result["cells"]] == [1]
    assert "REPLAY" in json.dumps(result)
