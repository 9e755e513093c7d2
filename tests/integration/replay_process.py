"""A replay server process for tests: on a free port, polled with deadlines, always ended."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 20.0
CONTROL_TOKEN = "test-control"
FORCED: dict[str, Any] = {
    "prompt": "a prompt",
    "messages": [{"role": "user", "content": "a prompt"}],
    "ignore_eos": True,
    "return_token_ids": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}


def race_file(folder: Path) -> Path:
    """A fast race of our own: baseline 1000 tok/s, mtp-k3 2000 tok/s, one stream."""
    acceptance = {"rate": 0.6, "per_position": [0.8, 0.6, 0.4]}
    lanes = {
        "baseline": {"tokens_per_second": 1000.0, "acceptance": None},
        "mtp-k3": {"tokens_per_second": 2000.0, "acceptance": acceptance},
    }
    race = {
        "id": "fast",
        "title": "fast",
        "playable": True,
        "why_not": None,
        "lanes": {"baseline": {"k": 0, "baseline": True}, "mtp-k3": {"k": 3, "baseline": False}},
        "cells": [{"workload": "w", "context": 0, "concurrency": 1, "lanes": lanes}],
        "prefill": [],
    }
    source = {"title": "A test's own race", "kind": "test"}
    path = folder / "race.json"
    path.write_text(
        json.dumps({"schema": "slipstream.published/1", "source": source, "races": [race]})
    )
    return path


@dataclass
class Replay:
    process: subprocess.Popen[str]
    port: int
    logs: list[str] = field(default_factory=list)

    def log(self) -> str:
        """All of stdout; only after the process has ended."""
        if self.process.stdout is not None and not self.process.stdout.closed:
            self.logs.append(self.process.stdout.read())
        return "".join(self.logs)

    def poll(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, "it did not come to pass in time"
            time.sleep(0.02)

    def is_healthy(self) -> bool:
        assert self.process.poll() is None, f"it ended with {self.process.returncode}"
        try:
            return self.request("GET", "/health")[0] == 200
        except OSError:
            return False

    def request(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        return json.loads(self.request("GET", path)[1])

    def get_text(self, path: str) -> str:
        return self.request("GET", path)[1].decode()

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        status, answer = self.request("POST", path, body)
        return status, json.loads(answer)

    def stream(self, path: str, **fields: Any) -> bytes:
        """The whole body of a streamed answer, up to where it ends or breaks."""
        body = {"model": "X", "stream": True, **fields}
        try:
            return self.request("POST", path, body)[1]
        except http.client.IncompleteRead as broken:
            return broken.partial

    @contextmanager
    def open_stream(self, path: str, **fields: Any) -> Iterator[http.client.HTTPResponse]:
        """A stream whose first line has come; the client goes away at the end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        try:
            connection.request("POST", path, json.dumps({"model": "X", "stream": True, **fields}))
            with connection.getresponse() as response:
                response.readline()
                yield response
        finally:
            connection.close()

    @contextmanager
    def request_and_leave(self, path: str, **fields: Any) -> Iterator[None]:
        """A stream whose first token is never waited for; the client goes away at the end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        try:
            connection.request("POST", path, json.dumps({"model": "X", "stream": True, **fields}))
            yield
        finally:
            connection.close()

    def set_faults(self, **faults: Any) -> None:
        token = f"Bearer {CONTROL_TOKEN}"
        status, answer = self.request("POST", "/replay/faults", faults, authorization=token)
        assert status == 200, answer


def data_lines(body: bytes) -> list[bytes]:
    return [line[6:] for line in body.split(b"\n\n") if line.startswith(b"data: ")]


def chunks(body: bytes) -> list[Any]:
    """Every JSON data line of a stream."""
    return [json.loads(line) for line in data_lines(body) if line != b"[DONE]"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def replay(
    race: Path, lane: str, *arguments: str, port: int | None = None, is_ready: bool = True
) -> Iterator[Replay]:
    """A replay server; ready unless told not to wait; killed at the end whatever happened."""
    port = port or free_port()
    command = [
        *(sys.executable, "-m", "workers.replay", "--race", str(race), "--lane", lane),
        *("--port", str(port), "--served-model-name", "X", "--load-seconds", "0"),
        *("--control-token", CONTROL_TOKEN, *arguments),
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    server = Replay(process, port)
    try:
        if is_ready:
            server.poll(server.is_healthy)
        yield server
    finally:
        process.kill()
        process.wait()
        server.log()
        assert process.stdout is not None
        process.stdout.close()
