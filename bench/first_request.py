"""From `slipstream race` with an attach recipe to the first request on the wire.

    python -m bench.first_request [--rounds 5]

A listening socket stands in for the server: it notes when the first byte of a request arrives,
and when the first byte of a streaming request (warm-up included) would be possible is up to it.
Beside it, in the same rounds, what Python itself and `import rich, httpx, sqlmodel, alembic`
need, so that the figure can be read as a ratio on a noisy machine.
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = """
name: first request
model: any
engine: attach
lanes: {{baseline: {{url: "http://127.0.0.1:{port}"}}}}
matrix: {{contexts: [0], concurrency: [1]}}
decode: {{seconds: 1, max_tokens: 16}}
repeats: 1
"""
IMPORTS = "import rich, httpx, sqlmodel, alembic, pydantic_settings, typer"
TARGET_SECONDS = 1.5


def first_byte_seconds(folder: Path) -> float:
    """Seconds from starting the command to the first byte of its first request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        recipe = folder / "attach.yaml"
        recipe.write_text(RECIPE.format(port=server.getsockname()[1]), encoding="utf-8")
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "race", str(recipe), "--json"],
            env={**os.environ, "SLIPSTREAM_DATA_DIR": str(folder / "data")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
            return time.perf_counter() - begun
        finally:
            process.kill()
            process.wait()


def command_seconds(code: str) -> float:
    """Seconds of a whole `python -c`."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begun


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    rows: dict[str, list[float]] = {"first_request": [], "python": [], "imports": []}
    with tempfile.TemporaryDirectory() as folder:
        first_byte_seconds(Path(folder))  # makes the database and the byte code
        for _ in range(rounds):
            rows["first_request"].append(first_byte_seconds(Path(folder)))
            rows["python"].append(command_seconds("pass"))
            rows["imports"].append(command_seconds(IMPORTS))
    medians = {name: round(statistics.median(values), 3) for name, values in rows.items()}
    report = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 1),
        "rounds": rounds,
        "median_seconds": medians,
        "least_seconds": {name: round(min(values), 3) for name, values in rows.items()},
        "ratio_to_imports": round(medians["first_request"] / medians["imports"], 2),
        "target_seconds": TARGET_SECONDS,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
