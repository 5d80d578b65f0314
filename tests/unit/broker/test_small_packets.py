"""Thousands of small packets in one read are decoded and served some in each turn, and others come in between."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Ack, Connect, Packet, PacketType, Pingreq, Publish, Request, Subscribe, Unsubscribe, encode
from iot_mqtt.codec.decoder import AT_ONCE
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V311, Node

MANY = 10_000
PACKETS: dict[str, Packet] = {
    "PINGREQ": Pingreq(),
    "SUBSCRIBE": Subscribe(1, (Request("a/b", 0),)),
    "UNSUBSCRIBE": Unsubscribe(1, ("a/b",)),
}


@pytest.mark.parametrize("kind", PACKETS)
def test_some_of_them_are_served_in_a_turn(kind: str) -> None:
    """The rest is not even decoded meanwhile, and nothing more is read."""
    node = Node()
    heavy, other = node.connect("heavy"), node.connect("other")
    heavy.wire.feed(encode(PACKETS[kind], V5) * MANY)
    assert not heavy.wire.channel.reading
    turns, more = 0, True
    while more:
        before = node.counters.packets_received[kind]
        other.wire.feed(encode(Publish(b"t", b"x"), V5))
        more = node.one_turn()
        assert node.counters.packets_received[kind] - before <= AT_ONCE
        turns += 1
    assert turns >= MANY / AT_ONCE
    assert node.counters.packets_received[kind] == MANY
    assert node.counters.messages_received == turns
    assert heavy.wire.channel.reading


def test_all_of_them_are_served_in_order() -> None:
    """With what has to be looked at one by one among what has not, and a packet that comes in two reads."""
    node = Node()
    heavy, reader = node.connect("heavy"), node.connect("reader")
    reader.subscribe("#")
    each = [encode(Publish(b"t/%d" % (n % 7), b"%d" % n), V5) + encode(Pingreq(), V5) for n in range(2_000)]
    data = b"".join(each)
    heavy.wire.feed(data[:-5])
    node.turn()
    heavy.wire.feed(data[-5:])
    node.turn()
    assert reader.drain() == [b"%d" % n for n in range(2_000)]
    assert len(heavy.acks(PacketType.PINGRESP)) == 2_000


def test_bytes_that_come_meanwhile_are_behind_them() -> None:
    """A layer below may have read them before it was told to stop."""
    node = Node()
    heavy, reader = node.connect("heavy"), node.connect("reader")
    reader.subscribe("#")
    heavy.wire.feed(encode(Pingreq(), V5) * MANY + encode(Publish(b"t", b"1" * 20_000), V5)[:30])
    heavy.wire.feed(encode(Publish(b"t", b"1" * 20_000), V5)[30:] + encode(Pingreq(), V5) * MANY)
    heavy.wire.feed(encode(Publish(b"t", b"2"), V5))
    node.turn()
    assert reader.drain() == [b"1" * 20_000, b"2"]
    assert len(heavy.acks(PacketType.PINGRESP)) == 2 * MANY


def test_what_comes_with_connect_is_served_likewise() -> None:
    node = Node()
    client = node.open()
    client.wire.feed(encode(Connect(V5, "c"), V5) + encode(Pingreq(), V5) * MANY)
    assert node.counters.packets_received["PINGREQ"] <= AT_ONCE
    node.turn()
    assert node.counters.packets_received["PINGREQ"] == MANY


def test_what_is_wrong_ends_it_in_its_place() -> None:
    node = Node()
    client = node.connect("c")
    client.wire.feed(encode(Pingreq(), V5) * MANY + b"\xf7\xff\xff\xff\xff")
    assert not client.wire.closed
    node.turn()
    assert node.counters.packets_received["PINGREQ"] == MANY
    assert client.wire.closed


def test_nothing_is_served_of_who_leaves_meanwhile() -> None:
    node = Node()
    client = node.connect("c")
    client.wire.feed(encode(Pingreq(), V5) * MANY)
    client.lose()
    node.turn()
    assert node.counters.packets_received["PINGREQ"] <= AT_ONCE
    assert node.broker.publishing.budget.paused_count == 0


@pytest.mark.parametrize("kind", [PacketType.PUBREC, PacketType.PUBREL])
@pytest.mark.parametrize("version", [V311, V5])
def test_acknowledgements_of_ids_that_nobody_knows(kind: PacketType, version: ProtocolVersion) -> None:
    """Each is answered, some in each turn, by as few writes as there are turns."""
    node = Node()
    client = node.connect("c", version=version)
    count = 40_000
    client.wire.feed(b"".join(encode(Ack(kind, n + 1), version) for n in range(count)))
    assert node.counters.packets_received[kind.name] < count / 4
    assert not client.wire.channel.reading
    node.turn()
    assert client.wire.channel.reading
    answer = PacketType.PUBREL if kind is PacketType.PUBREC else PacketType.PUBCOMP
    answers = [ack for ack in client.take(Ack) if ack.type is answer]
    assert [ack.packet_id for ack in answers] == list(range(1, count + 1))
    reason = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND if version is V5 else ReasonCode.SUCCESS
    assert {ack.reason for ack in answers} == {reason}


def test_repetitions_of_one_publish() -> None:
    """Each is answered once more, some in each turn; the message is delivered once."""
    node = Node()
    client, reader = node.connect("c"), node.connect("reader")
    reader.subscribe("#")
    client.wire.feed(encode(Publish(b"a", b"", 2, packet_id=1), V5) * MANY)
    assert not client.wire.channel.reading
    assert node.counters.publishes_received < MANY / 4
    node.turn()
    assert len([ack for ack in client.take(Ack) if ack.type is PacketType.PUBREC]) == MANY
    assert reader.drain() == [b""]
