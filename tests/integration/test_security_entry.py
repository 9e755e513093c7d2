"""Who gets in: design.md section 8, a test for each line about tokens, links, hosts and origins."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from app.store.db import Database
from app.store.tokens import TokenKind
from tests.integration import web_house as house

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
House = tuple[TestClient, Database]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house.visit(tmp_path) as entered:
        yield entered


def sign_in(client: TestClient, db: Database, query: str = "") -> Any:
    link = house.mint(db, TokenKind.LINK)
    return client.get(f"/login?link={link}{query}", follow_redirects=False)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/runs",
        "/api/v1/runs/x",
        "/api/v1/runs/x/ticks",
        "/api/v1/runs/x/events",
        "/api/v1/results",
        "/api/v1/results/x",
        "/api/v1/results/x.csv",
        "/api/v1/recipes",
        "/api/v1/recipe.schema.json",
        "/api/v1/engines",
        "/api/v1/openapi.json",
        "/api/v1/nothing",
        "/runs/x.json",
        "/index.json",
    ],
)
def test_figures_ask_for_a_token_even_on_localhost(home: House, path: str) -> None:
    answer = home[0].get(path)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "slipstream token" in answer.json()["remedy"]


@pytest.mark.parametrize("path", ["/", "/submit", "/runs/x", "/_patterns", "/nothing", "/r/a/b"])
def test_pages_show_a_stranger_how_to_get_in(home: House, path: str) -> None:
    answer = home[0].get(path)

    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert "slipstream token --link" in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/runs"),
        ("POST", "/api/v1/runs/x/cancel"),
        ("DELETE", "/api/v1/runs/x"),
        ("DELETE", "/api/v1/results/x"),
        ("DELETE", "/r/x"),
        ("POST", "/submit"),
        ("POST", "/api/v1/health"),
    ],
)
def test_strangers_change_nothing(home: House, method: str, path: str) -> None:
    assert home[0].request(method, path, headers=SAME_ORIGIN).status_code == 401


def test_results_embeds_files_and_health_are_public(home: House) -> None:
    client, db = home
    slug = house.make_result(db).slug

    paths = [f"/r/{slug}", f"/r/{slug}.json", f"/r/{slug}.csv", f"/e/{slug}"]
    paths += ["/static/css/tokens.css", "/api/v1/health", "/api/v1/ready"]

    assert {path: client.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)


def test_a_bearer_token_opens_the_api(home: House) -> None:
    client, db = home

    assert client.get("/api/v1/runs", headers=house.bearer(db)).status_code == 200


@pytest.mark.parametrize("kind", [TokenKind.LINK, TokenKind.SESSION])
def test_other_secrets_are_no_bearer_tokens(home: House, kind: TokenKind) -> None:
    client, db = home

    answer = client.get("/api/v1/runs", headers={"Authorization": f"Bearer {house.mint(db, kind)}"})

    assert answer.status_code == 401


def test_an_expired_token_opens_nothing(home: House) -> None:
    client, db = home
    old = house.mint(db, TokenKind.BEARER, ttl=timedelta(seconds=-1))

    answer = client.get("/api/v1/runs", headers={"Authorization": f"Bearer {old}"})

    assert answer.status_code == 401


def test_a_link_opens_a_session_once(home: House) -> None:
    client, db = home
    link = house.mint(db, TokenKind.LINK)

    first = client.get(f"/login?link={link}", follow_redirects=False)
    inside = client.get("/api/v1/runs")
    client.cookies.clear()
    again = client.get(f"/login?link={link}", follow_redirects=False)

    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert inside.status_code == 200
    assert again.status_code == 401
    assert "set-cookie" not in again.headers
    assert "slipstream token --link" in again.text


def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(home: House) -> None:
    cookie = sign_in(*home).headers["set-cookie"]

    assert cookie.startswith("slipstream_session=")
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
    assert "Secure" not in cookie


def test_the_session_cookie_is_bound_to_https_behind_tls(tmp_path: Path) -> None:
    with house.visit(tmp_path, public_url="https://race.example") as (client, db):
        cookie = sign_in(client, db).headers["set-cookie"]

    assert cookie.startswith("__Host-slipstream_session=")
    assert {"Secure", "HttpOnly", "Path=/"} <= set(cookie.split("; "))
    assert "Domain" not in cookie


@pytest.mark.parametrize(
    ("target", "leads_to"),
    [
        ("/runs/abc?cell=2", "/runs/abc?cell=2"),
        ("https://evil.example/", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
    ],
)
def test_a_login_leads_only_to_pages_of_this_site(home: House, target: str, leads_to: str) -> None:
    client, db = home
    link = house.mint(db, TokenKind.LINK)

    answer = client.get("/login", params={"link": link, "next": target}, follow_redirects=False)

    assert answer.headers["location"] == leads_to


def test_logging_out_ends_the_session_on_the_server(home: House) -> None:
    client, db = home
    sign_in(client, db)
    cookie = client.cookies["slipstream_session"]

    client.post("/logout", headers=SAME_ORIGIN, follow_redirects=False)

    old = {"Cookie": f"slipstream_session={cookie}"}
    assert client.get("/api/v1/runs", headers=old).status_code == 401


def test_guessing_links_is_slowed_down(home: House) -> None:
    client, db = home
    link = house.mint(db, TokenKind.LINK)

    answers = [client.get(f"/login?link=wrong{n}").status_code for n in range(22)]
    right = client.get(f"/login?link={link}", follow_redirects=False)

    assert answers[:21] == [401] * 21
    assert answers[21] == 429
    assert right.status_code == 429
    assert 0 < int(right.headers["retry-after"]) <= 60


def test_wrong_tokens_are_slowed_down_without_locking_out_right_ones(home: House) -> None:
    client, db = home
    wrong = {"Authorization": "Bearer wrong"}

    answers = [client.get("/api/v1/runs", headers=wrong).status_code for _ in range(21)]

    assert answers[-1] == 429
    assert client.get("/api/v1/runs", headers=house.bearer(db)).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "testserver.evil.example", "127.0.0.1.nip.io:80"])
def test_names_that_nobody_allowed_are_not_answered(home: House, host: str) -> None:
    answer = home[0].get("/api/v1/health", headers={"Host": host})

    assert answer.status_code == 421
    assert "SLIPSTREAM_ALLOWED_HOSTS" in answer.json()["remedy"]


@pytest.mark.parametrize("host", ["", "a b", "testserver@evil", "[::1"])
def test_a_host_header_that_is_no_host_is_refused(home: House, host: str) -> None:
    assert home[0].get("/api/v1/health", headers={"Host": host}).status_code == 400


def test_the_public_name_is_answered(tmp_path: Path) -> None:
    with house.visit(tmp_path, public_url="https://race.example") as (client, _):
        answer = client.get("/api/v1/health", headers={"Host": "RACE.example:443"})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://testserver:81"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/v1/runs/{}/cancel"), ("DELETE", "/api/v1/runs/{}"), ("POST", "/api/v1/runs")],
)
def test_a_session_changes_nothing_from_another_site(
    home: House, method: str, path: str, headers: dict[str, str]
) -> None:
    client, db = home
    run_id = house.make_run(db)
    sign_in(client, db)

    answer = client.request(method, path.format(run_id), headers=headers)

    assert answer.status_code == 403
    assert client.get(f"/api/v1/runs/{run_id}").json()["run"]["state"] == "queued"


@pytest.mark.parametrize("headers", [SAME_ORIGIN, {"Origin": "http://testserver"}])
def test_a_session_changes_things_from_this_site(home: House, headers: dict[str, str]) -> None:
    client, db = home
    run_id = house.make_run(db)
    sign_in(client, db)

    answer = client.post(f"/api/v1/runs/{run_id}/cancel", headers=headers)

    assert answer.status_code == 202


def test_a_bearer_token_needs_no_browser(home: House) -> None:
    client, db = home
    run_id = house.make_run(db)

    answer = client.post(f"/api/v1/runs/{run_id}/cancel", headers=house.bearer(db))

    assert answer.status_code == 202


def test_without_authentication_pages_elsewhere_still_change_nothing(tmp_path: Path) -> None:
    with house.visit(tmp_path, auth=False) as (client, db):
        path = f"/api/v1/runs/{house.make_run(db)}/cancel"
        elsewhere = client.post(path, headers={"Origin": "https://evil.example"})
        terminal = client.post(path)

    assert (elsewhere.status_code, terminal.status_code) == (403, 202)


def test_websockets_are_not_spoken(home: House) -> None:
    with pytest.raises(WebSocketDisconnect) as caught, home[0].websocket_connect("/api/v1/runs"):
        pass  # the guard closes before anything is accepted

    assert caught.value.code == 1008


def test_the_access_log_does_not_show_links(tmp_path: Path) -> None:
    db = house.open_house(tmp_path)
    link = house.mint(db, TokenKind.LINK)
    with house.dashboard(tmp_path, SLIPSTREAM_LOG_LEVEL="debug") as served:
        answer = httpx.get(f"{served.url}/login?next=/submit&link={link}")
        httpx.get(f"{served.url}/api/v1/runs", headers=house.bearer(db))
        served.stop()
        log = served.log
    db.close()

    assert answer.status_code == 303
    assert "/login?next=/submit&link=…" in log
    assert link not in log
    assert "Bearer" not in log
