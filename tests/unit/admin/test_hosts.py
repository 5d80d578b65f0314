"""Which host a request says that it is for: once, and as a Host (RFC 9112, 3.2)."""

from __future__ import annotations

import pytest

from tests.unit.admin.adminkit import FakeView, make_browser, parse


def status(head: str) -> int:
    """What a request with this head is answered."""
    connection = make_browser(FakeView()).open()
    connection.receive(head.replace("\n", "\r\n").encode("latin-1") + b"Connection: close\r\n\r\n")
    answer = parse(connection.written)
    assert answer is not None
    return answer.status


@pytest.mark.parametrize(
    "host",
    [
        "node",
        "node:18083",
        "10.0.0.1:80",
        "[::1]:18083",
        "a_b.example",
        "%41.example",
        "",
        "node:",
    ],
)
def test_a_host_is_a_name_and_perhaps_a_port(host: str) -> None:
    """Or an address."""
    assert status(f"GET /ready HTTP/1.1\nHost: {host}\n") in (200, 503)


@pytest.mark.parametrize(
    "host", ["ann@node", "node#x", "node/x", "node?x", "no de", "node:x", "[::1", "node\\x", "n\xf6de"]
)
@pytest.mark.parametrize("path", ["/health", "/", "/api/v1/status", "/nowhere"])
def test_what_is_no_host_is_refused(host: str, path: str) -> None:
    """Whatever is asked for."""
    assert status(f"GET {path} HTTP/1.1\nHost: {host}\n") == 400


def test_a_request_says_once_which_host_it_is_for() -> None:
    """HTTP/1.0 had no Host; one that is there is one, too."""
    assert status("GET /health HTTP/1.1\n") == 400
    assert status("GET /health HTTP/1.1\nHost: a\nHost: a\n") == 400
    assert status("GET /health HTTP/1.0\n") == 200
    assert status("GET /health HTTP/1.0\nHost: a@b\n") == 400
    assert status("GET http://a@b/health HTTP/1.1\nHost: node\n") == 400
