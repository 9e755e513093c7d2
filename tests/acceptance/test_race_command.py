"""`slipstream race`: a headless race on the replay engine, its exit codes and its complaints."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.domain import result as documents
from app.domain.states import RunState
from app.store import runs
from tests.acceptance.house import House, is_alive, tree_of, wait_for
from workers.recorder import utc_now


def test_a_race_writes_a_result_that_says_replay_and_whose(house: House) -> None:
    done = house.slipstream("race", house.write(), "--out", house.folder / "out")

    assert done.returncode == 0, done.stderr
    raw = (house.folder / "out" / "result.json").read_bytes()
    document = documents.parse(raw)
    assert documents.canonical(document) == raw
    assert document.provenance.kind == "replay"
    assert "Blackwell Shenanigans 003" in (document.provenance.plays or "")
    assert "REPLAY" in done.stderr or "mtp-k5 is" in done.stderr


def test_the_numbers_of_a_race_add_up(house: House) -> None:
    house.slipstream("race", house.write(), "--out", house.folder / "out")

    document = json.loads((house.folder / "out" / "result.json").read_text())
    (cell,) = document["cells"]
    for lane in cell["lanes"].values():
        for heat in lane["heats"]:
            summary = heat["summary"]
            streams = summary["streams"]
            assert summary["source"] == "usage"
            assert summary["tokens"] == sum(stream["tokens"] for stream in streams)
            window = summary["window"]
            seconds = window["close_s"] - window["open_s"]
            assert heat["tokens_per_second"] == pytest.approx(window["tokens"] / seconds)
            assert 0 <= summary["counter_tokens"] - summary["tokens"] <= 128 * len(streams)
    assert cell["lanes"]["baseline"]["acceptance"] is None
    assert len(cell["lanes"]["mtp-k5"]["acceptance"]["rate_per_position"]) == 5


def test_ticks_of_every_heat_sum_to_its_tokens_and_drafts(house: House) -> None:
    house.slipstream("race", house.write())

    with house.database() as database, database.read() as session:
        (run,) = runs.list_runs(session, now=utc_now()).runs
    snapshot = house.snapshot(run.id)
    for cell in snapshot.cells:
        for lane in cell.lanes.values():
            for heat in lane.heats:
                own = [tick for tick in house.ticks(run.id) if tick.heat == heat.id]
                assert heat.summary is not None
                assert sum(tick.tokens for tick in own) == heat.summary.tokens
                counts = heat.summary.acceptance
                if counts is not None:
                    assert sum(tick.drafts or 0 for tick in own) == counts.drafts
                    assert sum(tick.accepted or 0 for tick in own) == counts.accepted


def test_json_prints_the_document_and_nothing_else(house: House) -> None:
    done = house.slipstream("race", house.write(repeats=1), "--json")

    assert json.loads(done.stdout)["schema"] == "slipstream.result/1"
    assert done.returncode == 0


def test_set_changes_the_recipe(house: House) -> None:
    done = house.slipstream(
        "race", house.write(), "--json", "--set", "repeats=1", "--set", "matrix.concurrency=[1]"
    )

    recipe = json.loads(done.stdout)["recipe"]
    assert (recipe["repeats"], recipe["matrix"]["concurrency"]) == (1, [1])


def test_ctrl_c_cancels_the_run_and_exits_130(house: House) -> None:
    recipe = house.write(decode={"seconds": 60, "max_tokens": 100_000})

    with house.running("app.cli", "race", recipe) as process:
        run_id = wait_for(lambda: _racing(house), explain=house.log)
        process.send_signal(signal.SIGINT)

        assert process.wait(20) == 130
    assert house.snapshot(run_id).run.state is RunState.CANCELLED


def test_a_second_ctrl_c_ends_the_race_even_without_a_database(house: House) -> None:
    recipe = house.write(decode={"seconds": 60, "max_tokens": 100_000})

    with house.running("app.cli", "race", recipe) as process:
        wait_for(lambda: _racing(house), explain=house.log)
        tree = tree_of(process.pid)
        _break_database(house)
        process.send_signal(signal.SIGINT)
        wait_for(lambda: "Ctrl-C again" in house.log(), explain=house.log)
        process.send_signal(signal.SIGINT)

        assert process.wait(30) == 130, house.log()
    wait_for(lambda: not any(is_alive(child) for child in tree), 5, house.log)
    assert "Traceback" not in house.log()


def test_a_second_ctrl_c_ends_following_even_without_a_database(house: House) -> None:
    recipe = house.write(decode={"seconds": 60, "max_tokens": 100_000})

    with house.worker():
        wait_for(lambda: "worker is there" in house.log(), explain=house.log)
        with house.running("app.cli", "race", recipe) as process:
            wait_for(lambda: _racing(house), explain=house.log)
            _break_database(house)
            process.send_signal(signal.SIGINT)
            wait_for(lambda: "Ctrl-C again" in house.log(), explain=house.log)
            process.send_signal(signal.SIGINT)

            assert process.wait(30) == 130, house.log()


def test_a_race_outlives_the_worker_that_raced_it(house: House) -> None:
    house.env |= {"SLIPSTREAM_LEASE_SECONDS": "4", "SLIPSTREAM_HEARTBEAT_SECONDS": "1"}
    recipe = house.write(repeats=1, decode={"seconds": 2, "max_tokens": 8192})
    with house.worker() as worker:
        wait_for(lambda: "worker is there" in house.log(), explain=house.log)
        with house.running("app.cli", "race", recipe) as process:
            wait_for(lambda: _racing(house), explain=house.log)
            worker.kill()

            assert process.wait(60) == 0, house.log()
    assert "it is raced here" in house.log()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["race", "no-such-recipe"], "neither a file nor a card"),
        (["race", "replay-b300", "--set", "foo=1"], "foo: is not a key"),
        (["race", "replay-b300", "--set", "lanes.mtp-k5.k=0"], "lanes.mtp-k5.k: must be at least"),
        (["race", "replay-b300", "--set", "args.race=nope"], "args.race"),
        (["race", "replay-b300", "--set", "args.speed=3"], "args.speed: is not a flag"),
        (["race", "replay-b300", "--set", "decode.seconds"], "KEY=VALUE"),
        (["race", "replay-b300", "--set", "args.max-model-len=9000"], "exceed max-model-len"),
    ],
)
def test_bad_input_is_one_clear_message_exit_2_and_changes_nothing(
    house: House, arguments: list[str], words: str
) -> None:
    done = house.slipstream(*arguments)

    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (house.folder / "data" / "slipstream.db").exists()


def test_ten_megabytes_of_yaml_are_refused(house: House) -> None:
    file = house.folder / "big.yaml"
    file.write_bytes(b"# " + b"x" * 10_000_000)

    done = house.slipstream("race", file)

    assert done.returncode == 2
    assert "10000002 bytes long" in done.stderr


def test_an_engine_that_is_not_installed_is_named_with_the_remedy(house: House) -> None:
    house.env["SLIPSTREAM_VLLM_BIN"] = str(house.folder / "no-vllm")

    done = house.slipstream("race", house.write(engine="vllm", args={}, lanes={"baseline": {}}))

    assert done.returncode == 2
    assert "engine: vllm" in done.stderr
    assert "SLIPSTREAM_VLLM_BIN" in done.stderr


def test_a_missing_model_folder_is_named(house: House) -> None:
    fake = house.folder / "vllm"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    house.env["SLIPSTREAM_VLLM_BIN"] = str(fake)

    done = house.slipstream(
        "race", house.write(engine="vllm", args={}, model="/no/model", lanes={"baseline": {}})
    )

    assert done.returncode == 2
    assert "model: " in done.stderr
    assert "/no/model" in done.stderr


def test_a_database_from_a_newer_version_is_refused(house: House) -> None:
    house.submit()
    with house.database() as database, database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num='9999'")

    done = house.slipstream("race", "replay-b300")

    assert done.returncode == 2
    assert "newer Slipstream" in done.stderr


def _racing(house: House) -> str | None:
    if not (house.folder / "data" / "slipstream.db").exists():
        return None
    with house.database() as database, database.read() as session:
        rows = runs.list_runs(session, now=utc_now()).runs
    return next((run.id for run in rows if house.ticks(run.id)), None)


def _break_database(house: House) -> None:
    """Every statement about runs fails from now on."""
    with closing(sqlite3.connect(house.folder / "data" / "slipstream.db", timeout=20)) as opened:
        opened.execute("ALTER TABLE run RENAME TO gone")
        opened.commit()


def test_out_that_cannot_be_made_is_refused_before_the_race(house: House, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = house.slipstream("race", "replay-b300", "--out", tmp_path / "file" / "out")

    assert done.returncode == 2
    assert "--out" in done.stderr
    assert not (house.folder / "data" / "slipstream.db").exists()


def test_a_result_that_cannot_be_written_is_printed_and_said(house: House) -> None:
    (house.folder / "out" / "result.json").mkdir(parents=True)

    done = house.slipstream("race", house.write(repeats=1), "--json", "--out", house.folder / "out")

    assert done.returncode == 1
    assert json.loads(done.stdout)["schema"] == "slipstream.result/1"
    assert "result.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_out_that_is_a_file_is_refused(house: House, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = house.slipstream("race", "replay-b300", "--out", tmp_path / "file")

    assert done.returncode == 2
