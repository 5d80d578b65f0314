"""Runs: consecutive packets of one connection that differ only in packet id and payload. Those that differ in their
topics, too, and go the same way are batches (``batch``).

The scan finds them, and everything downstream takes a whole run, so that Python pays per run and not per
message. They are filled by the scan (the native one writes the slots directly); treat them as frozen.

::

    PUBLISH   | head | remaining length | topic | id (QoS > 0) | properties (v5) | payload |
                 same        any          same       any            same              any
"""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt import native
from iot_mqtt.codec import properties as props
from iot_mqtt.codec.kinds import PacketType
from iot_mqtt.codec.packets.acks import Ack
from iot_mqtt.codec.packets.publish import Publish
from iot_mqtt.codec.properties import NO_PROPERTIES, Properties
from iot_mqtt.codec.wire import Reader, check_topic, varint
from iot_mqtt.errors import ReasonCode


class PublishRun:
    """PUBLISH packets with the same first byte, topic and properties."""

    __slots__ = (
        "_forwardable",
        "_payloads",
        "count",
        "five",
        "head",
        "ids",
        "longest",
        "prefix",
        "properties",
        "raw_properties",
        "topic",
        "wire",
    )

    #: First byte of every packet: ``0x30 | dup << 3 | qos << 1 | retain``.
    head: int
    #: Topic as sent; ``b""`` where a v5 alias stands for it.
    topic: bytes
    #: v5 property block without its length; ``b""`` if there is none, and in 3.x.
    raw_properties: bytes
    properties: Properties
    #: Whether the wire form is v5.
    five: bool
    #: The packets, one after the other, exactly as received.
    wire: bytes
    count: int
    #: Packet ids in order; empty at QoS 0.
    ids: list[int]
    #: Bytes of the largest packet.
    longest: int
    #: Bytes between the remaining length and the payload; the same in every packet of the run.
    prefix: int
    _payloads: list[bytes] | None
    _forwardable: bytes | None

    @property
    def qos(self) -> int:
        """QoS of every packet."""
        return self.head >> 1 & 3

    @property
    def retain(self) -> bool:
        """RETAIN flag of every packet."""
        return self.head & 1 == 1

    @property
    def dup(self) -> bool:
        """DUP flag of every packet."""
        return self.head & 8 == 8

    @property
    def forwardable(self) -> bytes:
        """The property block for receivers: as received, without alias, message expiry and identifiers."""
        known = self._forwardable
        if known is None:
            known = self._forwardable = props.forwardable(self.raw_properties)
        return known

    def payloads(self) -> list[bytes]:
        """The payloads in order; split once."""
        known = self._payloads
        if known is None:
            known = self._payloads = native.payloads(self.wire, self.count, self.prefix)
        return known

    def part(self, start: int, stop: int) -> PublishRun:
        """Packets ``start`` to ``stop`` (exclusive, both within the run) as a run of their own."""
        if start == 0 and stop == self.count:
            return self
        if not 0 <= start < stop <= self.count:
            raise ValueError(f"no part {start}..{stop} in a run of {self.count}")
        begin, end, longest = native.locate(self.wire, start, stop)
        part = PublishRun()
        part.head, part.topic, part.five, part.prefix = self.head, self.topic, self.five, self.prefix
        part.raw_properties, part.properties, part._forwardable = (
            self.raw_properties,
            self.properties,
            self._forwardable,
        )
        part.wire, part.count, part.longest = self.wire[begin:end], stop - start, longest
        part.ids = self.ids[start:stop]
        part._payloads = None if self._payloads is None else self._payloads[start:stop]
        return part

    def packets(self) -> list[Publish]:
        """Each packet as a value; for clients and tests, not for the hot path."""
        ids = self.ids or [0] * self.count
        return [
            Publish(self.topic, payload, self.qos, self.retain, self.dup, packet_id, self.properties)
            for packet_id, payload in zip(ids, self.payloads(), strict=True)
        ]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PublishRun):
            return NotImplemented
        return (self.wire, self.five, self.count) == (other.wire, other.five, other.count)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # Payloads stay out of logs and tracebacks.
        return f"<PublishRun {self.topic!r} qos={self.qos} retain={self.retain} {self.count} packets>"


class RunBatch:
    """Runs that no decoder has put together: one client's, of one QoS, without properties. They belong together: they
    are served in one turn, and ``served`` is called in it.
    """

    __slots__ = ("count", "head", "ids", "runs", "served", "size")

    def __init__(self, runs: list[PublishRun], served: Callable[[], None]) -> None:
        self.runs = runs
        self.served = served
        self.head = runs[0].head
        self.count = sum([run.count for run in runs])
        self.ids = [packet_id for run in runs for packet_id in run.ids]
        #: Bytes of all packets.
        self.size = sum([len(run.wire) for run in runs])

    @property
    def qos(self) -> int:
        """QoS of every packet."""
        return self.head >> 1 & 3

    def __repr__(self) -> str:
        return f"<RunBatch qos={self.qos} {len(self.runs)} runs, {self.count} packets>"


def run_of(topic: bytes, payloads: list[bytes], ids: list[int]) -> PublishRun:
    """A run that no client has written: v5, QoS 1 with as many ids as payloads, QoS 0 without any."""
    run = PublishRun()
    run.head = head = 0x32 if ids else 0x30
    run.topic = topic
    run.raw_properties = b""
    run.properties = NO_PROPERTIES
    run.five = True
    run.count = len(payloads)
    run.ids = ids
    run.prefix = len(topic) + (5 if ids else 3)
    run._payloads, run._forwardable = payloads, None
    if len(payloads) == 1:
        run.wire = native.publish(head, topic, ids[0] if ids else 0, b"\0", payloads[0])
        run.longest = len(run.wire)
    else:
        run.wire, run.longest = _packets(head, topic, payloads, ids)
    return run


def _packets(head: int, topic: bytes, payloads: list[bytes], ids: list[int]) -> tuple[bytes, int]:
    """Packets without properties, and the bytes of the largest one. What those of one size share is written once."""
    before = len(topic).to_bytes(2, "big") + topic
    behind = 3 if ids else 1
    starts: dict[int, bytes] = {}
    parts: list[bytes] = []
    longest = 0
    for position, payload in enumerate(payloads):
        size = len(payload)
        start = starts.get(size)
        if start is None:
            start = starts[size] = bytes((head,)) + varint(len(before) + behind + size) + before
            longest = max(longest, len(start) + behind + size)
        parts.append(start)
        parts.append(ids[position].to_bytes(2, "big") + b"\0" if ids else b"\0")
        parts.append(payload)
    return b"".join(parts), longest


def run_of_message(topic: bytes, payload: bytes, qos: int, *, retain: bool, raw_properties: bytes) -> PublishRun:
    """One message that no connection brought: v5, packet id 1 above QoS 0. Refused as a client's would be."""
    check_topic(topic)
    run = PublishRun()
    run.properties = props.read_publish(raw_properties, from_client=False) if raw_properties else NO_PROPERTIES
    run.raw_properties = raw_properties
    run.head = 0x30 | qos << 1 | retain
    run.topic = topic
    run.five = True
    run.count = 1
    run.ids = [1] if qos else []
    block = varint(len(raw_properties)) + raw_properties
    run.prefix = len(topic) + len(block) + (4 if qos else 2)
    run.wire = native.publish(run.head, topic, 1, block, payload)
    run.longest = len(run.wire)
    run._payloads, run._forwardable = [payload], None
    return run


class AckRun:
    """PUBACK, PUBREC, PUBREL or PUBCOMP packets of one type, reason and properties."""

    __slots__ = ("ids", "properties", "reason", "type")

    type: PacketType
    ids: list[int]
    reason: ReasonCode
    properties: Properties

    def __init__(self, type: PacketType, ids: list[int], reason: ReasonCode, properties: Properties) -> None:
        self.type = type
        self.ids = ids
        self.reason = reason
        self.properties = properties

    def packets(self) -> list[Ack]:
        """Each packet as a value; for clients and tests."""
        return [Ack(self.type, packet_id, self.reason, self.properties) for packet_id in self.ids]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AckRun):
            return NotImplemented
        return self.packets() == other.packets()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<AckRun {self.type.name} {self.reason.name} {self.ids}>"


def run_of_one(packet: Publish, wire: bytes, five: bool) -> PublishRun:
    """The run that a single PUBLISH is, from its value and its bytes; the scan's own way is faster."""
    size = 1
    while wire[size] > 127:
        size += 1
    reader = Reader(wire, size + 1)
    reader.binary()
    if packet.qos:
        reader.u16()
    run = PublishRun()
    run.head = wire[0]
    run.topic = packet.topic
    run.raw_properties = reader.take(reader.varint()) if five else b""
    run.properties = packet.properties
    run.five = five
    run.wire = wire
    run.count = 1
    run.ids = [packet.packet_id] if packet.qos else []
    run.longest = len(wire)
    run.prefix = reader.pos - size - 1
    run._payloads = run._forwardable = None
    return run
