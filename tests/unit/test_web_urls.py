"""The guard of URLs that strangers name."""

import pytest

from app.domain.urls import check_url, refuse_address


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "http://localhost:8000/",
        "http://10.1.2.3:8000",
        "http://192.168.1.2",
        "https://llm.example.com/v1",
        "http://gpu-box:8000",
        "http://[::1]:8000",
        "http://[fd00::7]:8000",
    ],
)
def test_servers_are_where_servers_are(url: str) -> None:
    assert check_url("lanes.baseline.url", url) == []


@pytest.mark.parametrize(
    "url",
    [
        None,
        "",
        "ftp://127.0.0.1",
        "file:///etc/passwd",
        "gopher://127.0.0.1",
        "http://",
        "http://:8000",
        "http://127.0.0.1:0",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:x",
        "http://user:secret@127.0.0.1",
        "http://user@127.0.0.1",
        "http://127.0.0.1\\@evil.example",
        "http://127.0.0.1/\r\nHost: x",
        "http://a b",
        "http://[::1",
        "http://" + "a" * 500,
    ],
)
def test_what_is_no_plain_http_url_is_refused(url: str | None) -> None:
    problems = check_url("lanes.baseline.url", url)

    assert [problem.field for problem in problems] == ["lanes.baseline.url"]
    assert problems[0].remedy


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "[fe80::1]",
        "[fe80::1%25eth0]",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "255.255.255.255",
        "[ff02::1]",
        "[::]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "metadata.google.internal",
        "metadata.google.internal.",
        "2852039166",
        "0xa9fea9fe",
        "169.254.43518",
        "0251.0376.0251.0376",
        "127.1",
    ],
)
def test_metadata_and_odd_addresses_are_refused(host: str) -> None:
    assert len(check_url("url", f"http://{host}/latest")) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "[::1]", "localhost", "a.localhost"])
def test_private_addresses_are_refused_where_that_is_asked(host: str) -> None:
    assert len(check_url("webhook", f"http://{host}", allow_private=False)) == 1


def test_a_resolved_address_is_judged_alike() -> None:
    assert refuse_address("169.254.169.254") is not None
    assert refuse_address("fe80::1%eth0") is not None
    assert refuse_address("127.0.0.1") is None
    assert refuse_address("127.0.0.1", allow_private=False) is not None
    assert refuse_address("93.184.216.34", allow_private=False) is None
