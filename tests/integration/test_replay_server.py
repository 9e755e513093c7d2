"""The replay server as a real process: exact counts, its planned speed, a clean stop."""

import json
import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.replay_process import FORCED, Replay, chunks, race_file, replay


def samples(server: Replay) -> dict[str, float]:
    """Counter values by name (and position)."""
    families = text_string_to_metric_families(server.get_text("/metrics"))
    return {
        sample.name
        + "".join(
            v for k, v in sample.labels.items() if k in ("position", "finished_reason")
        ): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize("lane", ["baseline", "mtp-k3"])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_usage_token_ids_and_counters_agree_to_the_token(tmp_path, lane: str, path: str) -> None:
    with replay(race_file(tmp_path), lane) as server:
        parsed = [
            chunks(server.stream(path, **FORCED, max_tokens=n, min_tokens=n))
            for n in (1, 2, 57, 400)
        ]
        counted = samples(server)

    with_choices = [[c for c in stream if c["choices"]] for stream in parsed]
    ids = [sum(len(c["choices"][0].get("token_ids") or ()) for c in s) for s in with_choices]
    usages = [stream[-1]["usage"]["completion_tokens"] for stream in parsed]
    assert ids == usages == [1, 2, 57, 400]
    assert counted["vllm:generation_tokens_total"] == 460
    assert counted["vllm:request_success_totallength"] == 4


def test_drafts_accepted_and_requests_make_tokens_plus_those_cut(tmp_path) -> None:
    with replay(race_file(tmp_path), "mtp-k3") as server:
        for n in (10, 11, 12, 200):
            server.stream("/v1/completions", **FORCED, max_tokens=n)
        counted = samples(server)

    drafts = counted["vllm:spec_decode_num_drafts_total"]
    accepted = counted["vllm:spec_decode_num_accepted_tokens_total"]
    positions = [
        counted[f"vllm:spec_decode_num_accepted_tokens_per_pos_total{i}"] for i in range(3)
    ]
    made = drafts + accepted + 4
    assert 0 <= made - 233 <= 4 * 3
    assert sum(positions) == accepted
    assert counted["vllm:spec_decode_num_draft_tokens_total"] == 3 * drafts


def test_the_baseline_shows_no_speculation_counters(tmp_path) -> None:
    with replay(race_file(tmp_path), "baseline") as server:
        text = server.get_text("/metrics")

    assert "spec_decode" not in text


def test_both_lanes_say_the_same_text_and_some_chunks_are_empty(tmp_path) -> None:
    texts, empties = {}, {}
    for lane in ("baseline", "mtp-k3"):
        with replay(race_file(tmp_path), lane) as server:
            said = [
                c["choices"][0]["text"]
                for c in chunks(server.stream("/v1/completions", **FORCED, max_tokens=300))
                if c["choices"]
            ]
        texts[lane], empties[lane] = "".join(said), said.count("")

    assert texts["baseline"] == texts["mtp-k3"]
    assert empties["baseline"] > 5


def test_the_planned_schedule_keeps_the_recorded_speed(tmp_path) -> None:
    with replay(race_file(tmp_path), "mtp-k3", "--heat-noise", "0") as server:
        server.stream("/v1/completions", **FORCED, max_tokens=3000)
        expected = server.get("/replay/expect?context=2&concurrency=1")["tokens_per_second"]
        steps = server.get("/replay/journal")["steps"]

    planned = sum(step[2] for step in steps[1:]) / (steps[-1][0] - steps[0][0])
    assert expected == 2000.0
    assert planned == pytest.approx(expected, rel=0.005)


def test_it_says_that_it_is_a_replay_and_whose_measurement_it_plays(tmp_path) -> None:
    with replay(race_file(tmp_path), "mtp-k3") as server:
        told, models = server.get("/replay"), server.get("/v1/models")
        version = server.get("/version")["version"]

    assert told["source"]["title"] == "A test's own race"
    assert (told["race"], told["lane"], told["k"]) == ("fast", "mtp-k3", 3)
    assert models["data"][0]["owned_by"] == "slipstream-replay"
    assert models["data"][0]["created"] == int(told["process_start"])
    assert version.startswith("slipstream-replay")


def test_usage_comes_as_asked_for(tmp_path) -> None:
    wishes = [{}, {"include_usage": True}, {"include_usage": True, "continuous_usage_stats": True}]
    with replay(race_file(tmp_path), "mtp-k3") as server:
        bodies = [{"prompt": "x", "max_tokens": 30, "ignore_eos": True}]
        bodies = [{**bodies[0], **({"stream_options": w} if w else {})} for w in wishes]
        told = [
            ["usage" in c for c in chunks(server.stream("/v1/completions", **body))]
            for body in bodies
        ]

    assert not any(told[0])
    assert told[1] == [False] * (len(told[1]) - 1) + [True]
    assert all(told[2])


def test_a_whole_answer_and_a_refusal_look_like_vllms(tmp_path) -> None:
    with replay(race_file(tmp_path), "baseline") as server:
        status, answer = server.post(
            "/v1/completions",
            {"model": "X", "prompt": [1, 2, 3], "max_tokens": 8, "return_token_ids": True},
        )
        refused_status, refused = server.post("/v1/completions", {"model": "nope", "prompt": "x"})
        tokens_status, tokens = server.post("/tokenize", {"model": "X", "prompt": "hello world"})

    assert (status, refused_status, tokens_status) == (200, 404, 200)
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 11, "completion_tokens": 8}
    assert len(answer["choices"][0]["token_ids"]) == 8
    assert refused["error"]["type"] == "NotFoundError"
    assert tokens["count"] == len(tokens["tokens"]) == 3


def test_a_client_that_goes_away_ends_its_stream_and_its_tokens_stay_counted(tmp_path) -> None:
    with replay(race_file(tmp_path), "baseline") as server:
        with server.open_stream("/v1/completions", **FORCED, max_tokens=100_000) as response:
            for _ in range(40):
                response.readline()
        server.poll(lambda: samples(server)["vllm:num_requests_running"] == 0)
        counted = samples(server)

    assert counted["vllm:generation_tokens_total"] >= 10
    assert counted["vllm:request_success_totalabort"] == 1


def test_prefills_of_clients_that_went_away_block_nobody(tmp_path) -> None:
    with replay(race_file(tmp_path), "baseline") as server:
        long = {**FORCED, "prompt": [1] * 250_000, "return_token_ids": False}  # 25 s of prefill
        with server.open_stream("/v1/chat/completions", **{**FORCED, "max_tokens": 9000}):
            pass
        with server.request_and_leave("/v1/completions", **long):
            server.poll(lambda: samples(server)["vllm:num_requests_running"] >= 1)
        server.poll(lambda: samples(server)["vllm:num_requests_running"] == 0)
        body = server.stream("/v1/completions", **FORCED, max_tokens=5)
        counted = samples(server)

    assert chunks(body)[-1]["usage"]["completion_tokens"] == 5
    assert counted["vllm:time_to_first_token_seconds_sum"] < 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_with_a_stream_open(tmp_path, number: signal.Signals) -> None:
    with replay(race_file(tmp_path), "baseline") as server:
        with server.open_stream("/v1/completions", **FORCED, max_tokens=100_000) as response:
            server.process.send_signal(number)
            rest = response.read().decode()
        code = server.process.wait(10)

    assert code == 0
    assert json.loads(rest.split("data: ")[-2])["error"]["code"] == 500
    assert rest.endswith("data: [DONE]\n\n")


def test_a_port_in_use_ends_it_with_exit_code_one(tmp_path) -> None:
    with (
        replay(race_file(tmp_path), "baseline") as first,
        replay(race_file(tmp_path), "baseline", port=first.port, is_ready=False) as second,
    ):
        code = second.process.wait(10)

    assert code == 1
    assert "Address already in use" in second.log()


def test_its_log_reads_like_a_server_that_gets_ready(tmp_path) -> None:
    with replay(race_file(tmp_path), "baseline") as server:
        pass

    assert "Application startup complete." in server.log()
    assert "REPLAY" in server.log()
