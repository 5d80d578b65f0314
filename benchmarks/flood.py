"""Publishers and readers that treat packets of one size as rows of a table: fast enough in Python to load a broker.

All messages of a run have topics and payloads of the same length, so that a packet's place in what was received is a
multiple of its size, and packet ids, sequence numbers and acknowledgements are columns, taken and put by slices::

    30+qos│length│topic length (2)│topic│packet id (2)│sequence (4)│padding
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

PAYLOAD = 100
#: A publisher's unacknowledged messages, and how many are sent at a time.
INFLIGHT = 1000
STRIDE = 250
READ = 1 << 18
CONNACK = 4
SUBACK = 5


def text(value: str) -> bytes:
    """A length-prefixed string."""
    raw = value.encode()
    return struct.pack(">H", len(raw)) + raw


def packet(first: int, body: bytes) -> bytes:
    """A short packet."""
    assert len(body) < 128
    return bytes((first, len(body))) + body


def connect(client_id: str) -> bytes:
    """CONNECT of a 3.1.1 client with a session that is kept."""
    return packet(0x10, text("MQTT") + b"\x04\x00\x00\x00" + text(client_id))


def subscribe(filter: str, qos: int = 1) -> bytes:
    """SUBSCRIBE with packet id 1."""
    return packet(0x82, b"\x00\x01" + text(filter) + bytes((qos,)))


DISCONNECT = b"\xe0\x00"


def dial(port: int) -> socket.socket:
    """A connection without delays."""
    sock = socket.create_connection(("127.0.0.1", port), 60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def take(sock: socket.socket, count: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise SystemExit("the broker closed a connection")
        data += more
    return data


def frame_size(topic: str) -> int:
    """Bytes of a message of this topic on the wire."""
    return 2 + 2 + len(topic) + 2 + PAYLOAD


class Publisher:
    """Publishes to its topics in turn, at QoS 1; messages are numbered over all of them."""

    def __init__(self, port: int, name: str, topics: Sequence[str]) -> None:
        self.sock = dial(port)
        self.sock.sendall(connect(name))
        take(self.sock, CONNACK)
        self.sock.settimeout(0)
        self.sent = self.acked = 0
        self._out = b""
        self._odd = 0
        self._frames = [bytearray(packet(0x32, text(topic) + bytes(2 + PAYLOAD))) for topic in topics]
        self._at = 4 + len(topics[0])

    def pump(self, most: int) -> None:
        """Send as much as may be under way, up to ``most`` in all."""
        if not self._out and self.sent < most and self.sent - self.acked <= INFLIGHT - STRIDE:
            count = min(STRIDE, most - self.sent)
            self._out = b"".join(self._next() for _ in range(count))
        if self._out:
            try:
                self._out = self._out[self.sock.send(self._out) :]
            except BlockingIOError:
                return

    def _next(self) -> bytes:
        turn, number = divmod(self.sent, len(self._frames))
        frame = self._frames[number]
        struct.pack_into(">HI", frame, self._at, self.sent % 65_535 + 1, turn + 1)
        self.sent += 1
        return bytes(frame)

    def read(self) -> None:
        """Count acknowledgements."""
        data = self.sock.recv(READ)
        if not data:
            raise SystemExit("the broker closed a publisher")
        whole, self._odd = divmod(self._odd + len(data), 4)
        self.acked += whole


def publish(publishers: Sequence[Publisher], each: int, seconds: float) -> float:
    """Let them publish so many messages each, or for so long; the seconds until the last acknowledgement."""
    with selectors.DefaultSelector() as selector:
        for one in publishers:
            selector.register(one.sock, selectors.EVENT_READ, one)
        began = time.monotonic()
        while True:
            if time.monotonic() - began > seconds:
                each = 0
            for one in publishers:
                one.pump(each)
            if all(one.acked == one.sent and one.sent >= each for one in publishers):
                break
            if time.monotonic() - began > seconds + 60:
                raise SystemExit("the broker does not acknowledge any more")
            for key, _ in selector.select(0.001):
                key.data.read()
    return time.monotonic() - began


@dataclass(slots=True)
class Reader:
    """A session that has come back, and the messages that come. ``order``: per topic, sequences go up by one."""

    sock: socket.socket
    size: int
    received: int = 0
    disorder: int = 0
    _rest: bytes = b""
    _last: dict[bytes, int] = field(default_factory=dict)

    @classmethod
    def enter(cls, port: int, name: str, topic: str) -> Reader:
        """Connect; the broker must have the session. ``topic`` is as long as all of its topics."""
        sock = dial(port)
        sock.sendall(connect(name))
        if take(sock, CONNACK) != b"\x20\x02\x01\x00":
            raise SystemExit(f"the session {name} is gone")
        sock.settimeout(0)
        return cls(sock, frame_size(topic))

    def read(self) -> None:
        """Take what is there, check it, acknowledge it."""
        data = self._rest + self.sock.recv(READ)
        size = self.size
        count = len(data) // size
        self._rest = data[count * size :]
        if not count:
            return
        data, at = data[: count * size], size - PAYLOAD
        if data[0::size].count(0x32) != count:
            raise SystemExit("something else than a new QoS 1 message came")
        acks = bytearray(b"\x40\x02\x00\x00" * count)
        acks[2::4], acks[3::4] = data[at - 2 :: size], data[at - 1 :: size]
        self._check(data, count, at)
        self.received += count
        self.sock.settimeout(None)
        self.sock.sendall(acks)
        self.sock.settimeout(0)

    def _check(self, data: bytes, count: int, at: int) -> None:
        last, size = self._last, self.size
        for start in range(0, count * size, size):
            topic = data[start + 4 : start + at - 2]
            (sequence,) = struct.unpack_from(">I", data, start + at)
            if sequence != last.get(topic, 0) + 1:
                self.disorder += 1
            last[topic] = sequence


def drain(readers: Sequence[Reader], total: int, seconds: float = 120) -> float:
    """Read until all have that many together; the seconds it took, up to a limit."""
    with selectors.DefaultSelector() as selector:
        for one in readers:
            selector.register(one.sock, selectors.EVENT_READ, one)
        began = time.monotonic()
        while sum(one.received for one in readers) < total and time.monotonic() - began < seconds:
            for key, _ in selector.select(0.1):
                key.data.read()
    return time.monotonic() - began


def make_session(port: int, name: str, filter: str) -> None:
    """A session that has subscribed and gone."""
    with dial(port) as sock:
        sock.sendall(connect(name) + subscribe(filter))
        take(sock, CONNACK + SUBACK)
        sock.sendall(DISCONNECT)
        sock.recv(1)


def make_sessions(port: int, names: Sequence[str], filter: str, at_once: int = 100) -> None:
    """Many of them."""
    for start in range(0, len(names), at_once):
        socks = [dial(port) for _ in names[start : start + at_once]]
        for sock, name in zip(socks, names[start : start + at_once], strict=True):
            sock.sendall(connect(name) + subscribe(filter) + DISCONNECT)
        for sock in socks:
            while sock.recv(64):
                pass
            sock.close()
