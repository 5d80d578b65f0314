"""Values and runs to bytes.

The broker sends runs with ``encode_run`` and ``encode_acks``, once per distinct form and never once per
receiver; ``encode`` is for everything that happens once per connection or once per request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from iot_mqtt import native
from iot_mqtt.codec import wire
from iot_mqtt.codec.kinds import PacketType
from iot_mqtt.codec.packets import (
    Ack,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    acks,
    auth,
    connack,
    connect,
    disconnect,
    ping,
    publish,
    suback,
    subscribe,
    unsuback,
    unsubscribe,
)
from iot_mqtt.codec.runs import PublishRun
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import Message, ProtocolVersion

_WRITERS: Final[dict[type, Callable[[Any, ProtocolVersion], bytes]]] = {
    Connect: connect.write,
    Connack: connack.write,
    Publish: publish.write,
    Ack: acks.write,
    Subscribe: subscribe.write,
    Suback: suback.write,
    Unsubscribe: unsubscribe.write,
    Unsuback: unsuback.write,
    Pingreq: ping.write,
    Pingresp: ping.write,
    Disconnect: disconnect.write,
    Auth: auth.write,
}


def encode(packet: Packet, version: ProtocolVersion) -> bytes:
    """The bytes of any packet in either direction; ValueError if that version cannot say it.

    A CONNACK that MQTT 3 has no return code for is no bytes at all.
    """
    return _WRITERS[type(packet)](packet, version)


def size(packet: Packet, version: ProtocolVersion) -> int:
    """Bytes on the wire, to be held against a receiver's maximum packet size."""
    return len(encode(packet, version))


def encode_acks(
    type: PacketType,
    ids: Sequence[int],
    version: ProtocolVersion,
    reason: ReasonCode = ReasonCode.SUCCESS,
) -> bytes:
    """One acknowledgement for each id. MQTT 3 cannot say the reason, and leaves it out."""
    first = acks.first_byte(type)
    if not reason or version is not ProtocolVersion.V5:
        return native.acks(first, ids)
    head, tail = bytes((first, 3)), bytes((reason,))
    return b"".join([head + number.to_bytes(2, "big") + tail for number in ids])


def encode_run(
    run: PublishRun,
    *,
    five: bool,
    qos: int,
    retain: bool,
    dup: bool = False,
    ids: Sequence[int] = (),
    properties: bytes = b"",
    topic: bytes | None = None,
) -> bytes:
    """The whole run in the form of one outgoing hop.

    ``properties`` is the raw v5 block for that hop (ignored unless ``five``), ``topic`` the topic where it is
    not the run's own (``b""`` for an alias), ``ids`` the packet ids, one for each packet above QoS 0.
    """
    head = 0x30 | dup << 3 | qos << 1 | retain
    if topic is None:
        topic = run.topic
    if qos:
        if len(ids) != run.count:
            raise ValueError(f"{len(ids)} packet ids for {run.count} packets")
    elif ids:
        raise ValueError("packet ids at QoS 0")
    if (
        five == run.five
        and (qos > 0) == (run.head & 6 > 0)
        and topic == run.topic
        and (not five or properties == run.raw_properties)
    ):
        if head == run.head and (not qos or ids == run.ids):
            return run.wire
        return native.patch(run.wire, run.count, 2 + len(topic), head, ids)
    block = wire.varint(len(properties)) + properties if five else b""
    return native.recode(run.wire, run.count, run.prefix, head, wire.binary(topic), block, ids)


def encode_publish(
    topic: bytes,
    payload: bytes,
    *,
    five: bool,
    qos: int,
    retain: bool,
    dup: bool,
    packet_id: int,
    properties: bytes,
) -> bytes:
    """One message; ``properties`` is the raw v5 block, ignored unless ``five``."""
    block = b""
    if five:
        block = wire.varint(len(properties)) + properties if properties else b"\0"
    return native.publish(0x30 | dup << 3 | qos << 1 | retain, topic, packet_id, block, payload)


def encode_messages(
    messages: Iterable[Message], blocks: Iterable[bytes], ids: Iterable[int], *, qos: int, retain: bool
) -> bytes:
    """Messages of any topics, one behind the other. ``blocks``: the v5 blocks with their lengths, or endlessly empty
    ones in 3.x; ``ids`` are left out at QoS 0, and say only how many messages there are.
    """
    head = 0x30 | qos << 1 | retain
    publish = native.publish
    return b"".join(
        [
            publish(head, message.topic, packet_id, block, message.payload)
            for packet_id, message, block in zip(ids, messages, blocks, strict=False)
        ]
    )


def encode_wires(
    wires: Sequence[bytes], count: int, *, from_five: bool, five: bool, block: bytes, ids: Sequence[int]
) -> bytes:
    """Packets of QoS 1 of any topics, ``count`` in all, in the form of one outgoing hop, neither retained nor repeated.
    ``block``: the hop's own properties; those that the packets have are passed on.
    """
    return native.rewrite(b"".join(wires), 0, count, from_five, 0x32, five, block, ids)
