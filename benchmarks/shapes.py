"""What a message costs in each shape of traffic: those that go as batches, and those that leave that path.

    python -m benchmarks shapes                      every shape, microseconds of CPU a message
    python -m benchmarks shapes --only durable

A node and its clients are in one process, over real sockets, and the reactor is turned by hand; what the clients do is
counted, too. One publisher sends as fast as it is read, 100 bytes a message, topics drawn by turns.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import pack

from benchmarks.lone import Node
from iot_mqtt.codec import (
    NO_PROPERTIES,
    AckRun,
    Connect,
    Decoder,
    PacketType,
    Properties,
    PublishRun,
    Request,
    Role,
    Subscribe,
    encode,
    encode_acks,
    encode_publish,
)
from iot_mqtt.values import ProtocolVersion

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5
#: Messages that are sent before anything is measured, and those that are.
WARM, COUNTED = 4_000, 40_000
PIECE = 64 * 1024
#: Messages that are sent at once, at least.
LOT = 400
NEXT = {PacketType.PUBREC: PacketType.PUBREL, PacketType.PUBREL: PacketType.PUBCOMP}
PAYLOAD = b"x" * 100


@dataclass(frozen=True, slots=True)
class Shape:
    """One sort of traffic."""

    name: str
    topics: Sequence[str]
    #: Of each receiver.
    filters: Sequence[str]
    qos: int = 0
    version: ProtocolVersion = V311
    retain: bool = False
    #: Of each message, by its number; in version 5.
    properties: Callable[[int], bytes] = lambda _: b""
    #: Messages have an alias for their topic, all but the first of each without the name.
    aliased: bool = False
    durable: bool = False
    #: Topic Alias Maximum of the receivers.
    aliases: int = 0
    settings: Sequence[str] = ()
    count: int = COUNTED


def _topics(form: str, count: int) -> list[str]:
    return [form.format(number) for number in range(count)]


MANY = _topics("p/{0}", 50)
SHAPES = [
    Shape("one topic", ["p/1"], ["p/#"]),
    Shape("50 topics, one receiver", MANY, ["p/#"]),
    Shape("50 topics, one receiver, QoS 1", MANY, ["p/#"], qos=1),
    Shape("50 topics, one receiver, QoS 2", MANY, ["p/#"], qos=2),
    Shape("2,000 topics, one receiver", _topics("p/{0}", 2000), ["p/#"]),
    Shape("50 topics, 50 receivers of all of them", MANY, ["p/#"] * 50),
    Shape("20 topics of 20 receivers", _topics("p/{0}", 20), _topics("p/{0}", 20)),
    Shape("20 topics of 20 receivers, QoS 1", _topics("p/{0}", 20), _topics("p/{0}", 20), qos=1),
    Shape("50 topics, a content type", MANY, ["p/#"], version=V5, properties=lambda _: b"\x03\x00\x01a"),
    Shape("50 topics, correlation data", MANY, ["p/#"], version=V5, properties=lambda n: b"\x09\x00\x04%04d" % n),
    Shape("50 topics, receiver with topic aliases", MANY, ["p/#"], version=V5, aliases=10),
    Shape("50 topics, sent with topic aliases", MANY, ["p/#"], version=V5, aliased=True),
    Shape("50 topics, a shared group of two", MANY, ["$share/g/p/#"] * 2),
    Shape("50 topics, retained", MANY, ["p/#"], retain=True, count=8_000),
    Shape("50 topics, recorded for replays", MANY, ["p/#"], settings=["log.record=['p/#']"], count=8_000),
    Shape("50 topics, durable receiver, QoS 1", MANY, ["p/#"], qos=1, durable=True, count=8_000),
]


class Client:
    """One socket. What comes is thrown away at QoS 0, else decoded and answered, in whole reads."""

    def __init__(self, node: Node, name: str, shape: Shape, properties: Properties = NO_PROPERTIES) -> None:
        self._node = node
        self._version = shape.version
        self._decoder = Decoder(role=Role.CLIENT, version=shape.version)
        self._qos = shape.qos
        #: Exchanges of its own publishes that are over.
        self.over = 0
        self.sock = socket.create_connection(("127.0.0.1", node.port))
        self.sock.setblocking(False)  # noqa: FBT003
        clean = not (shape.durable and name != "publisher")
        self.send(encode(Connect(shape.version, name, clean, 0, None, None, None, properties), shape.version))
        node.turn_until(self._connected)

    def _connected(self) -> bool:
        data = self._read()
        self._decoder.feed(data)
        return bool(data)

    def _read(self) -> bytes:
        with contextlib.suppress(BlockingIOError):
            return self.sock.recv(1 << 20)
        return b""

    def send(self, data: bytes) -> None:
        """All of it, while the node reads."""
        view = memoryview(data)
        while view:
            with contextlib.suppress(BlockingIOError):
                view = view[self.sock.send(view[:PIECE]) :]
            self._node.reactor.iterate(0)

    def poll(self) -> None:
        """Take what has come, and answer it."""
        data = self._read()
        if not data or not self._qos:
            return
        answers = []
        for item in self._decoder.feed(data):
            if isinstance(item, PublishRun) and item.ids:
                kind = PacketType.PUBACK if item.qos == 1 else PacketType.PUBREC
                answers.append(encode_acks(kind, item.ids, self._version))
            elif isinstance(item, AckRun):
                if item.type in (PacketType.PUBACK, PacketType.PUBCOMP):
                    self.over += len(item.ids)
                else:
                    answers.append(encode_acks(NEXT[item.type], item.ids, self._version))
        if answers:
            self.send(b"".join(answers))


class Chunks:
    """A publisher's messages, written before: two lots by turns, each sent again when it is over."""

    def __init__(self, shape: Shape) -> None:
        self.size = max(LOT, len(shape.topics))
        self._lots = [self._lot(shape, first) for first in (0, self.size)]
        self._sent = 0

    def _lot(self, shape: Shape, first: int) -> bytes:
        topics = len(shape.topics)
        return b"".join(
            encode_publish(
                b"" if shape.aliased and number >= topics else shape.topics[number % topics].encode(),
                PAYLOAD,
                five=shape.version is V5,
                qos=shape.qos,
                retain=shape.retain,
                dup=False,
                packet_id=first + number + 1,
                properties=b"\x23" + pack(">H", number % topics + 1)
                if shape.aliased
                else shape.properties(first + number),
            )
            for number in range(self.size)
        )

    def next(self, client: Client) -> bytes:
        """What may be sent now."""
        if client._qos and self._sent - client.over // self.size >= len(self._lots):
            return b""
        self._sent += 1
        return self._lots[self._sent % 2]


def measure(shape: Shape) -> float:
    """Seconds of CPU a message that was published."""
    node = Node(*shape.settings)
    try:
        receivers = []
        expiry = 3600 if shape.durable and shape.version is V5 else None
        properties = Properties(topic_alias_maximum=shape.aliases or None, session_expiry_interval=expiry)
        for number, filter in enumerate(shape.filters):
            receiver = Client(node, f"r{number}", shape, properties if shape.version is V5 else NO_PROPERTIES)
            receiver.send(encode(Subscribe(1, (Request(filter, shape.qos),)), shape.version))
            receivers.append(receiver)
        publisher, chunks = Client(node, "publisher", shape), Chunks(shape)
        counters = node.service.broker.counters
        copies = len(receivers) if len(set(shape.filters)) == 1 and not shape.filters[0].startswith("$") else 1
        due = counters.messages_delivered

        def through(count: int) -> int:
            nonlocal due
            lots = left = -(-count // chunks.size)
            due += lots * chunks.size * copies

            def come() -> bool:
                nonlocal left
                lot = chunks.next(publisher) if left else b""
                if lot:
                    left -= 1
                    publisher.send(lot)
                for client in (publisher, *receivers):
                    client.poll()
                return counters.messages_delivered >= due

            node.turn_until(come)
            return lots * chunks.size

        through(WARM)
        before = time.process_time()
        count = through(shape.count)
        return (time.process_time() - before) / count
    finally:
        node.close()


def main(arguments: Sequence[str], measure: Callable[[Shape], float] = measure) -> int:
    """Print the table; each shape has a process of its own where there are several."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks shapes", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the name")
    options = parser.parse_args(list(arguments))
    for shape in SHAPES:
        if options.only in shape.name:
            print(f"{shape.name:<46} {measure(shape) * 1e6:>10.2f} us", flush=True)
    return 0
