"""MQTT over WebSocket [MQTT-6.0.0-1] to [MQTT-6.0.0-4]."""

from __future__ import annotations

import base64
import os
import socket
import time

import pytest

from . import packets
from .clauses import clauses
from .client import Client, Transport
from .conftest import Broker
from .packets import V5
from .versions import both

BINARY, TEXT, CLOSE, PING, PONG = 2, 1, 8, 9, 10


class WebSocket(Transport):
    """A client's side of RFC 6455, as far as these tests need it."""

    def __init__(self, broker: Broker, *, offer: str | None = "mqtt") -> None:
        if broker.running.websocket is None:
            pytest.skip("no WebSocket address known: give --broker-ws HOST:PORT/PATH")
        host, port, path = broker.running.websocket
        self.socket = socket.create_connection((host, port), timeout=broker.deadline)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host}:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            "Sec-WebSocket-Version: 13",
            *([f"Sec-WebSocket-Protocol: {offer}"] if offer else []),
        ]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.head = self._head(broker.deadline)
        self.frames: list[tuple[int, bytes]] = []

    def _head(self, deadline: float) -> str:
        self.buffer = b""
        end = time.monotonic() + deadline
        while b"\r\n\r\n" not in self.buffer:
            self.socket.settimeout(max(end - time.monotonic(), 0.01))
            piece = self.socket.recv(65536)
            if not piece:
                break
            self.buffer += piece
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        return head.decode("latin-1")

    @property
    def status(self) -> int:
        """The HTTP status of the answer, 0 if there was none."""
        return int(self.head.split()[1]) if self.head else 0

    @property
    def protocol(self) -> str | None:
        """The subprotocol that the server chose."""
        for line in self.head.split("\r\n"):
            name, _, value = line.partition(":")
            if name.lower() == "sec-websocket-protocol":
                return value.strip()
        return None

    def frame(self, opcode: int, data: bytes, *, final: bool = True) -> bytes:
        """One masked frame."""
        head = bytes([(0x80 if final else 0) | opcode])
        if len(data) < 126:
            head += bytes([0x80 | len(data)])
        else:
            head += b"\xfe" + len(data).to_bytes(2, "big")
        mask = os.urandom(4)
        return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))

    def send(self, data: bytes) -> None:
        """As one binary frame."""
        super().send(self.frame(BINARY, data))

    def receive(self, timeout: float) -> bytes | None:
        """The content of binary frames; control frames are kept in ``frames``."""
        out = self._cut()
        if out:
            return out
        piece = super().receive(timeout)
        if not piece:
            return piece
        self.buffer += piece
        return self._cut() or (b"" if self.frames and self.frames[-1][0] == CLOSE else None)

    def _cut(self) -> bytes:
        out = b""
        while len(self.buffer) >= 2:
            assert not self.buffer[1] & 0x80, "a server does not mask"
            length, at = self.buffer[1] & 0x7F, 2
            if length > 125:
                size = 2 if length == 126 else 8
                length, at = int.from_bytes(self.buffer[2 : 2 + size], "big"), 2 + size
            if len(self.buffer) < at + length:
                break
            opcode, data = self.buffer[0] & 15, self.buffer[at : at + length]
            self.buffer = self.buffer[at + length :]
            assert opcode != TEXT, "MQTT never comes in text frames"
            if opcode in (0, BINARY):
                out += data
            else:
                self.frames.append((opcode, data))
        return out


def over_websocket(broker: Broker, version: int) -> Client:
    """A client over WebSocket that has not connected yet."""
    client = Client(WebSocket(broker), version, broker.deadline, broker.name())
    broker.clients.append(client)
    return client


@clauses("MQTT3-6.0.0-4", "MQTT5-6.0.0-4", "MQTT3-6.0.0-3", "MQTT5-6.0.0-3")
@pytest.mark.parametrize("offer", ["mqtt", "other, mqtt"])
def test_the_subprotocol_chosen_is_mqtt(broker: Broker, offer: str) -> None:
    """Also when others are offered before it."""
    socket_ = WebSocket(broker, offer=offer)
    assert (socket_.status, socket_.protocol) == (101, "mqtt")


@clauses("MQTT3-6.0.0-1", "MQTT5-6.0.0-1")
@both
def test_a_message_makes_its_round_over_websocket(broker: Broker, version: int) -> None:
    """Binary frames both ways."""
    client = over_websocket(broker, version)
    assert client.connect().reason == 0
    topic = broker.topic()
    client.subscribe(topic, qos=1)
    broker.connect(version).publish(topic, "from tcp", qos=1)
    assert client.message().payload == b"from tcp"
    client.publish(topic, "x" * 30_000, qos=1)
    assert len(client.message().payload) == 30_000


@clauses("MQTT3-6.0.0-1", "MQTT5-6.0.0-1")
def test_a_text_frame_closes_the_connection(broker: Broker) -> None:
    """Any other type of data frame does."""
    client = over_websocket(broker, V5)
    assert client.connect().reason == 0
    transport = client.transport
    assert isinstance(transport, WebSocket)
    Transport.send(transport, transport.frame(TEXT, b"\xc0\0".decode("latin-1").encode()))
    assert all(packet.kind == packets.DISCONNECT for packet in client.closed())


@clauses("MQTT3-6.0.0-2", "MQTT5-6.0.0-2")
@both
def test_packets_need_not_keep_to_frames(broker: Broker, version: int) -> None:
    """A packet byte by byte, one frame each; then three packets and a half in one frame, then the other half."""
    client = over_websocket(broker, version)
    for byte in packets.connect(version, client.client_id):
        client.send(bytes([byte]))
    assert client.expect(packets.CONNACK).reason == 0
    ping = b"\xc0\0"
    client.send(ping * 3 + ping[:1])
    client.send(ping[1:])
    for _ in range(4):
        client.expect(packets.PINGRESP)


@clauses("MQTT3-6.0.0-2", "MQTT5-6.0.0-2")
def test_fragmented_frames_are_joined(broker: Broker) -> None:
    """A binary message in three fragments with a ping between them."""
    client = over_websocket(broker, V5)
    transport = client.transport
    assert isinstance(transport, WebSocket)
    whole = packets.connect(V5, client.client_id)
    Transport.send(
        transport,
        transport.frame(BINARY, whole[:5], final=False)
        + transport.frame(PING, b"there?")
        + transport.frame(0, whole[5:9], final=False)
        + transport.frame(0, whole[9:]),
    )
    assert client.expect(packets.CONNACK).reason == 0
    client.ping()
    assert (PONG, b"there?") in transport.frames


@both
def test_a_lost_websocket_publishes_the_will(broker: Broker, version: int) -> None:
    """The transport makes no difference to the session above it."""
    topic = broker.topic()
    watcher = broker.connect(version)
    watcher.subscribe(topic)
    client = over_websocket(broker, version)
    assert client.connect(will=packets.Will(topic)).reason == 0
    client.drop()
    assert watcher.message().payload == b"gone"
