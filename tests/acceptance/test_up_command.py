"""`slipstream up`: dashboard and worker in one command, as `make race` starts them."""

import re
import signal
import socket

import httpx
import psutil

from tests.acceptance.house import House, is_alive, tree_of, wait_for

LINK = re.compile(r"http://\S+/login\?link=\S+")
RESULT = re.compile(r"Result: (http://\S+/r/\S+)")


def printed(house: House, pattern: re.Pattern[str]) -> str:
    """The first match in what `up` printed, waiting for it."""
    found = wait_for(lambda: pattern.search(house.log()), explain=house.log)
    return found.group(found.lastindex or 0)


def worker_of(pid: int) -> psutil.Process | None:
    """The worker that the dashboard keeps."""
    return next((child for child in tree_of(pid) if "workers" in child.cmdline()), None)


def test_one_command_leaves_a_result_page_and_no_process(house: House) -> None:
    recipe = house.write(repeats=1)

    with house.running("app.cli", "up", "--port", "0", "--race", recipe) as process:
        page = httpx.get(printed(house, RESULT))
        tree = tree_of(process.pid)
        process.send_signal(signal.SIGINT)

        assert process.wait(20) == 0
        wait_for(lambda: not any(is_alive(child) for child in tree), 5, house.log)
    assert page.status_code == 200
    assert "REPLAY" in page.text
    assert "Blackwell Shenanigans 003" in page.text


def test_exit_after_race_ends_by_itself(house: House) -> None:
    recipe = house.write(repeats=1)

    done = house.slipstream("up", "--port", "0", "--race", recipe, "--exit-after-race")

    assert done.returncode == 0, done.stderr
    assert RESULT.search(done.stdout)


def test_a_killed_worker_is_started_again_and_the_race_ends(house: House) -> None:
    house.env |= {"SLIPSTREAM_LEASE_SECONDS": "4", "SLIPSTREAM_HEARTBEAT_SECONDS": "1"}
    recipe = house.write(repeats=1, decode={"seconds": 2, "max_tokens": 8192})
    arguments = ("up", "--port", "0", "--race", recipe, "--exit-after-race")

    with house.running("app.cli", *arguments) as process:
        worker = wait_for(lambda: worker_of(process.pid), explain=house.log)
        worker.kill()

        assert process.wait(60) == 0
    assert "The worker has ended" in house.log()


def test_a_race_that_was_cut_off_does_not_count_as_finished(house: House) -> None:
    recipe = house.write(decode={"seconds": 60, "max_tokens": 100_000})
    arguments = ("up", "--port", "0", "--race", recipe, "--exit-after-race")

    with house.running("app.cli", *arguments) as process:
        printed(house, LINK)
        wait_for(lambda: worker_of(process.pid), explain=house.log)
        process.send_signal(signal.SIGTERM)

        assert process.wait(30) == 1


def test_a_signal_right_after_the_greeting_is_obeyed(house: House) -> None:
    with house.running("app.cli", "up", "--port", "0", "--no-worker") as process:
        printed(house, re.compile("Slipstream is at"))
        process.send_signal(signal.SIGTERM)

        assert process.wait(15) == 0


def test_the_printed_link_opens_one_session_and_no_second(house: House) -> None:
    with house.running("app.cli", "up", "--port", "0", "--no-worker"):
        link = printed(house, LINK)
        with httpx.Client(follow_redirects=True) as owner, httpx.Client() as stranger:
            opened = owner.get(link)
            again = stranger.get(link)
            home = owner.get(str(opened.url))

    assert (opened.status_code, home.status_code) == (200, 200)
    assert again.status_code >= 400


def test_a_taken_port_is_named_and_nothing_starts(house: House) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        done = house.slipstream("up", "--port", port)

    assert done.returncode == 2
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr


def test_a_killed_dashboard_takes_its_worker_along(house: House) -> None:
    with house.running("app.cli", "up", "--port", "0") as process:
        printed(house, LINK)
        tree = wait_for(lambda: tree_of(process.pid), explain=house.log)
        process.kill()

        wait_for(lambda: not any(is_alive(child) for child in tree), 20, house.log)


def test_token_gives_a_bearer_that_opens_the_api(house: House) -> None:
    with house.running("app.cli", "up", "--port", "0", "--no-worker"):
        base = printed(house, re.compile(r"Slipstream is at (http://\S+)"))
        secret = house.slipstream("token", "--label", "test").stdout.strip()

        closed = httpx.get(f"{base}/api/v1/runs")
        opened = httpx.get(f"{base}/api/v1/runs", headers={"authorization": f"Bearer {secret}"})

    assert (closed.status_code, opened.status_code) == (401, 200)


def test_doctor_says_what_is_here(house: House) -> None:
    done = house.slipstream("doctor")

    assert done.returncode in (0, 1)
    for word in ("replay", "vllm", "database", "port", "disk"):
        assert word in done.stdout
