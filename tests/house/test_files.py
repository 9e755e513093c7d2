"""What is committed installs anywhere: no registry host, no path of one machine, exact pins."""

import gzip
import hashlib
import json
import re
import tomllib

from plotly.offline import get_plotlyjs_version

from tests.house.tree import ROOT, name_of, tracked

# Spelled with [x] so that this file does not find itself.
FOREIGN = re.compile(
    rb"[p]ypi\.org|[p]ythonhosted|[n]pmjs\.(?:org|com)|[d]eb\.debian|(?<![\w.])/(?:[w]ork|[f]arm)/"
    rb"|/[t]mp/bash_jobs"
)
VENDOR = ROOT / "static" / "vendor"
BUNDLE = VENDOR / "plotly-cartesian.min.js"


def test_no_file_names_a_registry_host_or_a_path_of_one_machine() -> None:
    hits = [
        f"{name_of(path)}: {found.group().decode()}"
        for path in tracked()
        if (found := FOREIGN.search(path.read_bytes()))
    ]

    assert hits == []


def test_python_locks_pin_every_package_by_hash_and_name_no_address() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / name).read_text()
        pins = re.findall(r"^[a-z0-9][\w.-]*(?:\[[\w,]+\])?==", text, re.MULTILINE)
        hashed = re.findall(r"^[a-z0-9].*\\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)

        assert len(pins) == len(hashed) > 20, name
        assert "://" not in text, name


def test_the_locks_hold_every_dependency_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[\[<>=]", line)[0].lower() for line in project["dependencies"]}

    locked = set(re.findall(r"^([\w.-]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))

    assert wanted - locked == set()


def test_both_python_locks_agree() -> None:
    pins = [
        dict(re.findall(r"^([a-z0-9][\w.-]*)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements.lock", "requirements-dev.lock")
    ]

    assert {k: v for k, v in pins[1].items() if k in pins[0]} == pins[0]


def test_the_npm_lock_names_no_address() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]

    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in packages.items() if name)


def test_the_vendored_plotly_is_the_one_that_its_checksum_names() -> None:
    expected = (VENDOR / "plotly-cartesian.min.js.sha256").read_text().split()[0]

    assert hashlib.sha256(BUNDLE.read_bytes()).hexdigest() == expected
    assert (VENDOR / "plotly.LICENSE").read_text().startswith("MIT License")


def test_the_vendored_plotly_is_the_version_that_plotly_py_expects() -> None:
    banner = BUNDLE.read_text()[:200]
    locked = json.loads((ROOT / "package.json").read_text())["devDependencies"]

    assert f"v{get_plotlyjs_version()}\n" in banner
    assert locked["plotly.js-cartesian-dist-min"] == get_plotlyjs_version()


def test_the_compressed_twin_holds_the_same_script() -> None:
    assert gzip.decompress((VENDOR / "plotly-cartesian.min.js.gz").read_bytes()) == (
        BUNDLE.read_bytes()
    )
