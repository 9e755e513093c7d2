"""The import walls of the house hold, and so do the types of the page scripts."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

TSC = ROOT / "node_modules" / ".bin" / "tsc"


@pytest.mark.slow
def test_imports_flow_one_way() -> None:
    lint_imports = Path(sys.executable).parent / "lint-imports"

    done = subprocess.run(
        [lint_imports, "--no-logo", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_page_scripts_pass_the_type_check() -> None:
    if not TSC.exists():
        pytest.skip("TypeScript is not installed: make check installs it with npm")

    done = subprocess.run(
        [TSC, "--project", "tsconfig.json"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
