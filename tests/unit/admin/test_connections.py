"""Connections to the admin port: who is let in, who has to go, and how long a request may take."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection

from iot_mqtt.admin.connections import AdminChannel, Doorkeeper
from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.admin.site import make_site
from tests.unit.admin import adminkit as kit

LIMITS = AdminSettings(max_connections=4, max_connections_per_address=2, request_timeout=10, idle_timeout=30)


class Port:
    """The admin port without a socket."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.doorkeeper = Doorkeeper(LIMITS)
        self.site = make_site(
            kit.FakeView(), kit.FakeMetrics(), kit.TOKEN, reactor=self.clock, doorkeeper=self.doorkeeper
        )

    def connect(self, address: str = "10.0.0.1") -> Visit | None:
        channel = self.site.buildProtocol(IPv4Address("TCP", address, 5000))
        return None if channel is None else Visit(channel)


class Visit:
    """One connection."""

    def __init__(self, channel: AdminChannel) -> None:
        self.channel = channel
        transport: Any = StringTransportWithDisconnection()
        transport.protocol = channel
        transport.abortConnection = transport.loseConnection
        self.transport: Any = transport
        made: Any = channel
        made.makeConnection(self.transport)

    @property
    def closed(self) -> bool:
        return not self.transport.connected

    def send(self, data: bytes) -> bytes:
        self.transport.clear()
        self.channel.dataReceived(data)
        return bytes(self.transport.value())


REQUEST = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def port() -> Port:
    return Port()


def _visit(port: Port, address: str = "10.0.0.1") -> Visit:
    visit = port.connect(address)
    assert visit is not None
    return visit


def test_an_address_that_has_too_many_loses_its_oldest(port: Port) -> None:
    """The newcomer is served; other addresses notice nothing."""
    other = _visit(port, "10.0.0.2")
    first, second, third = (_visit(port) for _ in range(3))
    assert [one.closed for one in (other, first, second, third)] == [False, True, False, False]
    assert b"200 OK" in third.send(REQUEST)
    assert (port.doorkeeper.open, port.doorkeeper.refused) == (3, 1)


def test_a_full_port_takes_from_the_address_that_has_most(port: Port) -> None:
    """Two addresses with one each keep theirs."""
    single = _visit(port, "10.0.0.2"), _visit(port, "10.0.0.3")
    flood = _visit(port), _visit(port)
    _visit(port, "10.0.0.4")
    assert [one.closed for one in (*single, *flood)] == [False, False, True, False]


def test_who_is_being_answered_is_not_closed_for_others(port: Port) -> None:
    """Then the newcomer has to go."""
    for _ in range(2):
        visit = _visit(port)
        visit.channel.answering = True
    assert port.connect() is None
    assert port.connect("10.0.0.2") is not None


@pytest.mark.parametrize("begin", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nX: "])
def test_a_request_that_drips_is_closed_at_its_time(port: Port, begin: bytes) -> None:
    """A byte each second buys no time."""
    visit = _visit(port)
    visit.send(begin)
    for _ in range(9):
        port.clock.advance(1)
        if begin:
            visit.send(b"a")
    assert not visit.closed
    port.clock.advance(1.5)
    assert visit.closed


def test_a_body_counts_for_the_time_of_its_request(port: Port) -> None:
    """Headers, then a body that does not end."""
    visit = _visit(port)
    visit.send(b"POST /api/v1/publish HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
    port.clock.advance(6)
    visit.send(b"{")
    port.clock.advance(6)
    assert visit.closed


def test_an_idle_connection_lives_longer_than_a_request_may_take(port: Port) -> None:
    """And its next request has the same time as the first."""
    visit = _visit(port)
    assert b"200 OK" in visit.send(REQUEST)
    port.clock.advance(25)
    assert not visit.closed
    visit.send(b"GET ")
    port.clock.advance(9)
    assert not visit.closed
    assert b"200 OK" in visit.send(REQUEST[4:])
    port.clock.advance(29)
    assert not visit.closed
    port.clock.advance(2)
    assert visit.closed


def test_what_a_stranger_sends_is_not_kept(port: Port) -> None:
    """The body of a request without the token is thrown away; the answer is 401 as ever."""
    visit = _visit(port)
    head = b"POST /api/v1/publish HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    visit.send(head + b"\r\n{}")
    assert visit.channel.requests[0].content.getvalue() == b""
    assert b"401 " in visit.send(b"123")
    visit.send(head + b"Authorization: Bearer " + kit.TOKEN.encode() + b"\r\n\r\n{}")
    assert visit.channel.requests[0].content.getvalue() == b"{}"


def test_an_open_port_that_nobody_asks_wakes_nobody(port: Port) -> None:
    """Nothing is to be done each second."""
    site: Any = port.site
    site.doStart()
    assert not port.clock.getDelayedCalls()
    assert b"200 OK" in _visit(port).send(REQUEST)
    site.doStop()
