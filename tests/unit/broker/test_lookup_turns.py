"""Topics that match thousands of filters are looked up some at a time, and others are served in between."""

from __future__ import annotations

from itertools import product

import pytest

from iot_mqtt.codec import Ack, PacketType, Pingreq, Publish, encode
from tests.unit.broker.harness import V5, Client, Node

LEVELS = 10
TOPICS = 300
#: Of those topics, what a turn may look up: before its end and at its end.
MOST = 100


def subscribed(node: Node, last: str = "+", qos: int = 1) -> Client:
    """A client with every filter of ten levels that matches ``topic``."""
    reader = node.connect("reader")
    reader.subscribe(*("/".join(levels) + "/" + last for levels in product("a+", repeat=LEVELS)), qos=qos)
    return reader


def topic(number: int) -> bytes:
    """One of many that match all those filters."""
    return b"a/" * LEVELS + b"%d" % number


def publish(client: Client, qos: int = 0, numbers: range = range(TOPICS)) -> None:
    """One read of many topics; the turn does not end."""
    packets = [Publish(topic(n), b"%d" % n, qos, packet_id=n + 1 if qos else 0) for n in numbers]
    client.wire.feed(b"".join(encode(packet, V5) for packet in packets) + encode(Pingreq(), V5))


@pytest.mark.parametrize("last", ["+", "nobody"])
def test_who_publishes_to_such_topics_does_not_keep_others_waiting(last: str) -> None:
    """Whether or not anything matches at last. Others are served at once, and nothing more is read from this one."""
    node = Node()
    subscribed(node, last)
    heavy, other = node.connect("heavy"), node.connect("other")
    other.subscribe("t")
    other.publish("t", b"before")
    before = node.counters.messages_received
    publish(heavy)
    assert not heavy.wire.channel.reading
    assert node.counters.messages_received - before < MOST
    other.wire.feed(encode(Publish(b"t", b"x"), V5))
    assert node.counters.messages_received - before < MOST + 1
    going_on = True
    while going_on:
        served = node.counters.messages_received
        going_on = node.one_turn()
        assert node.counters.messages_received - served < MOST
    assert other.payloads() == [b"before", b"x"]
    assert node.counters.messages_received - before == TOPICS + 1
    assert heavy.wire.channel.reading
    assert len(heavy.acks(PacketType.PINGRESP)) == 1
    assert node.counters.publishers_paused["turn"] > 2


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_nothing_is_lost_and_all_keeps_its_order(qos: int) -> None:
    """Messages, acknowledgements, and what comes behind them."""
    node = Node()
    reader, heavy = subscribed(node), node.connect("heavy")
    publish(heavy, qos)
    publish(heavy, qos, range(TOPICS, TOPICS + 10))
    node.turn()
    assert reader.drain() == [b"%d" % n for n in range(TOPICS + 10)]
    if qos:
        kind = PacketType.PUBACK if qos == 1 else PacketType.PUBREC
        assert [ack.packet_id for ack in heavy.take(Ack) if ack.type is kind] == list(range(1, TOPICS + 11))


def test_all_connections_share_what_a_turn_may_look_up() -> None:
    """One after the other; who publishes a single message to such a topic has its turn as well."""
    node = Node()
    reader = subscribed(node)
    clients, one = [node.connect(f"c{number}") for number in range(5)], node.connect("one")
    before = node.counters.messages_received
    for number, client in enumerate(clients):
        publish(client, numbers=range(1000 * number, 1000 * number + 100))
    one.wire.feed(encode(Publish(topic(9_999), b"one"), V5))
    assert node.counters.messages_received - before < MOST
    for _ in range(len(clients) + 2):
        node.one_turn()
    assert b"one" in reader.payloads()
    node.turn()
    assert node.counters.messages_received - before == 501


def test_topics_that_are_known_need_no_turn_of_their_own() -> None:
    """They are served as before, even while others have used up what may be looked up."""
    node = Node()
    subscribed(node)
    heavy, again = node.connect("heavy"), node.connect("again")
    publish(again, numbers=range(10))
    node.turn()
    publish(heavy, numbers=range(100, 400))
    publish(again, numbers=range(10))
    assert not heavy.wire.channel.reading
    assert again.wire.channel.reading


def test_ordinary_topics_are_never_put_off() -> None:
    """As many as fit into one read."""
    node = Node()
    node.connect("reader").subscribe("plant/+/line/#")
    client = node.connect("c")
    client.wire.feed(b"".join(encode(Publish(b"plant/%d/line/x" % n, b""), V5) for n in range(2_000)))
    assert client.wire.channel.reading
    assert not node.counters.publishers_paused["turn"]


def test_who_leaves_meanwhile_is_forgotten() -> None:
    node = Node()
    subscribed(node)
    heavy = node.connect("heavy")
    publish(heavy)
    assert node.broker.publishing.budget.paused_count == 1
    heavy.lose()
    node.turn()
    assert node.broker.publishing.budget.paused_count == 0
    assert node.counters.messages_received < MOST
