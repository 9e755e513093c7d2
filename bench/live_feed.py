"""How many viewers one dashboard holds, and how long a tick takes to reach them.

    python -m bench.live_feed --viewers 500 --ticks 10

Starts a real dashboard on a database of its own, opens the viewers as plain sockets, appends one
tick a second and measures from commit to the arrival at each viewer. Prints one JSON line.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.integration import web_house as house
from tests.integration.web_house import Dashboard

SECONDS_BETWEEN_TICKS = 1.0
OPEN_AT_ONCE = 50


async def follow(
    served: Dashboard, path: str, token: str, gate: asyncio.Semaphore, ready: asyncio.Event
) -> dict[int, float]:
    """Arrival times (monotonic) of ticks by id."""
    async with gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {token}\r\n\r\n"
        writer.write(head.encode())
        while not (await reader.readline()).startswith(b"event: snapshot"):
            pass
    ready.set()
    seen: dict[int, float] = {}
    while line := await reader.readline():
        if line.startswith(b"id: "):
            seen[int(line[4:])] = time.monotonic()
        if line.startswith(b"event: farewell"):
            break
    writer.close()
    return seen


async def measure(folder: Path, served: Dashboard, viewers: int, count: int) -> dict[str, object]:
    """One run of the benchmark."""
    db = house.open_house(folder)
    run_id, token = house.make_run(db), house.bearer(db)["Authorization"]
    gate = asyncio.Semaphore(OPEN_AT_ONCE)
    readies = [asyncio.Event() for _ in range(viewers)]
    path = f"/api/v1/runs/{run_id}/events"
    following = [asyncio.create_task(follow(served, path, token, gate, ready)) for ready in readies]
    await asyncio.gather(*(ready.wait() for ready in readies))
    assert served.process is not None
    process = psutil.Process(served.process.pid)
    cpu_before = sum(process.cpu_times()[:2])
    committed: dict[int, float] = {}
    for second in range(count):
        [made] = await asyncio.to_thread(house.make_ticks, db, run_id, 1, first=second)
        committed[made] = time.monotonic()
        await asyncio.sleep(SECONDS_BETWEEN_TICKS)
    cpu_seconds = sum(process.cpu_times()[:2]) - cpu_before
    memory_mib = process.memory_info().rss / 2**20
    house.cancel_run(db, run_id)
    house.freeze_run(db, run_id)
    told = await asyncio.gather(*following)
    db.close()
    delays = [seen[tick] - at for seen in told for tick, at in committed.items()]
    cuts = statistics.quantiles(delays, n=100)
    return {
        "viewers": viewers,
        "ticks": count,
        "delay_p50_ms": round(cuts[49] * 1000, 1),
        "delay_p99_ms": round(cuts[98] * 1000, 1),
        "cpu_ms_per_tick_and_viewer": round(cpu_seconds * 1000 / count / viewers, 4),
        "dashboard_rss_mib": round(memory_mib),
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, default=500)
    parser.add_argument("--ticks", type=int, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with house.dashboard(folder, SLIPSTREAM_LIVE_POLL_SECONDS="0.1") as served:
            found = asyncio.run(measure(folder, served, asked.viewers, asked.ticks))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
