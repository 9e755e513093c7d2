"""`python -m workers [--with-parent]`: one worker process. SIGTERM ends it politely."""

import argparse
import asyncio
import sys

from app.config import load_settings
from app.domain.errors import SlipstreamError
from app.logs import set_up_logs
from workers.loop import serve, stop_on_signals, stop_with_parent


async def _main(is_child: bool) -> None:
    stopping = asyncio.Event()
    stop_on_signals(stopping)
    parent = await stop_with_parent(stopping) if is_child else None
    try:
        await serve(load_settings(), stopping)
    finally:
        if parent is not None:
            parent.cancel()


def run(*, is_child: bool) -> int:
    """Run until told to stop; 2 when it cannot start."""
    try:
        settings = load_settings()
        set_up_logs(settings.log_level, as_json=settings.log_json)
        asyncio.run(_main(is_child))
    except SlipstreamError as error:
        sys.stderr.write(f"{error.title}: {error}\n")
        return 2
    return 0


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument(
        "--with-parent", action="store_true", help="end when standard input is closed"
    )
    return run(is_child=parser.parse_args().with_parent)


if __name__ == "__main__":
    sys.exit(main())
