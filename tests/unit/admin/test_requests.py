"""What a request may look like, as RFC 9112 has it, and how one is refused that looks otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.admin.callers import RootToken
from iot_mqtt.admin.connections import MAX_HEAD, MAX_HEADERS
from iot_mqtt.admin.cross_site import Hosts, check_origin
from iot_mqtt.admin.dashboard import Dashboard
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.site import Gate
from tests.unit.admin.adminkit import TOKEN, Browser, Connection, FakeView, make_browser


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    """Of a port that goes by ``localhost``, where no dashboard is built."""
    gate = Gate(RootToken(TOKEN), hosts=Hosts((), "127.0.0.1"))
    return make_browser(FakeView(), gate=gate, dashboard=Dashboard(tmp_path))


def send(browser: Browser, first: str, *lines: str) -> Connection:
    connection = browser.open()
    connection.receive("\r\n".join((first, *lines, "", "")).encode())
    return connection


def status(connection: Connection) -> str:
    return connection.written.partition(b"\r\n")[0].removeprefix(b"HTTP/1.1 ").decode()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("http://localhost/health", "200 OK"),
        ("HTTPS://localhost:18083/health?x", "200 OK"),
        ("http://localhost/api/v1/status", "401 Unauthorized"),
        ("http://localhost/nothing", "404 Not Found"),
        ("http://localhost", "503 Service Unavailable"),
        ("http://localhost?x=/y", "503 Service Unavailable"),
        ("http://evil.example/health", "421 Misdirected Request"),
        ("http://localhost@evil.example/health", "400 Bad Request"),
        ("http:///health", "421 Misdirected Request"),
    ],
)
@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_a_target_may_name_its_host(browser: Browser, target: str, host: str, expected: str) -> None:
    """It is what counts, whatever Host says (RFC 9112, 3.2.2)."""
    assert status(send(browser, f"GET {target} HTTP/1.1", f"Host: {host}")) == expected


@pytest.mark.parametrize("target", ["/health", "http://localhost/health"])
@pytest.mark.parametrize("second", ["evil.example", "localhost"])
def test_two_hosts_are_one_too_many(browser: Browser, target: str, second: str) -> None:
    """RFC 9112, 3.2: whoever is before this port may have looked at the other one."""
    connection = send(browser, f"GET {target} HTTP/1.1", "Host: localhost", f"hOST: {second}", "X: y")
    assert status(connection) == "400 Bad Request"
    assert connection.written.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("second", ["Bearer other", f"Bearer {TOKEN}", ""])
def test_a_request_is_from_one_caller(browser: Browser, second: str) -> None:
    """RFC 9110, 5.3: Authorization is no list. Whoever is before this port may have looked at the other one."""
    shown = f"Authorization: Bearer {TOKEN}"
    head = "GET /api/v1/status HTTP/1.1", "Host: localhost"
    assert status(send(browser, *head, shown)) == "200 OK"
    for lines in ((shown, f"aUTHORIZATION: {second}"), (f"Authorization: {second}", shown)):
        connection = send(browser, *head, *lines)
        assert (status(connection), connection.written.count(b"HTTP/1.1 ")) == ("400 Bad Request", 1)


@pytest.mark.parametrize("coding", ["identity", "Identity ", "gzip", "chunked, identity", "identity, chunked", "", "x"])
@pytest.mark.parametrize("length", [[], ["Content-Length: 0"], ["Content-Length: 40"]])
def test_a_body_is_chunked_or_has_its_length(browser: Browser, coding: str, length: list[str]) -> None:
    """RFC 9112, 7 has no ``identity`` any more: what follows is nobody's next request."""
    connection = browser.open()
    head = ["POST /api/v1/publish HTTP/1.1", "Host: localhost", *length, f"Transfer-Encoding: {coding}", "", ""]
    smuggled = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    connection.receive("\r\n".join(head).encode() + f"{len(smuggled):x}\r\n{smuggled}\r\n0\r\n\r\n".encode())
    assert (status(connection), connection.written.count(b"HTTP/1.1")) == ("400 Bad Request", 1)
    assert b"\r\nConnection: close\r\n" in connection.written


@pytest.mark.parametrize(
    "lines",
    [
        ["X: y"] * MAX_HEADERS,
        [f"X: {'y' * MAX_HEAD}"],
        [f"X: {'y' * (2 * MAX_HEAD)}"],
        [f"X{number}: {'y' * 1000}" for number in range(20)],
    ],
)
def test_headers_that_are_too_many_or_too_long_are_431(browser: Browser, lines: list[str]) -> None:
    """And the connection ends, with no other answer."""
    connection = send(browser, "GET /health HTTP/1.1", "Host: localhost", *lines)
    connection.receive(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status(connection) == "431 Request Header Fields Too Large"
    assert connection.written.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in connection.written.lower()


def test_a_line_that_is_no_header_is_400(browser: Browser) -> None:
    """As before."""
    assert status(send(browser, "GET /health HTTP/1.1", "Host: localhost", "XYZ", "X: y")) == "400 Bad Request"


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer"])
def test_the_case_of_a_scheme_means_nothing(browser: Browser, scheme: str) -> None:
    """RFC 9110, 11.1; the token's does, and what it says of one that nobody knows is the same."""
    browser.token = None
    found = [
        browser.get("/api/v1/status", {"Authorization": f"{scheme} {token}", "Host": "localhost"})
        for token in (TOKEN, TOKEN.upper())
    ]
    assert [one.status for one in found] == [200, 401]
    assert found[1].json["detail"].startswith("the token is not known here")


@pytest.mark.parametrize(
    ("origin", "secure", "accepted"),
    [
        ("https://node:18083", True, True),
        ("http://node:18083", True, False),
        ("HTTPS://node:18083", True, True),
        ("null", True, False),
        # A proxy before the port may speak TLS.
        ("https://node:18083", False, True),
        ("http://node:18083", False, True),
        (None, True, True),
    ],
)
def test_a_page_that_came_without_tls_is_another_site_to_a_port_with_it(
    origin: str | None, secure: bool, accepted: bool
) -> None:
    """Whoever is on the way may have written such a page."""
    if accepted:
        check_origin("POST", "node:18083", origin, None, secure=secure)
    else:
        with pytest.raises(ApiError, match="Origin"):
            check_origin("POST", "node:18083", origin, None, secure=secure)
