"""What every answer says to the browser, and what no answer tells."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.store import runs
from app.store.db import Database
from tests.integration import web_house as house

House = tuple[TestClient, Database]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house.visit(tmp_path, auth=False) as entered:
        yield entered


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/api/v1/runs", "/api/v1/nothing", "/static/css/tokens.css"]
)
def test_every_answer_carries_the_policies(home: House, path: str) -> None:
    headers = home[0].get(path).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers


def test_refusals_carry_the_policies_too(tmp_path: Path) -> None:
    with house.visit(tmp_path) as (client, _):
        answers = [client.get("/"), client.get("/", headers={"Host": "evil.example"})]

    assert [answer.status_code for answer in answers] == [401, 421]
    assert all("content-security-policy" in answer.headers for answer in answers)


def test_only_embeds_may_be_framed_and_they_run_no_script(home: House) -> None:
    client, db = home
    slug = house.make_result(db).slug

    embed = client.get(f"/e/{slug}").headers["content-security-policy"]
    page = client.get(f"/r/{slug}").headers["content-security-policy"]

    assert "frame-ancestors *" in embed
    assert "script-src 'none'" in embed
    assert "frame-ancestors 'none'" in page


def test_the_inline_script_is_the_one_that_the_policy_names(home: House) -> None:
    from app.web.headers import script_hash

    answer = home[0].get("/")
    inline = answer.text.split("<script>")[1].split("</script>")[0]

    assert script_hash(inline) in answer.headers["content-security-policy"]


def test_private_figures_are_stored_nowhere(home: House) -> None:
    client, db = home
    run_id = house.make_run(db)

    for path in ("/api/v1/runs", f"/api/v1/runs/{run_id}", "/", f"/runs/{run_id}"):
        assert client.get(path).headers["cache-control"] == "no-store", path


def test_there_are_no_interactive_docs(home: House) -> None:
    assert home[0].get("/docs").status_code == 404
    assert home[0].get("/redoc").status_code == 404


def test_an_unexpected_error_tells_nothing_and_is_logged(
    home: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def explode(*args: object, **more: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(runs, "list_runs", explode)
    with caplog.at_level(logging.ERROR, "slipstream.web"):
        for path in ("/api/v1/runs", "/"):
            answer = home[0].get(path)

            assert answer.status_code == 500
            assert "secret detail" not in answer.text
            assert "content-security-policy" in answer.headers

    assert "secret detail" in caplog.text


@pytest.mark.parametrize("path", ["/api/v1/runs", "/submit"])
def test_a_body_that_says_it_is_large_is_refused_unread(home: House, path: str) -> None:
    answer = home[0].post(path, content=b"x" * 10_000_000)

    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/api/v1/runs", "application/json"), ("/submit", "application/x-www-form-urlencoded")],
)
def test_a_body_that_streams_on_and_on_is_cut_off(home: House, path: str, kind: str) -> None:
    answer = home[0].post(
        path, content=(b"x" * 50_000 for _ in range(20)), headers={"Content-Type": kind}
    )

    assert answer.status_code == 413


@pytest.mark.parametrize("nasty", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'])
def test_names_of_strangers_are_escaped(home: House, nasty: str) -> None:
    client, db = home
    run_id = house.make_run(db, name=nasty)
    house.cancel_run(db, run_id)
    slug = house.freeze_run(db, run_id).slug

    for path in ("/", f"/runs/{run_id}", f"/r/{slug}", f"/e/{slug}"):
        assert nasty not in client.get(path).text, path


def test_recipes_of_strangers_reach_no_shell_and_no_flag(home: House) -> None:
    recipe = {**house.RECIPE, "engine": "vllm", "args": {"trust-remote-code": True}}
    recipe["lanes"] = {"baseline": {"env": {"LD_PRELOAD": "/tmp/x.so"}}}

    answer = home[0].post("/api/v1/runs", content=json.dumps(recipe), headers=_JSON)

    fields = {error["field"] for error in answer.json()["errors"]}
    assert answer.status_code == 422
    assert {"args.trust-remote-code", "lanes.baseline.env.LD_PRELOAD"} <= fields


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "http://[fe80::1]/",
        "http://user:secret@127.0.0.1:8000",
    ],
)
def test_attach_urls_go_through_the_guard(home: House, url: str) -> None:
    recipe = {**house.RECIPE, "lanes": {"baseline": {"url": url}}}

    answer = home[0].post("/api/v1/runs", content=json.dumps(recipe), headers=_JSON)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "lanes.baseline.url"


_JSON = {"Content-Type": "application/json"}
