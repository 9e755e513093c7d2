"""Writes docs/flags.md from the table of flags: `make flags`."""

import sys
from pathlib import Path

from app.domain.flags import FLAGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "flags.md"
HEAD = """# Flags

Words beside a number that weaken it (*flag*) or take it away (*void*).
Written from `app/domain/flags.py` by `make flags`.

| flag | effect | meaning | cause | remedy |
|---|---|---|---|---|
"""


def render() -> str:
    """The page as it should be."""
    rows = (
        f"| `{flag.word}` | {'void' if flag.voids else 'flag'}"
        f" | {flag.meaning} | {flag.cause} | {flag.remedy} |\n"
        for flag in FLAGS.values()
    )
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(render())
    sys.stdout.write(f"wrote {PAGE.name}\n")
