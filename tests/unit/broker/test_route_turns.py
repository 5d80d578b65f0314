"""Sessions and other nodes that go with thousands of filters: a turn takes some of them out of the routes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import NO_PROPERTIES, Ack, Connack, Connect, Properties, Publish, encode
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.endings import SESSION_PURGED
from tests.unit.broker.harness import V5, Client, Node, subscribe

#: What a turn may take out of the routes, of filters of a level or two.
MOST = 700
COUNT = 2_000
FILTERS = [f"f/{number}/+" for number in range(COUNT)]


def left(node: Node) -> int:
    """Filters in the routing table."""
    return node.broker.routing.routes.subscription_count


def subscribed(node: Node, name: str = "c", *, kept: bool = False, filters: list[str] = FILTERS) -> Client:
    client = node.connect(name, clean=not kept, expiry=60 * kept)
    client.subscribe(*filters, qos=1)
    return client


def lose(node: Node, client: Client) -> None:
    client.wire.peer_closes()


def expire(node: Node, client: Client) -> None:
    client.lose()
    node.clock.advance(61)


def purge(node: Node, client: Client) -> None:
    purge_one(node, "c0")


def purge_one(node: Node, name: str) -> None:
    """The turn does not end."""
    node.broker.lifecycle.ending.end(node.session(name), ReasonCode.ADMINISTRATIVE_ACTION, SESSION_PURGED)


def take_over(node: Node, client: Client) -> None:
    come(node, "c0")


def come(node: Node, name: str, expiry: int = 0) -> Client:
    """CONNECT for a session that begins with nothing; the turn does not end."""
    client = node.open()
    properties = Properties(session_expiry_interval=expiry) if expiry else NO_PROPERTIES
    client.wire.feed(encode(Connect(V5, name, True, 0, None, None, None, properties), V5))
    return client


def publish(client: Client, *topics: str) -> None:
    """At QoS 1; the turn does not end."""
    packets = [Publish(topic.encode(), topic.encode(), 1, packet_id=client.next_id()) for topic in topics]
    client.wire.feed(b"".join(encode(packet, V5) for packet in packets))


def passes(node: Node, before: int) -> int:
    """How many turns there are until nothing is left to do; none of them takes more than a turn may."""
    turns, going_on = 0, True
    while going_on:
        going_on = node.one_turn()
        turns += 1
        assert before - left(node) < MOST
        before = left(node)
    return turns


@pytest.mark.parametrize("count", [1, 8])
def test_sessions_that_end_at_once_leave_a_turn_for_others(count: int) -> None:
    """However many there are. A client that has nothing to do with them is served in between."""
    node = Node()
    clients = [subscribed(node, f"c{number}") for number in range(count)]
    other = node.connect("other")
    other.subscribe("t", qos=1)
    for client in clients:
        lose(node, client)
    assert left(node) > COUNT * count - MOST
    publish(other, "t")
    node.one_turn()
    assert other.payloads() == [b"t"]
    assert left(node) > COUNT * count - 2 * MOST
    assert passes(node, left(node)) > 2 * count
    assert left(node) == 1
    assert node.broker.lifecycle.subscriptions.count == 1
    assert node.broker.routing.routes.subscription_count == 1


@pytest.mark.parametrize("end", [lose, expire, purge, take_over], ids=lambda end: end.__name__)
def test_however_a_session_ends_its_filters_go_by_and_by(end: Callable[[Node, Client], None]) -> None:
    node = Node()
    client = subscribed(node, "c0", kept=end is not lose)
    ending = node.session("c0")
    end(node, client)
    assert ending.ended
    node.turn()
    assert left(node) == 0
    assert node.broker.routing.routes._leaving == set()


@pytest.mark.parametrize("kept", [False, True])
def test_nothing_comes_to_a_session_that_has_ended(kept: bool) -> None:
    """Nobody gets what is published before its filters are gone; a publisher is told so, as if they were."""
    node = Node()
    client, writer = subscribed(node, kept=kept), node.connect("writer")
    writer.publish("f/7/x", b"before", qos=1)
    session = node.session("c")
    before = node.counters.messages_matched
    purge_one(node, session.client_id)
    writer.take_all()
    publish(writer, "f/7/x", f"f/{COUNT - 1}/x")
    node.one_turn()
    assert left(node) > COUNT - 2 * MOST
    node.turn()
    assert node.counters.messages_matched == before
    assert [ack.reason for ack in writer.take(Ack)] == [ReasonCode.NO_MATCHING_SUBSCRIBERS] * 2
    assert client.closed
    assert not session.queue
    assert not session.outbound
    assert left(node) == 0


def test_who_has_the_same_filters_keeps_them() -> None:
    """Others with the same filters get what they match, meanwhile and later."""
    node = Node()
    client, other, writer = subscribed(node), subscribed(node, "other"), node.connect("writer")
    lose(node, client)
    routes = node.broker.routing.routes
    assert [route.receiver.client_id for route in routes.match(b"f/7/x").plain] == ["other"]
    node.turn()
    writer.publish("f/7/x", b"x", qos=1)
    assert other.payloads() == [b"x"]
    assert left(node) == COUNT


@pytest.mark.parametrize("kept", [False, True])
def test_the_next_session_of_a_client_begins_with_nothing_and_keeps_what_it_gets(kept: bool) -> None:
    """It subscribes to the same filters while those of the old one are still being removed."""
    node = Node()
    old, writer = subscribed(node, kept=kept), node.connect("writer")
    shared = ["$share/g/s/+"]
    old.subscribe(*shared, qos=1)
    purge_one(node, "c")
    new = come(node, "c", 60 * kept)
    node.one_turn()
    (connack,) = new.take(Connack)
    assert not connack.session_present
    assert not node.session("c").subscriptions
    new.wire.feed(encode(subscribe(new.next_id(), FILTERS[0], FILTERS[-1], *shared, qos=1), V5))
    assert left(node) > COUNT - 2 * MOST
    node.turn()
    for topic in ("f/0/x", f"f/{COUNT - 1}/x", "f/1/x", "s/x"):
        writer.publish(topic, topic.encode(), qos=1)
    assert sorted(new.drain()) == sorted([b"f/0/x", b"f/%d/x" % (COUNT - 1), b"s/x"])
    assert left(node) == 3


def test_members_of_shared_groups_that_have_ended_are_not_picked() -> None:
    """The others get all of it, from that moment on."""
    node = Node()
    filters = [f"$share/g/{one}" for one in FILTERS]
    gone, there = subscribed(node, "gone", filters=filters), subscribed(node, "there", filters=filters[-1:])
    writer = node.connect("writer")
    purge_one(node, "gone")
    topic = f"f/{COUNT - 1}/x"
    publish(writer, *[topic] * 4)
    assert left(node) > 1
    node.turn()
    assert there.drain() == [topic.encode()] * 4
    assert not gone.payloads()
    assert left(node) == 1
    assert not node.broker.routing.routes.groups(FILTERS[0])


def test_small_sessions_end_at_once() -> None:
    node = Node()
    client = subscribed(node, filters=FILTERS[:64])
    lose(node, client)
    assert left(node) == 0


def test_filters_of_many_levels_count_for_more() -> None:
    """Each takes longer: fewer of them are removed in a turn."""
    node = Node(MqttSettings(max_topic_levels=128))
    deep = ["/".join([str(number), *["+"] * 120]) for number in range(400)]
    client = subscribed(node, filters=deep)
    lose(node, client)
    node.one_turn()
    node.one_turn()
    assert left(node) > 200
    node.turn()
    assert left(node) == 0
