"""HTTP to the admin port, with and without a token: an answer that is none of our own faults, however it arrives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.protocol import connectionDone
from twisted.internet.testing import StringTransport

from iot_mqtt.admin.callers import RootToken
from iot_mqtt.admin.cross_site import Hosts
from iot_mqtt.admin.site import Gate
from tests.fuzz.target import Target, head, ways
from tests.unit.admin.adminkit import TOKEN, FakeView, make_browser

_PEER = IPv4Address("TCP", "127.0.0.1", 1)
_VIEW = FakeView()
_GATE = Gate(RootToken(TOKEN), hosts=Hosts(("node", "*.example"), "127.0.0.1"))
_SITE = make_browser(_VIEW, gate=_GATE).site
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


class _Transport(StringTransport):
    """Takes, as real ones do, that a producer is taken away which it does not have."""

    def unregisterProducer(self) -> None:
        self.producer = None


#: Without annotations in Twisted.
_make_transport: Any = _Transport


def run_admin(data: bytes) -> None:
    """Nothing is raised, nothing is answered with 500."""
    choice, stream = head(data, 1)
    # As new, without the site that is in front of it being made anew.
    _VIEW.__dict__.update(FakeView().__dict__)
    _VIEW.connect("c1")
    _VIEW.keep_session("c1")
    _VIEW.subscribe("c1", "a/+")
    _VIEW.retain("a/b")
    pieces = [*ways(stream, choice[0])][-1]
    transport: Any = _make_transport(peerAddress=_PEER)
    protocol: Any = _SITE.buildProtocol(_PEER)
    protocol.makeConnection(transport)
    for piece in pieces:
        if not transport.disconnecting:
            protocol.dataReceived(piece)
    written: bytes = transport.value()
    for status in _STATUS.findall(written):
        assert status != b"500", written
    protocol.connectionLost(connectionDone)


def _request(line: str, body: str = "", *headers: str) -> bytes:
    lines = [line, "Host: node", f"Authorization: Bearer {TOKEN}", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def _seeds() -> Iterator[bytes]:
    for path in (
        "/health",
        "/metrics",
        "/api/v1/clients?limit=5&after=x",
        "/api/v1/sessions/c1",
        "/api/v1/retained?filter=a/%23",
    ):
        yield b"\1" + _request(f"GET {path} HTTP/1.1")
    for path in (
        "/api/v1/log",
        "/api/v1/log/generations",
        "/api/v1/cluster",
        "/api/v1/openapi.json",
        "/api/v1/subscriptions?client=c1",
    ):
        yield b"\1" + _request(f"GET {path} HTTP/1.1")
    yield b"\1" + _request(
        "POST /api/v1/publish HTTP/1.1", '{"topic": "a/b", "payload": "x", "qos": 1, "retain": true}'
    )
    yield b"\1" + _request("DELETE /api/v1/clients/c1 HTTP/1.1")
    yield b"\1" + _request("POST /api/v1/cluster/drain HTTP/1.1", '{"rate": 5, "moved": true}')
    yield (
        b"\1"
        + _request("POST /api/v1/publish HTTP/1.1", "", "Transfer-Encoding: chunked").replace(
            b"Content-Length: 0\r\n", b""
        )
        + b"3\r\n{}x\r\n0\r\n\r\n"
    )
    yield b"\2GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n"


_WORDS = (
    b"\r\n",
    b"%2f",
    b"%00",
    b"%ff",
    b"?limit=",
    b"&after=",
    b"HTTP/1.0",
    b"chunked",
    b"0\r\n\r\n",
    b"null",
    b'"',
    b"..",
    b"{}",
    b"1e9",
    b"Host: a.example:1",
    b"Origin: http://node",
    b"[::1]",
)
TARGETS = (Target("admin", run_admin, _seeds, _WORDS, 700, 1200),)
__all__ = ["TARGETS"]
