"""What a public page says of a command line tells nothing of this host's folders."""

import sys
from pathlib import Path

from app.config import APP_DIR
from workers.paths import presentable


def test_our_python_and_folders_are_shortened() -> None:
    root = APP_DIR.parent

    assert presentable(sys.executable) == "python"
    assert presentable(f"{root}/published/x.json") == "./published/x.json"
    assert presentable(str(Path.home() / "models" / "m")) == "~/models/m"


def test_everything_else_stays() -> None:
    assert presentable("--port") == "--port"
    assert presentable("/models/gemma") == "/models/gemma"
