"""Runs over HTTP: what is accepted, what is refused and in which words."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from app.store.db import Database
from tests.integration import web_house as house

House = tuple[TestClient, Database]
RUNS = "/api/v1/runs"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house.visit(tmp_path) as (client, db):
        client.headers.update(house.bearer(db))
        yield client, db


def post(client: TestClient, body: Any, **headers: str) -> Any:
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    return client.post(
        RUNS, content=content, headers={"Content-Type": "application/json", **headers}
    )


def post_yaml(client: TestClient, text: str) -> Any:
    return client.post(RUNS, content=text, headers={"Content-Type": "application/yaml"})


def problem_fields(answer: Any) -> list[str]:
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    return [error["field"] for error in answer.json()["errors"]]


def count(client: TestClient) -> int:
    return len(client.get(RUNS).json()["runs"])


def test_a_recipe_is_queued_and_can_be_read_where_the_answer_says(home: House) -> None:
    answer = post(home[0], house.RECIPE)
    there = home[0].get(answer.headers["location"]).json()

    assert answer.status_code == 202
    assert answer.json()["state"] == "queued"
    assert answer.json()["provenance"]["kind"] == "measured"
    assert there["run"]["id"] == answer.json()["id"]
    assert list(there["recipe"]["lanes"]) == ["baseline", "mtp-k4"]


def test_the_same_recipe_as_yaml_makes_the_same_run(home: House) -> None:
    as_json = post(home[0], house.RECIPE).json()["id"]
    as_yaml = post_yaml(home[0], yaml.safe_dump(house.RECIPE)).json()["id"]

    recipes = [home[0].get(f"{RUNS}/{run}").json()["recipe"] for run in (as_json, as_yaml)]
    assert recipes[0] == recipes[1]


def test_a_card_is_queued_with_values_laid_over_it(home: House) -> None:
    answer = post(home[0], {"card": "replay-b300", "set": {"decode.seconds": 1, "repeats": 1}})
    recipe = home[0].get(answer.headers["location"]).json()["recipe"]

    assert answer.json()["provenance"]["kind"] == "replay"
    assert (recipe["decode"]["seconds"], recipe["repeats"]) == (1, 1)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"card": "nope"}, "card"),
        ({"card": "../../etc/passwd"}, "card"),
        ({"card": "replay-b300", "sets": {}}, "sets"),
        ({"card": "replay-b300", "set": ["a"]}, "set"),
        ({"card": "replay-b300", "set": {"decode.secs": 1}}, "decode.secs"),
        ({"card": "replay-b300", "set": {"repeats.x": 1}}, "repeats.x"),
        ({**house.RECIPE, "lane": {}}, "lane"),
        ({**house.RECIPE, "engine": "warp"}, "engine"),
        ({**house.RECIPE, "lanes": {"baseline": {}}}, "lanes.baseline.url"),
        ("[]", ""),
        ("{", ""),
        ('{"lanes": {"a": {}, "a": {}}}', "a"),
        ("[" * 20_000, ""),
        (b'{"name": "\xff"}', ""),
    ],
)
def test_a_bad_recipe_is_refused_with_its_field_and_changes_nothing(
    home: House, body: Any, field: str
) -> None:
    answer = post(home[0], body)

    assert field in problem_fields(answer)
    assert all(error["message"] for error in answer.json()["errors"])
    assert count(home[0]) == 0


@pytest.mark.parametrize(
    "text", ["a: !!python/object/apply:os.system [id]", "a: &x 1\nb: *x", "a: 1\na: 2", "a: [1"]
)
def test_yaml_with_tricks_is_refused(home: House, text: str) -> None:
    assert problem_fields(post_yaml(home[0], text))
    assert count(home[0]) == 0


def test_ten_megabytes_of_yaml_are_not_read(home: House) -> None:
    answer = post_yaml(home[0], "a: 1\n" * 2_000_000)

    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["remedy"]


def test_other_kinds_of_bodies_are_refused(home: House) -> None:
    answer = home[0].post(RUNS, content="x", headers={"Content-Type": "text/plain"})

    assert answer.status_code == 415


def test_an_idempotency_key_makes_one_run(home: House) -> None:
    key = {"Idempotency-Key": "k1"}

    first, again = post(home[0], house.RECIPE, **key), post(home[0], house.RECIPE, **key)
    other = post(home[0], {"card": "replay-b300"}, **key)

    assert first.json()["id"] == again.json()["id"]
    assert other.status_code == 409
    assert count(home[0]) == 1


def test_runs_are_listed_newest_first_in_pages(home: House) -> None:
    client, db = home
    made = [house.make_run(db) for _ in range(5)]

    first = client.get(RUNS, params={"limit": 3}).json()
    rest = client.get(RUNS, params={"limit": 3, "cursor": first["next_cursor"]}).json()

    assert [run["id"] for run in first["runs"] + rest["runs"]] == made[::-1]
    assert rest["next_cursor"] is None


def test_runs_are_listed_by_state(home: House) -> None:
    client, db = home
    house.make_run(db)
    cancelled = house.make_run(db)
    house.cancel_run(db, cancelled)

    listed = client.get(RUNS, params={"state": "cancelled"}).json()["runs"]

    assert [run["id"] for run in listed] == [cancelled]


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "limit"), ("limit=x", "limit"), ("state=odd", "state"), ("cursor=x", "cursor")],
)
def test_a_bad_query_names_its_field(home: House, query: str, field: str) -> None:
    assert problem_fields(home[0].get(f"{RUNS}?{query}")) == [field]


def test_a_run_is_cancelled_then_deleted(home: House) -> None:
    client, db = home
    path = f"{RUNS}/{house.make_run(db)}"

    too_early = client.delete(path)
    cancelled = client.post(f"{path}/cancel")
    deleted = client.delete(path)
    gone = client.get(path)

    assert too_early.status_code == 409
    assert (cancelled.status_code, cancelled.json()["state"]) == (202, "cancelled")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert gone.status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/x"),
        ("POST", "/x/cancel"),
        ("DELETE", "/x"),
        ("GET", "/x/ticks"),
        ("GET", "/x/events"),
    ],
)
def test_an_unknown_run_is_a_problem(home: House, method: str, path: str) -> None:
    answer = home[0].request(method, RUNS + path)

    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:slipstream:problem:not-found"


def test_ticks_are_read_in_pages(home: House) -> None:
    client, db = home
    run_id = house.make_run(db)
    ids = house.make_ticks(db, run_id, 5)

    first = client.get(f"{RUNS}/{run_id}/ticks", params={"limit": 3}).json()
    rest = client.get(f"{RUNS}/{run_id}/ticks", params={"after": first["last_id"]}).json()

    assert [tick["id"] for tick in first["ticks"] + rest["ticks"]] == ids
    assert (first["is_complete"], rest["is_complete"]) == (False, True)


@pytest.mark.parametrize("last", ["x", "-1", "1e3", "9" * 30, "1; DROP"])
def test_a_last_event_id_that_is_none_is_refused(home: House, last: str) -> None:
    client, db = home
    path = f"{RUNS}/{house.make_run(db)}/events"

    assert problem_fields(client.get(path, headers={"Last-Event-ID": last})) == ["Last-Event-ID"]


def test_an_engine_that_no_living_worker_has_is_refused(home: House) -> None:
    client, db = home
    house.make_worker(db, "replay")

    answer = post(client, house.RECIPE)

    assert problem_fields(answer) == ["engine"]
    assert "replay" in answer.json()["errors"][0]["remedy"]


def test_a_model_folder_that_is_missing_on_this_host_is_refused(home: House) -> None:
    client, db = home
    house.make_worker(db, "vllm", host=socket.gethostname())
    recipe = {
        "name": "a",
        "model": "/no/such/folder",
        "engine": "vllm",
        "lanes": {"baseline": {}, "mtp": {"drafter": "/no/drafter", "k": 2}},
    }

    assert problem_fields(post(client, recipe)) == ["model", "lanes.mtp.drafter"]


def test_models_of_other_hosts_are_their_workers_business(home: House) -> None:
    client, db = home
    house.make_worker(db, "vllm", host="elsewhere")
    recipe = {
        "name": "a",
        "model": "/no/such/folder",
        "engine": "vllm",
        "lanes": {"baseline": {}},
    }

    assert post(client, recipe).status_code == 202
