"""Copies plotly.js from the locked npm package into static/vendor, with its licence and sha256.

Run by `make vendor`. Refuses a version other than the one plotly.py expects.
"""

import gzip
import hashlib
import json
import sys
from pathlib import Path

from plotly.offline import get_plotlyjs_version

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "node_modules" / "plotly.js-cartesian-dist-min"
VENDOR = ROOT / "static" / "vendor"
BUNDLE = "plotly-cartesian.min.js"


def main() -> int:
    """Write the bundle, its gzip twin, its licence and the checksums; 1 when versions differ."""
    found = json.loads((PACKAGE / "package.json").read_text())["version"]
    expected = get_plotlyjs_version()
    if found != expected:
        sys.stderr.write(
            f"package.json locks plotly.js {found}, but plotly.py expects {expected};"
            f" put {expected} into package.json and run npm install\n"
        )
        return 1
    VENDOR.mkdir(parents=True, exist_ok=True)
    script = (PACKAGE / BUNDLE).read_bytes()
    (VENDOR / BUNDLE).write_bytes(script)
    (VENDOR / f"{BUNDLE}.gz").write_bytes(gzip.compress(script, compresslevel=9, mtime=0))
    (VENDOR / "plotly.LICENSE").write_bytes((PACKAGE / "LICENSE").read_bytes())
    (VENDOR / f"{BUNDLE}.sha256").write_text(f"{hashlib.sha256(script).hexdigest()}  {BUNDLE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
