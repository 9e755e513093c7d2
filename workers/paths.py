"""Paths of this host as strangers may see them: no home folder, no place of installation."""

import sys
from pathlib import Path

from app.config import APP_DIR


def presentable(piece: str) -> str:
    """A piece of an argv with our own Python, our installation and the home folder shortened."""
    if piece == sys.executable:
        return "python"
    for folder, short in ((APP_DIR.parent, "."), (Path.home(), "~")):
        prefix = str(folder).rstrip("/")
        if prefix and (piece == prefix or piece.startswith(prefix + "/")):
            return short + piece[len(prefix) :]
    return piece
