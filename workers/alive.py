"""Health of the worker on this host, for containers: `python -m workers.alive`.

It asks the database for a fresh heartbeat, and knows nothing of what the worker does.
"""

import socket
import sys
from datetime import UTC, datetime

from app.config import load_settings
from app.domain.errors import SlipstreamError
from app.store import workers as roster
from app.store.db import Database, open_database


def is_alive(database: Database, host: str, *, now: datetime) -> bool:
    """Whether a worker on `host` has given a sign of life lately."""
    with database.read() as session:
        return any(worker.host == host for worker in roster.living(session, now=now))


def main() -> int:
    """0 when a worker here is alive, else 1 and the reason on stderr."""
    try:
        database = open_database(load_settings().database, migrate=False)
        alive = is_alive(database, socket.gethostname(), now=datetime.now(UTC))
        database.close()
    except SlipstreamError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if not alive:
        sys.stderr.write(f"no worker on {socket.gethostname()} has given a sign of life lately\n")
    return 0 if alive else 1


if __name__ == "__main__":
    sys.exit(main())
