"""Secrets never enter rows, logs, ticks or pages."""

import pytest

from workers.redact import HIDDEN, Redactor, environment_secrets


def test_a_known_secret_is_hidden_wherever_it_stands() -> None:
    redact = Redactor(["SUPERSECRETKEY"])

    assert redact("HTTP 500: {'auth': 'xSUPERSECRETKEYx'}") == f"HTTP 500: {{'auth': 'x{HIDDEN}x'}}"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("GET http://user:pa55w0rd@host/x", "pa55w0rd"),
        ("loading with hf_ABCDEFGHIJKLMNOP", "hf_ABCDEFGHIJKLMNOP"),
        ('{"api_key": "k-1234567890"}', "k-1234567890"),
        ("password=hunter2hunter2 next", "hunter2hunter2"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, secret: str) -> None:
    clean = Redactor([])(text)

    assert secret not in clean
    assert HIDDEN in clean


@pytest.mark.parametrize(
    "text",
    ["tokens: 128 per second", "max_tokens=8192", "Maximum token length 4096", "sk-1", "token: 12"],
)
def test_plain_log_lines_stay(text: str) -> None:
    assert Redactor([])(text) == text


def test_short_values_are_not_secrets() -> None:
    assert Redactor(["1", ""])("port 1") == "port 1"


def test_secrets_of_the_environment_are_known_by_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf-value-1")
    monkeypatch.setenv("SLIPSTREAM_KEY_TOP", "key-value-1")
    monkeypatch.setenv("MY_API_KEY", "api-value-1")

    assert {"hf-value-1", "api-value-1"} <= set(environment_secrets())
