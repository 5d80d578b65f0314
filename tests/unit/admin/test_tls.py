"""TLS around a connection to the admin port, in memory: it ends as a plain one would, and leaves nothing behind."""

from __future__ import annotations

import gc
import ssl
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trustme
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection

from iot_mqtt.admin.connections import Doorkeeper
from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.admin.site import make_site
from iot_mqtt.admin.tls import TlsSite
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock, TlsContext, TlsSettings
from tests.unit.admin import adminkit as kit
from tests.unit.admin.loginkit import LoginNode
from tests.unit.auth.authkit import outcome, start

LIMITS = AdminSettings(max_connections=2, request_timeout=10, idle_timeout=30)
AUTHORITY = trustme.CA()


class Port:
    """The admin port without a socket."""

    def __init__(self, folder: Path, site: Any = None) -> None:
        path = folder / "server.pem"
        AUTHORITY.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(path))
        self.clock = Clock()
        self.doorkeeper = Doorkeeper(LIMITS)
        self.context = TlsContext(TlsSettings(str(path), str(path)))
        view, metrics = kit.FakeView(), kit.FakeMetrics()
        own = make_site(view, metrics, kit.TOKEN, reactor=self.clock, doorkeeper=self.doorkeeper)
        self._site = TlsSite(site or own, self.context)

    def connect(self) -> Visit:
        address: Any = IPv4Address("TCP", "10.0.0.1", 5000)
        connection = self._site.buildProtocol(address)
        assert connection is not None
        return Visit(connection)


class Visit:
    """One client."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        transport: Any = StringTransportWithDisconnection()
        transport.protocol = connection
        transport.abortConnection = transport.loseConnection
        transport.setTcpNoDelay = bool
        self.transport = transport
        connection.makeConnection(transport)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context()
        AUTHORITY.configure_trust(context)
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")

    @property
    def closed(self) -> bool:
        return not self.transport.connected

    def carry(self) -> None:
        """Bytes there and back."""
        if self.outgoing.pending:
            self.connection.dataReceived(self.outgoing.read())
        self.incoming.write(bytes(self.transport.value()))
        self.transport.clear()

    def shake_hands(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.carry()
            else:
                self.carry()
                return

    def ask(self, data: bytes) -> bytes:
        self.tls.write(data)
        self.carry()
        answer = b""
        try:
            while piece := self.tls.read(1 << 16):
                answer += piece
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return answer


REQUEST = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def port(tmp_path: Path) -> Port:
    return Port(tmp_path)


def test_requests_are_answered_one_after_the_other(port: Port) -> None:
    """On one connection, and the last one ends it."""
    visit = port.connect()
    visit.shake_hands()
    for _ in range(3):
        assert b"200 OK" in visit.ask(REQUEST)
    assert not visit.closed
    assert b"200 OK" in visit.ask(REQUEST.replace(b"Host", b"Connection: close\r\nHost"))
    assert visit.closed
    assert port.doorkeeper.open == 0


@pytest.mark.parametrize("begin", [b"", b"\x16\x03\x01\x02"])
def test_a_handshake_has_the_time_of_a_request(port: Port, begin: bytes) -> None:
    """Whoever says nothing, or half of it, is closed."""
    visit = port.connect()
    if begin:
        visit.connection.dataReceived(begin)
    port.clock.advance(9.9)
    assert not visit.closed
    port.clock.advance(0.2)
    assert visit.closed
    assert port.doorkeeper.open == 0


@pytest.mark.parametrize("served", [False, True])
def test_a_connection_that_is_gone_is_freed_without_the_collector(port: Port, *, served: bool) -> None:
    """Half a handshake holds much, and needs no token."""
    gc.disable()
    try:
        visit = port.connect()
        there = weakref.ref(visit.connection)
        if served:
            visit.shake_hands()
            assert b"200 OK" in visit.ask(REQUEST)
        else:
            visit.connection.dataReceived(b"\x16\x03\x01\x40\x00" + bytes(10_000))
        visit.transport.loseConnection()
        # A real one knows its protocol and producer no more.
        visit.transport.protocol = visit.transport.producer = None
        del visit
        assert there() is None
    finally:
        gc.enable()


def test_what_is_no_tls_is_counted_and_closed(port: Port) -> None:
    """And makes no noise."""
    visit = port.connect()
    visit.connection.dataReceived(REQUEST)
    assert visit.closed
    assert port.context.failures == Counter(not_tls=1)
    assert port.doorkeeper.open == 0


def test_a_full_port_closes_who_waited_longest(port: Port) -> None:
    """As without TLS; who came last is served."""
    first, second, third = port.connect(), port.connect(), port.connect()
    assert [one.closed for one in (first, second, third)] == [True, False, False]
    third.shake_hands()
    assert b"200 OK" in third.ask(REQUEST)


@pytest.mark.parametrize(("scheme", "status"), [("http", b"403"), ("https", b"401")])
def test_a_page_that_came_without_tls_does_not_log_in(tmp_path: Path, scheme: str, status: bytes) -> None:
    """The port speaks TLS, so none of its pages did."""
    grid = MemoryGrid()
    outcome(start(grid.open()))
    node = LoginNode(grid, ManualClock(), tmp_path, "n1", secure=True)
    visit = Port(tmp_path, node.browser.site).connect()
    visit.shake_hands()
    body = b'{"name": "ann", "password": "wrong"}'
    head = f"Host: localhost\r\nOrigin: {scheme}://localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    assert visit.ask(b"POST /api/v1/login HTTP/1.1\r\n" + head + body).split()[1] == status
