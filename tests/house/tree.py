"""Where the house stands and which files belong to it; shared by the house tests."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked() -> list[Path]:
    """Every file that git would commit: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def modules(*rooms: str) -> list[Path]:
    """The Python files of these top-level folders."""
    return [
        path
        for path in tracked()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in rooms
    ]


def name_of(path: Path) -> str:
    """The path as people write it, for test ids and messages."""
    return path.relative_to(ROOT).as_posix()
