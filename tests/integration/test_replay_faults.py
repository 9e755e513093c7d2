"""Every fault of the replay server does what it says, on a real process."""

import json
import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.replay_process import FORCED, Replay, chunks, data_lines, race_file, replay
from workers.replay.faults import FAULTS

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replay]:
    """One server for the faults that it survives; each test sets its own."""
    with replay(race_file(tmp_path_factory.mktemp("race")), "mtp-k3") as server:
        yield server


@pytest.fixture
def server(shared: Replay) -> Iterator[Replay]:
    yield shared
    shared.set_faults()


@pytest.fixture
def race(tmp_path: Path) -> Path:
    return race_file(tmp_path)


def play(server: Replay, path: str = COMPLETIONS, tokens: int = 60) -> bytes:
    return server.stream(path, **FORCED, max_tokens=tokens, min_tokens=tokens)


def usages(body: bytes) -> list[int]:
    return [c["usage"]["completion_tokens"] for c in chunks(body) if "usage" in c]


def texts(body: bytes) -> list[str]:
    return [c["choices"][0]["text"] for c in chunks(body) if c.get("choices")]


def faulty(race: Path, is_ready: bool = True, **faults: Any) -> Any:
    return replay(race, "mtp-k3", "--faults", json.dumps(faults), is_ready=is_ready)


def test_every_fault_has_a_test_that_names_it() -> None:
    source = Path(__file__).read_text("utf-8")

    assert [kind for kind in FAULTS if source.count(kind) < 1] == []


# --- before ready


def test_hang_start_never_opens_its_door(race: Path) -> None:
    with faulty(race, is_ready=False, hang_start={}) as server:
        assert server.process.stdout is not None
        loading = next(line for line in server.process.stdout if "Starting to load" in line)

        with pytest.raises(OSError, match="refused"):
            server.request("GET", "/health")
        assert server.process.poll() is None
        assert loading


def test_exit_start_ends_before_ready_with_its_code_and_line(race: Path) -> None:
    with faulty(race, is_ready=False, exit_start={"exit_code": 3, "line": "no memory"}) as server:
        code = server.process.wait(10)

    assert code == 3
    assert "no memory" in server.log()
    assert "startup complete" not in server.log()


def test_refuse_flags_ends_with_usage_and_exit_code_two(race: Path) -> None:
    with faulty(race, is_ready=False, refuse_flags={"flag": "--turbo"}) as server:
        code = server.process.wait(10)

    assert code == 2
    assert server.log().startswith("usage:")
    assert "unrecognized arguments: --turbo" in server.log()


def test_fork_child_leaves_a_grandchild_that_survives_sigterm(race: Path) -> None:
    with faulty(race, fork_child={"seconds": 30}) as server:
        orphans = [p for p in psutil.process_iter(["cmdline"]) if is_orphan_of(server, p)]
        for orphan in orphans:
            orphan.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(10)
        survivors = [orphan for orphan in orphans if orphan.is_running()]
        for survivor in survivors:
            survivor.kill()

    assert len(survivors) == 1


def is_orphan_of(server: Replay, process: psutil.Process) -> bool:
    command = process.info["cmdline"] or []
    return str(server.port) in command and process.pid not in (server.process.pid, os.getpid())


def test_ignore_sigterm_stays_alive(race: Path) -> None:
    with faulty(race, ignore_sigterm={}) as server:
        server.process.send_signal(signal.SIGTERM)
        play(server)

        assert server.is_healthy()


# --- dying


def test_die_tells_the_stream_and_exits_with_its_code(race: Path) -> None:
    with faulty(race, die={"after_tokens": 20, "exit_code": 0}) as server:
        body = play(server, tokens=500)
        code = server.process.wait(10)

    lines = data_lines(body)
    assert lines[-1] == b"[DONE]"
    assert json.loads(lines[-2])["error"]["message"].startswith("EngineCore encountered an issue")
    assert code == 0
    assert "EngineDeadError" in server.log()


def test_kill_cuts_the_stream_without_a_farewell(race: Path) -> None:
    with faulty(race, kill={"after_tokens": 20, "exit_code": 9}) as server:
        body = play(server, tokens=500)
        code = server.process.wait(10)

    assert code == 9
    assert b"[DONE]" not in body
    assert b"error" not in body


def test_hang_stops_sending_but_stays_open(server: Replay) -> None:
    before = generated(server.get_text("/metrics"))
    server.set_faults(hang={"after_tokens": 10})

    with server.open_stream(COMPLETIONS, **FORCED, max_tokens=500) as response:
        server.poll(lambda: generated(server.get_text("/metrics")) >= before + 10)
        steps = len(server.get("/replay/journal")["steps"])
        server.poll(lambda: len(server.get("/replay/journal")["steps"]) > steps + 10)
        metrics = server.get_text("/metrics")
        is_open = not response.isclosed()

    assert generated(metrics) - before <= 13  # the step that reached 10 gave at most 4
    assert 'vllm:num_requests_running{engine="0",model_name="X"} 1.0' in metrics
    assert is_open


def generated(metrics: str) -> float:
    line = next(r for r in metrics.splitlines() if r.startswith("vllm:generation_tokens_total"))
    return float(line.rpartition(" ")[2])


def test_error_mid_stream_ends_one_stream_and_the_server_lives(server: Replay) -> None:
    server.set_faults(error_mid_stream={"after_tokens": 10})

    lines = data_lines(play(server))

    assert "error" in json.loads(lines[-2])
    assert server.is_healthy()


def test_http_500_answers_before_any_token(server: Replay) -> None:
    server.set_faults(http_500={})

    status, answer = server.post(COMPLETIONS, {"model": "X", "prompt": "x"})

    assert (status, answer["error"]["type"]) == (500, "InternalServerError")


def test_slow_first_delays_only_the_first_requests(race: Path) -> None:
    with faulty(race, slow_first={"requests": 1, "extra_seconds": 0.6}) as server:
        started = time.monotonic()
        play(server, tokens=1)
        cold = time.monotonic() - started
        counted = server.get_text("/metrics")
        play(server, tokens=1)
        both = server.get_text("/metrics")

    assert cold >= 0.6
    assert first_token_seconds(counted) >= 0.6
    assert first_token_seconds(both) - first_token_seconds(counted) < 0.6


def first_token_seconds(metrics: str) -> float:
    lines = metrics.splitlines()
    line = next(r for r in lines if r.startswith("vllm:time_to_first_token_seconds_sum"))
    return float(line.rpartition(" ")[2])


# --- what the stream says


def test_stop_early_leaves_the_room_even_with_ignore_eos(server: Replay) -> None:
    server.set_faults(stop_early={"tokens": 20})

    body = play(server)

    assert usages(body)[-1] == 20
    assert [c for c in chunks(body) if c["choices"]][-1]["choices"][0]["finish_reason"] == "stop"


def test_lie_usage_multiplies_what_usage_says(server: Replay) -> None:
    server.set_faults(lie_usage={"factor": 2.0})

    assert usages(play(server))[-1] == 120


def test_no_usage_says_nothing(server: Replay) -> None:
    server.set_faults(no_usage={})

    assert usages(play(server)) == []


def test_usage_falls_once(server: Replay) -> None:
    server.set_faults(usage_falls={"by": 8, "after_tokens": 30})

    told = usages(play(server))

    assert sum(b < a for a, b in pairwise(told)) == 1
    assert told[-1] == 60


def test_no_token_ids_leaves_them_null(server: Replay) -> None:
    server.set_faults(no_token_ids={})

    assert {c["choices"][0]["token_ids"] for c in chunks(play(server)) if c["choices"]} == {None}


def test_merge_chunks_puts_several_steps_into_one(server: Replay) -> None:
    plain = len(texts(play(server, tokens=300)))
    server.set_faults(merge_chunks={"steps": 5})

    merged = play(server, tokens=300)

    assert len(texts(merged)) < plain / 3
    assert usages(merged)[-1] == 300


def test_first_chunk_bundle_waits_for_its_tokens(server: Replay) -> None:
    server.set_faults(first_chunk_bundle={"tokens": 16})

    assert usages(play(server))[0] >= 16


def test_split_text_empty_gives_every_other_chunk_no_text_and_loses_none(server: Replay) -> None:
    plain = "".join(texts(play(server)))
    server.set_faults(split_text_empty={})

    split = texts(play(server))

    assert "".join(split) == plain
    assert split[0:-1:2] == [""] * len(split[0:-1:2])


def test_no_done_ends_without_it(server: Replay) -> None:
    server.set_faults(no_done={})

    assert b"[DONE]" not in play(server)


def test_bad_json_spoils_one_line(server: Replay) -> None:
    server.set_faults(bad_json={"after_tokens": 10})

    lines = data_lines(play(server))

    assert sum(not is_json(line) for line in lines if line != b"[DONE]") == 1


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
def test_half_utf8_spoils_one_character(server: Replay, path: str) -> None:
    server.set_faults(half_utf8={"after_tokens": 10})

    body = play(server, path)

    with pytest.raises(UnicodeDecodeError):
        body.decode("utf-8")
    assert body.count(b"\xc3") == 1


def test_long_line_is_as_long_as_asked(server: Replay) -> None:
    server.set_faults(long_line={"bytes": 3_000_000})

    lines = data_lines(play(server))

    assert max(map(len, lines)) > 3_000_000
    assert usages(play(server))[-1] == 60


def test_role_chunk_carries_no_token(server: Replay) -> None:
    server.set_faults(role_chunk={"chunks": 3})

    body = play(server, CHAT)

    roles = [c for c in chunks(body) if c["choices"] and "role" in c["choices"][0]["delta"]]
    assert len(roles) == 4
    assert usages(body)[-1] == 60


def test_reasoning_content_carries_the_first_tokens(server: Replay) -> None:
    server.set_faults(reasoning_content={"tokens": 30})

    deltas = [c["choices"][0]["delta"] for c in chunks(play(server, CHAT)) if c["choices"]]

    assert any("reasoning_content" in delta for delta in deltas)
    assert "content" in deltas[-1]


# --- /metrics and control


def test_no_metrics_answers_404(server: Replay) -> None:
    server.set_faults(no_metrics={})

    assert server.request("GET", "/metrics")[0] == 404


def test_counters_reset_falls_once(race: Path) -> None:
    with faulty(race, counters_reset={"after_tokens": 50}) as server:
        play(server, tokens=200)
        once = generated(server.get_text("/metrics"))
        play(server, tokens=200)
        twice = generated(server.get_text("/metrics"))

    assert 100 < once <= 150
    assert twice == once + 200


def test_counters_run_ahead_count_somebody_elses_tokens(server: Replay) -> None:
    before = generated(server.get_text("/metrics"))
    server.set_faults(counters_run_ahead={"tokens_per_second": 1000.0, "running": 2})

    metrics = server.get_text("/metrics")

    assert generated(metrics) > before
    assert 'vllm:num_requests_running{engine="0",model_name="X"} 2.0' in metrics


def test_faults_spare_the_first_requests_and_keep_to_their_probability(race: Path) -> None:
    with faulty(race, http_500={"after_requests": 2}) as server:
        body = {"model": "X", "prompt": "x", "max_tokens": 1}
        statuses = [server.post(COMPLETIONS, body)[0] for _ in range(4)]
        server.set_faults(http_500={"probability": 0.5})
        drawn = {server.post(COMPLETIONS, body)[0] for _ in range(30)}

    assert statuses == [200, 200, 500, 500]
    assert drawn == {200, 500}


def test_faults_are_set_only_with_the_control_token(server: Replay) -> None:
    status, _ = server.request("POST", "/replay/faults", {"die": {}}, authorization="Bearer x")

    assert status == 401
    assert server.get("/replay")["faults"] == []
