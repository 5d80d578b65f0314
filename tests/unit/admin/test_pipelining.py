# Twisted's transports have few annotations.
# mypy: disable-error-code="no-untyped-call"
"""Many requests at once: one of a connection at a time, the next when its answer has left, and all in their turn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.protocol import connectionDone
from twisted.internet.testing import StringTransport

from iot_mqtt.admin import connections
from iot_mqtt.admin.connections import HELD, PIECE, AdminChannel, Doorkeeper
from iot_mqtt.admin.dashboard import Dashboard
from iot_mqtt.admin.scrapes import Scrapes
from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.admin.site import make_site
from iot_mqtt.admin.turns import LOOK, Waiting
from tests.unit.admin.adminkit import TOKEN, FakeMetrics, FakeView
from tests.unit.admin.test_turns import Loop

LIMITS = AdminSettings(max_connections=4, max_connections_per_address=2, request_timeout=10, idle_timeout=30)
#: Bytes that wait in a transport of Twisted before it asks its producer to pause.
BUFFER = 64 * 1024
LARGE = 100 * 1024
OK = b"HTTP/1.1 200 OK"


def asking(path: str = "/health", *headers: str) -> bytes:
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", "")).encode()


class Socket(StringTransport):
    """A transport that asks its producer to pause when nobody takes what is written, as Twisted's do."""

    producer: Any

    def __init__(self) -> None:
        super().__init__()
        self.taken = True
        self.waits = 0
        self.aborted = False

    def write(self, data: bytes) -> None:
        super().write(data)
        if not self.taken:
            self.waits += len(data)
            if self.waits > BUFFER and self.producer is not None:
                self.producer.pauseProducing()

    def take(self) -> None:
        """The peer reads all of it."""
        self.waits = 0
        self.producer.resumeProducing()

    def abortConnection(self) -> None:
        self.aborted = True

    @property
    def answers(self) -> int:
        return bytes(self.value()).count(b"HTTP/1.1 ")

    @property
    def is_read(self) -> bool:
        return bool(self.producerState == "producing")


class Counting(FakeMetrics):
    """Each rendering says which one it is, and takes ten milliseconds."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.renderings = 0

    def render(self) -> bytes:
        self.renderings += 1
        self.loop.work(0.01)
        return b"rendering %d\n" % self.renderings


class Port:
    """An admin port with a reactor whose time tests make."""

    def __init__(self, folder: Path) -> None:
        self.loop = loop = Loop()
        clock: Any = loop
        self.turns = Waiting(loop, clock, lambda: loop.messages, lambda: loop.worked)
        self.metrics = Counting(loop)
        self.doorkeeper = Doorkeeper(LIMITS, turns=self.turns)
        (folder / "index.html").write_bytes(b"x" * LARGE)
        self.site: Any = make_site(
            FakeView(), self.metrics, TOKEN, reactor=loop, doorkeeper=self.doorkeeper, dashboard=Dashboard(folder)
        )

    def connect(self, host: str = "10.0.0.1") -> tuple[AdminChannel, Socket]:
        socket = Socket()
        channel = self.site.buildProtocol(IPv4Address("TCP", host, 1))
        assert channel is not None
        channel.makeConnection(socket)
        return channel, socket

    def traffic(self) -> None:
        """Messages go through the node, and calls have had more than their share."""
        self.loop.traffic()
        assert self.turns.open
        self.turns.spent(1.0)
        assert not self.turns.open

    def serve(self) -> None:
        """Time enough for whoever waits; the messages go on."""
        for _ in range(300):
            self.loop.messages += 200
            self.loop.advance(LOOK)


@pytest.fixture(autouse=True)
def no_time_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests take of the real processor is no matter."""
    monkeypatch.setattr(connections, "thread_time", lambda: 0.0)


@pytest.fixture
def port(tmp_path: Path) -> Port:
    return Port(tmp_path)


def test_one_request_of_a_connection_is_answered_in_a_turn_of_the_reactor(port: Port) -> None:
    """However many come in one piece; between two of them others are served."""
    channel, socket = port.connect()
    channel.dataReceived(asking("/metrics") * 3)
    seen = [socket.answers]
    for _ in range(3):
        port.loop.turn()
        seen.append(socket.answers)
    assert seen == [1, 2, 3, 3]


@pytest.mark.parametrize("size", [1, 7, 50])
def test_requests_that_come_in_pieces_are_all_answered_in_their_order(port: Port, size: int) -> None:
    """With bodies or without, a chunked one, and HEAD."""
    chunked = b"POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    body = b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"
    head = asking().replace(b"GET", b"HEAD")
    data = asking() + chunked + body + head + asking("/ready", "Connection: close") + asking()
    channel, socket = port.connect()
    for begin in range(0, len(data), size):
        if not socket.disconnecting:
            channel.dataReceived(data[begin : begin + size])
        port.loop.turn()
    for _ in range(10):
        port.loop.turn()
    found = re.findall(rb"HTTP/1.1 (\d+)", socket.value())
    assert found == [b"200", b"404", b"405", b"200", b"200"]
    assert socket.disconnecting


def test_the_next_request_waits_until_the_answer_has_left(port: Port) -> None:
    """What nobody takes is one answer; then the socket is not read, and what is held of it is bounded."""
    channel, socket = port.connect()
    socket.taken = False
    channel.dataReceived(asking("/") * 800)
    for _ in range(5):
        port.loop.turn()
    assert (socket.answers, socket.is_read) == (1, False)
    assert socket.waits < BUFFER + LARGE
    socket.take()
    port.loop.turn()
    assert (socket.answers, socket.is_read) == (2, False)


def test_what_comes_while_a_request_is_answered_is_bounded(port: Port) -> None:
    """Also where the answer is not taken: a listener who does not listen, and sends."""
    channel, socket = port.connect()
    socket.taken = False
    channel.dataReceived(asking("/"))
    assert not socket.is_read
    other, its_socket = port.connect()
    port.traffic()
    other.dataReceived(asking("/metrics"))
    assert its_socket.is_read
    other.dataReceived(b"x" * (HELD + 1))
    assert not its_socket.is_read


def test_an_answer_that_is_not_taken_has_its_time(port: Port) -> None:
    """And is not waited for any longer."""
    channel, socket = port.connect()
    socket.taken = False
    channel.dataReceived(asking("/") * 2)
    port.loop.advance(29)
    assert not socket.disconnecting
    port.loop.advance(2)
    assert socket.disconnecting
    port.loop.advance(3)
    assert socket.aborted


@pytest.mark.parametrize("path", ["/metrics", "/", "/nothing", "/api/v1/status", "/api/v1/login"])
def test_whatever_needs_time_waits_for_its_turn(port: Port, path: str) -> None:
    """With a token or without, for as long as it takes."""
    port.traffic()
    channel, socket = port.connect()
    channel.dataReceived(asking(path))
    port.loop.advance(0.01)
    assert socket.answers == 0
    port.serve()
    assert (socket.answers, socket.disconnecting) == (1, False)


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_a_probe_waits_behind_nobody(port: Port, path: str) -> None:
    """A node that is busy with calls lives."""
    port.traffic()
    for _ in range(2):
        port.connect()[0].dataReceived(asking("/metrics"))
    channel, socket = port.connect("10.0.0.2")
    channel.dataReceived(asking(path))
    assert socket.answers == 1


def test_who_asks_again_and_again_waits_as_well(port: Port) -> None:
    """One request at a time, and probes only: the connection rests behind each."""
    port.traffic()
    channel, socket = port.connect()
    for _ in range(3):
        channel.dataReceived(asking())
    assert socket.answers == 1
    port.serve()
    assert socket.answers == 3


def test_waiting_for_a_turn_costs_no_time_of_the_request(port: Port) -> None:
    """Nobody is cut off for what others use up; what he takes himself counts as before."""
    port.traffic()
    channel, socket = port.connect()
    channel.dataReceived(b"POST /api/v1/publish HTTP/1.1\r\nHost: localhost\r\n")
    for _ in range(20):
        port.loop.messages += 1000
        port.loop.advance(1)
        port.turns.spent(1.0)
    assert not socket.disconnecting
    for _ in range(200):
        port.loop.advance(LOOK)
    assert socket.disconnecting


def test_chunks_of_one_byte_are_read_in_pieces(port: Port) -> None:
    """Their reading takes longer than that of anything else."""
    channel, socket = port.connect()
    channel.dataReceived(b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    port.traffic()
    channel.dataReceived(b"1\r\na\r\n" * 10_000)
    assert len(channel._held) == 60_000 - PIECE
    assert not socket.is_read
    port.serve()
    assert (channel._held, socket.is_read) == (b"", True)


def test_those_who_wait_for_metrics_get_them_from_one_rendering(port: Port) -> None:
    """It was begun after they asked, all of them."""
    port.traffic()
    found = [port.connect(f"10.0.0.{number}") for number in range(4)]
    for channel, _ in found:
        channel.dataReceived(asking("/metrics"))
    port.serve()
    assert [socket.value().endswith(b"rendering 1\n") for _, socket in found] == [True] * 4
    channel, socket = found[0]
    channel.dataReceived(asking("/metrics"))
    port.serve()
    assert socket.value().endswith(b"rendering 2\n")


def test_no_text_is_older_than_its_scrape() -> None:
    """Whoever does something and then looks sees it."""
    now = [5.0]
    texts = Scrapes(Counting(Loop()), lambda: now[0])
    assert texts.text(4.0) == texts.text(3.0) == b"rendering 1\n"
    assert texts.text(5.0) == b"rendering 2\n"


def test_who_is_gone_waits_no_longer(port: Port) -> None:
    """Neither his request nor his connection takes a place from others."""
    port.traffic()
    asked, rests = port.connect()[0], port.connect()[0]
    asked.dataReceived(asking("/metrics"))
    rests.dataReceived(asking())
    for channel in (asked, rests):
        channel.connectionLost(connectionDone)
    assert not [len(queue) for queue in port.turns._queues if queue]
    port.serve()
    assert port.metrics.renderings == 0


def test_who_waits_for_a_turn_goes_before_who_is_answered(port: Port) -> None:
    """And after who asks for nothing; a port that is flooded stays open to others."""
    port.traffic()
    waits, idle = port.connect(), port.connect()
    waits[0].dataReceived(asking("/metrics"))
    third = port.connect()
    assert [socket.aborted for _, socket in (waits, idle, third)] == [False, True, False]
    third[0].dataReceived(asking("/metrics"))
    port.connect()
    assert [socket.aborted for _, socket in (waits, third)] == [True, False]


def test_an_answer_that_is_not_taken_keeps_nobody_out(port: Port) -> None:
    """Its connection is closed for a newcomer."""
    slow = [port.connect() for _ in range(2)]
    for channel, socket in slow:
        socket.taken = False
        channel.dataReceived(asking("/"))
    newcomer, socket = port.connect()
    newcomer.dataReceived(asking())
    assert socket.value().startswith(OK)
    assert [one.aborted for _, one in slow] == [True, False]
