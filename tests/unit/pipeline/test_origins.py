"""Which pages of the web may connect."""

from __future__ import annotations

import pytest

from iot_mqtt.pipeline.websocket.origins import Origin, is_allowed, parse_origin

PARSED = {
    "https://scada.example": Origin("https", "scada.example", 443),
    "HTTP://Scada.Example:8083": Origin("http", "scada.example", 8083),
    "https://[2001:db8::1]:9443": Origin("https", "2001:db8::1", 9443),
    "chrome-extension://abcdef": Origin("chrome-extension", "abcdef", 0),
    "scada.example": None,
    "https://": None,
    "null": None,
    "https://a b": None,
    "https://a.example/path": None,
    "https://user@a.example": None,
    "https://a.example:port": None,
    "https://a.example, https://b.example": None,
    "https://[::1": None,
}

#: Origin, Host, allowed_origins, whether only this machine reaches the port, and what comes of it.
CASES = [
    (None, "a.example", (), False, True),
    ("http://a.example:8083", "a.example:8083", (), False, True),
    ("https://a.example", "a.example", (), False, True),
    ("https://a.example", "a.example:443", (), False, True),
    ("https://a.example", "a.example:8083", (), False, False),
    ("https://evil.example", "a.example", (), False, False),
    ("http://a.example:8083", "a.example:8083", (), True, False),
    ("http://localhost:8083", "localhost:8083", (), True, True),
    ("http://127.0.0.1:8083", "127.0.0.1:8083", (), True, True),
    ("http://[::1]:8083", "[::1]:8083", (), True, True),
    ("http://127.0.0.1.evil.example:8083", "127.0.0.1.evil.example:8083", (), True, False),
    ("null", "a.example", (), False, False),
    ("null", "a.example", ("null",), False, True),
    ("https://b.example", "a.example", ("https://b.example", "https://c.example:8443"), True, True),
    ("https://c.example:8443", "a.example", ("https://b.example", "https://c.example:8443"), False, True),
    ("https://a.example", "a.example", ("https://b.example",), False, False),
    ("nonsense", "a.example", ("*",), False, True),
    ("nonsense", "nonsense", (), False, False),
    ("http://a.example:18083", "a.example:8083", (), False, True),
    ("http://a.example:18084", "a.example:8083", (), False, False),
    ("https://a.example:18083", "a.example:8083", (), False, False),
    ("http://b.example:18083", "a.example:8083", (), False, False),
    ("http://a.example:18083", "a.example:8083", (), True, False),
    ("http://localhost:18083", "localhost:8083", (), True, True),
    ("http://a.example:18083", "a.example:8083", ("https://b.example",), False, False),
]


@pytest.mark.parametrize("text", PARSED)
def test_origins_have_one_form(text: str) -> None:
    """Case and default ports make no difference; anything else is no origin."""
    assert parse_origin(text) == PARSED[text]


@pytest.mark.parametrize(("origin", "host", "allowed", "local", "expected"), CASES)
def test_who_is_allowed(origin: str | None, host: str, allowed: tuple[str, ...], local: bool, expected: bool) -> None:
    """Same origin, or the node's own pages, unless sites are listed; nobody is asked who is no page."""
    assert is_allowed(origin, host, allowed, local=local, dashboard=("http", 18083)) is expected


def test_a_node_without_pages_of_its_own_lets_in_those_of_its_port_only() -> None:
    """Its admin port is closed."""
    assert not is_allowed("http://a.example:18083", "a.example:8083", ())
