"""Ways of starting a server, one file each; LAUNCHERS names them."""

from app.domain.engine_args import LauncherKind
from workers.launchers.base import Launcher
from workers.launchers.none import NoLauncher
from workers.launchers.process import ProcessLauncher

LAUNCHERS: dict[LauncherKind, Launcher] = {
    LauncherKind.PROCESS: ProcessLauncher(),
    LauncherKind.NONE: NoLauncher(),
}

__all__ = ["LAUNCHERS"]
