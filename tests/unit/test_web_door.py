"""The pure parts of the guard: hosts, origins, redirects, limits, log lines."""

import logging

import pytest
from starlette.datastructures import Headers

from app.config import Settings
from app.web import origins
from app.web.limits import ATTEMPTS, CLIENTS, WINDOW_SECONDS, Attempts
from app.web.logs import HideSecrets, hide
from app.web.security import is_public


class Clock:
    """Time that a test moves."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_the_address_listened_on_and_the_public_name_are_allowed() -> None:
    settings = Settings(host="10.0.0.5", public_url="https://Race.Example:8443/x")

    assert origins.allowed_hosts(settings) == {
        "127.0.0.1", "localhost", "[::1]", "10.0.0.5", "race.example",
    }  # fmt: skip


def test_listening_everywhere_allows_no_name_more() -> None:
    settings = Settings(host="0.0.0.0", allowed_hosts=["localhost"])

    assert origins.allowed_hosts(settings) == {"localhost"}


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "localhost.", "[::1]:8321"])
def test_allowed_hosts_are_known_in_every_spelling(host: str) -> None:
    allowed = frozenset({"localhost", "[::1]"})

    assert origins.check_host(Headers({"host": host}), allowed) is None


def test_two_host_headers_are_refused() -> None:
    headers = Headers(raw=[(b"host", b"localhost"), (b"host", b"evil.example")])

    refusal = origins.check_host(headers, frozenset({"localhost"}))

    assert refusal is not None
    assert refusal.status == 400


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, False),
        ({"origin": "http://a:1"}, True),
        ({"origin": "HTTP://A:1"}, True),
        ({"origin": "https://a:1"}, False),
        ({"origin": "http://a"}, False),
        ({"origin": "https://public.example"}, True),
        ({"origin": "null"}, False),
    ],
)
def test_a_request_is_of_this_site_only_when_the_browser_says_so(
    headers: dict[str, str], expected: bool | None
) -> None:
    given = Headers({"host": "a:1", **headers})

    assert origins.is_same_origin(given, "http", "https://public.example") is expected


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/r/a", True),
        ("HEAD", "/r/a.json", True),
        ("DELETE", "/r/a", False),
        ("GET", "/r/", False),
        ("GET", "/r/a/b", False),
        ("GET", "/e/a", True),
        ("GET", "/static/css/tokens.css", True),
        ("GET", "/staticx", False),
        ("GET", "/api/v1/health", True),
        ("GET", "/api/v1/health/x", False),
        ("GET", "/api/v1/results/a", False),
        ("GET", "/r/a\n", False),
        ("GET", "/", False),
    ],
)
def test_only_what_is_named_is_public(method: str, path: str, expected: bool) -> None:
    assert is_public(method, path) is expected


def test_attempts_are_forgiven_after_a_minute() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    waits = [attempts.failed("a") for _ in range(ATTEMPTS + 1)]

    clock.seconds += WINDOW_SECONDS + 1

    assert waits[:-1] == [0] * ATTEMPTS
    assert waits[-1] > 0
    assert attempts.wait_seconds("a") == 0


def test_attempts_of_one_client_do_not_count_for_another() -> None:
    attempts = Attempts(Clock())
    for _ in range(ATTEMPTS + 1):
        attempts.failed("a")

    assert attempts.failed("b") == 0


def test_attempts_take_bounded_memory() -> None:
    attempts = Attempts(Clock())

    for number in range(CLIENTS * 2):
        attempts.failed(str(number))

    assert len(attempts._failures) == CLIENTS


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("/login?link=abc", "/login?link=…"),
        ("/login?next=/x&link=abc&a=b", "/login?next=/x&link=…&a=b"),
        ("/login?LINK=abc", "/login?LINK=…"),
        ("/x?blink=abc", "/x?blink=abc"),
    ],
)
def test_links_are_hidden_in_urls(text: str, hidden: str) -> None:
    assert hide(text) == hidden


def test_the_access_log_line_is_rewritten() -> None:
    record = logging.LogRecord(
        "uvicorn.access", logging.INFO, "", 1, '%s - "%s %s HTTP/%s" %d',
        ("127.0.0.1:1", "GET", "/login?link=abc", "1.1", 303), None,
    )  # fmt: skip

    assert HideSecrets().filter(record)
    assert record.getMessage() == '127.0.0.1:1 - "GET /login?link=… HTTP/1.1" 303'
