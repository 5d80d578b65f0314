"""The bounds of a load, what it counts, and how it says how long things took."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Thread

import pytest
from click.testing import CliRunner

from iot_mqtt.app.bench.load import LEAST, Found, Histogram, Load, Plan
from iot_mqtt.app.cli import main
from iot_mqtt.app.client.client import Client
from iot_mqtt.app.client.protocol import Protocol
from iot_mqtt.app.client.streams import SocketStream
from iot_mqtt.codec import Ack, Connack, Connect, Decoder, PacketType, Publish, PublishRun, Suback, Subscribe, encode
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import ProtocolVersion


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--idle", "500"), "connections 508 (at most 500)"),
        (("--rate", "10001"), "rate 10001"),
        (("--seconds", "61"), "seconds 61"),
        (("--size", "65537"), "size 65537"),
        (("-q", "0", "--closed-loop"), "QoS 0 without a rate"),
    ],
)
def test_what_is_beyond_the_bounds_has_to_be_meant(arguments: tuple[str, ...], says: str) -> None:
    """Exit code 2, and no connection; with --beyond it is tried."""
    result = CliRunner().invoke(main, ["bench", "--unix", "/nowhere", *arguments])
    assert (result.exit_code, says in " ".join(result.stderr.split())) == (2, True)
    assert CliRunner().invoke(main, ["bench", "--unix", "/nowhere", *arguments, "--beyond"]).exit_code == 3


@pytest.mark.parametrize("size", ["23", "100-50", "x", "5-", "-5"])
def test_a_payload_has_room_for_its_number(size: str) -> None:
    """And a range goes up."""
    assert CliRunner().invoke(main, ["bench", "--unix", "/nowhere", "--size", size]).exit_code == 2


def test_a_histogram_is_right_within_two_percent() -> None:
    """Of any number of values in little memory."""
    values = [random.lognormvariate(-6, 2) for _ in range(5000)]
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    values.sort()
    for share in (0.5, 0.9, 0.99, 1.0):
        wanted = values[max(0, int(share * 5000) - 1)]
        assert histogram.at(share) == pytest.approx(wanted, rel=0.03)
    assert len(histogram._steps) < 2000
    assert Histogram().milliseconds() == {"p50": None, "p90": None, "p99": None, "p99.9": None, "max": None}


class Echo:
    """A broker for one publisher and one subscriber, which does to each message what it is told."""

    def __init__(self, stack: ExitStack, lose: int = 0, refuse: int = 0, twice: int = 0) -> None:
        self._fates = {"lose": lose, "refuse": refuse, "twice": twice}
        self.publisher, publisher = self._client(stack)
        self.subscriber, self._out = self._client(stack)
        self._threads = [
            Thread(target=self._serve, args=(publisher,), daemon=True),
            Thread(target=self._serve, args=(self._out,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _client(self, stack: ExitStack) -> tuple[Client, socket.socket]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        stack.callback(theirs.close)
        client = Client(SocketStream(ours), Protocol(Connect(ProtocolVersion.V5, "c")), 0)
        stack.callback(client.drop)
        return client, theirs

    def _serve(self, link: socket.socket) -> None:
        decoder = Decoder()
        while data := link.recv(65_536):
            for item in decoder.feed(data):
                if isinstance(item, Connect):
                    link.sendall(encode(Connack(), ProtocolVersion.V5))
                elif isinstance(item, Subscribe):
                    link.sendall(encode(Suback(item.packet_id, (1,)), ProtocolVersion.V5))
                elif isinstance(item, PublishRun):
                    for packet in item.packets():
                        self._one(link, packet)

    def _one(self, link: socket.socket, packet: Publish) -> None:
        fate = next((name for name, left in self._fates.items() if left), None)
        if fate is not None:
            self._fates[fate] -= 1
        reason = ReasonCode.QUOTA_EXCEEDED if fate == "refuse" else ReasonCode.SUCCESS
        copies = {"lose": 0, "refuse": 0, "twice": 2}.get(str(fate), 1)
        passed_on = Publish(packet.topic, packet.payload)
        self._out.sendall(encode(passed_on, ProtocolVersion.V5) * copies)
        link.sendall(encode(Ack(PacketType.PUBACK, packet.packet_id, reason), ProtocolVersion.V5))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def _run(echo: Echo, *, rate: float | None = 200.0, patience: float = 5.0) -> Found:
    for client in (echo.publisher, echo.subscriber):
        client.connect(20)
    plan = Plan("b", 3, LEAST, 100, 1, rate, 0.3, fanout=False, run=b"12345678", patience=patience)
    load = Load(plan, [echo.publisher], [echo.subscriber], [])
    load.subscribe()
    return load.run()


def test_everything_that_arrives_is_counted(stack: ExitStack) -> None:
    """Sent, acknowledged, received; with a rate never more than that."""
    found = _run(Echo(stack))
    assert 0 < found.sent <= 61
    assert (found.acknowledged, found.received, found.lost, found.repeated) == (found.sent, found.sent, 0, 0)
    assert (found.latency.count, found.acks.count) == (found.sent, found.sent)


def test_what_is_lost_refused_or_told_twice_is_seen(stack: ExitStack) -> None:
    """A refused message is not a lost one."""
    found = _run(Echo(stack, lose=2, refuse=3, twice=1), patience=0.3)
    assert (found.lost, found.refused, found.repeated) == (2, 3, 1)
    assert found.acknowledged == found.sent - 3


def test_without_a_rate_it_goes_as_fast_as_it_is_acknowledged(stack: ExitStack) -> None:
    """And no faster: the window is never exceeded."""
    began = time.monotonic()
    found = _run(Echo(stack), rate=None)
    assert found.received == found.sent > 61
    assert time.monotonic() - began < 60
