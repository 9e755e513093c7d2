"""Results, cards, engines, health and the OpenAPI document over HTTP."""

import csv
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.domain.errors import StoreError
from app.store.db import Database
from tests.integration import web_house as house

House = tuple[TestClient, Database]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house.visit(tmp_path) as (client, db):
        client.headers.update(house.bearer(db))
        yield client, db


@pytest.mark.parametrize("path", ["/api/v1/results/{}", "/r/{}.json"])
def test_a_result_is_served_as_the_bytes_that_its_tag_names(home: House, path: str) -> None:
    client, db = home
    frozen = house.make_result(db)

    answer = client.get(path.format(frozen.slug))

    assert answer.content == frozen.document
    assert answer.headers["etag"] == f'"{hashlib.sha256(answer.content).hexdigest()}"'
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("known", ['"{}"', 'W/"{}"', '"x", "{}"', "*"])
def test_a_result_that_the_reader_has_is_not_sent_again(home: House, known: str) -> None:
    client, db = home
    frozen = house.make_result(db)

    headers = {"If-None-Match": known.format(frozen.sha256)}
    answer = client.get(f"/api/v1/results/{frozen.slug}", headers=headers)

    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == f'"{frozen.sha256}"'


def test_another_tag_brings_the_document(home: House) -> None:
    client, db = home
    slug = house.make_result(db).slug

    answer = client.get(f"/api/v1/results/{slug}", headers={"If-None-Match": '"old"'})

    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/api/v1/results/{}.csv", "/r/{}.csv"])
def test_the_cells_come_as_csv(home: House, path: str) -> None:
    client, db = home
    frozen = house.make_result(db)

    answer = client.get(path.format(frozen.slug))
    rows = list(csv.DictReader(io.StringIO(answer.text)))

    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert [row["lane"] for row in rows] == ["baseline", "mtp-k4"]
    assert rows[0]["provenance"] == "measured"


def test_results_are_listed_and_deleted(home: House) -> None:
    client, db = home
    frozen = house.make_result(db)

    listed = client.get("/api/v1/results").json()["results"]
    deleted = client.delete(f"/api/v1/results/{frozen.slug}")
    again = client.delete(f"/api/v1/results/{frozen.slug}")

    assert [entry["sha256"] for entry in listed] == [frozen.sha256]
    assert (deleted.status_code, again.status_code) == (204, 404)
    assert client.get(f"/r/{frozen.slug}").status_code == 404


def test_cards_are_listed_and_read(home: House) -> None:
    client, _ = home

    names = [card["name"] for card in client.get("/api/v1/recipes").json()["recipes"]]
    card = client.get("/api/v1/recipes/replay-b300").json()

    assert "replay-b300" in names
    assert "engine: replay" in card["yaml"]
    assert client.get("/api/v1/recipes/nope").status_code == 404


def test_the_schema_of_a_recipe_is_published(home: House) -> None:
    schema = home[0].get("/api/v1/recipe.schema.json").json()

    assert {"model", "engine", "lanes"} <= set(schema["required"])


def test_engines_are_those_of_living_workers(home: House) -> None:
    client, db = home
    before = client.get("/api/v1/engines").json()
    house.make_worker(db, "vllm", "replay")

    after = client.get("/api/v1/engines").json()

    assert before == {"engines": [], "workers": []}
    assert after["engines"] == ["replay", "vllm"]
    assert after["workers"][0]["host"] == "elsewhere"


def test_readiness_tells_whether_anybody_would_race(home: House) -> None:
    client, db = home
    before = client.get("/api/v1/ready").json()
    house.make_worker(db, "replay")

    after = client.get("/api/v1/ready").json()

    assert (before["workers"], after["workers"]) == (0, 1)
    assert "no worker" in before["detail"]


def test_a_database_that_fails_is_a_problem_that_passes(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, db = home

    def fail() -> Any:
        raise StoreError("The database is locked.", remedy="End that program.")

    monkeypatch.setattr(db, "read", fail)
    answers = [client.get("/api/v1/ready"), client.get("/api/v1/runs")]

    assert [answer.status_code for answer in answers] == [503, 503]
    assert answers[0].headers["retry-after"]
    assert answers[0].json()["remedy"] == "End that program."
    assert client.get("/api/v1/health").status_code == 200


def test_every_operation_has_a_stable_name_a_tag_and_its_problems(home: House) -> None:
    document = home[0].get("/api/v1/openapi.json").json()
    operations = [each for path in document["paths"].values() for each in path.values()]
    closed = [each for each in operations if each["tags"] != ["health"]]

    assert sorted(each["operationId"] for each in operations) == [
        "cancel_run", "check_health", "check_ready", "delete_result", "delete_run",
        "list_engines", "list_recipes", "list_results", "list_runs", "list_ticks",
        "read_recipe", "read_recipe_schema", "read_result", "read_result_csv", "read_run",
        "stream_events", "submit_run",
    ]  # fmt: skip
    assert all(each["description"] and len(each["tags"]) == 1 for each in operations)
    assert all("401" in each["responses"] and each["security"] for each in closed)
    assert all(
        "application/problem+json" in answer["content"]
        for each in operations
        for status, answer in each["responses"].items()
        if status >= "400"
    )


def test_the_openapi_document_is_whole_and_its_examples_are_accepted(home: House) -> None:
    client, _ = home
    document = client.get("/api/v1/openapi.json")
    schemas = document.json()["components"]["schemas"]
    body = document.json()["paths"]["/api/v1/runs"]["post"]["requestBody"]["content"]

    named = {part.split('"')[0] for part in document.text.split("#/components/schemas/")[1:]}
    examples = [each["value"] for each in body["application/json"]["examples"].values()]

    assert named <= set(schemas)
    assert [client.post("/api/v1/runs", json=each).status_code for each in examples] == [202, 202]


def test_every_route_is_in_the_api_guide(home: House) -> None:
    guide = (house.ROOT / "docs" / "api.md").read_text()
    paths = home[0].get("/api/v1/openapi.json").json()["paths"]

    routes = [f"`{verb.upper()} {path}`" for path, verbs in paths.items() for verb in verbs]

    assert [route for route in routes if route not in guide] == []
