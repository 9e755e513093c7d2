"""A worker that starts one fake engine and waits to be killed: `fake_worker.py MODE FOLDER`."""

import asyncio
import sys
from pathlib import Path

from workers.launchers.process import ProcessLauncher


async def main(mode: str, folder: Path) -> None:
    engine = Path(__file__).with_name("fake_engine.py")
    pids = folder / "pids"
    argv = [sys.executable, str(engine), mode, str(pids)]
    await ProcessLauncher().start(argv, {}, folder / "run")
    (folder / "up").touch()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
