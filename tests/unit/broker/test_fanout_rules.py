"""Who gets a message, how often, at which QoS and with which identifiers."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Ack, ConnectWill, Properties, Request
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import Message, ProtocolVersion
from tests.unit.broker.harness import V5, V311, Client, Node

VERSIONS = pytest.mark.parametrize("version", [V311, V5], ids=["v3.1.1", "v5"])
KEPT = pytest.mark.parametrize("durable", [False, True], ids=["clean", "durable"])


def reader_of(node: Node, durable: bool, version: ProtocolVersion = V5) -> Client:
    """A connected reader, kept or not."""
    return node.connect("reader", version, clean=not durable, expiry=60 if durable and version is V5 else None)


@VERSIONS
@KEPT
@pytest.mark.parametrize("published", [0, 1, 2])
def test_overlapping_subscriptions_give_one_copy_at_the_highest_qos(
    version: ProtocolVersion, durable: bool, published: int
) -> None:
    """[MQTT-3.3.5-1] Within the QoS of the message."""
    node = Node()
    reader = reader_of(node, durable, version)
    reader.subscribe(Request("a/b", 0), Request("a/+", 2), Request("#", 1))
    node.connect("writer").publish("a/b", b"x", qos=published)
    (message,) = reader.messages()
    assert (message.payload, message.qos) == (b"x", published)


@KEPT
@pytest.mark.parametrize("qos", [0, 1])
def test_one_copy_carries_the_identifiers_of_all_that_match(durable: bool, qos: int) -> None:
    """[MQTT-3.3.4-3] [MQTT-3.3.4-4] In the order of subscribing; filters without one add none."""
    node = Node()
    reader = reader_of(node, durable)
    for filter, identifier in (("a/b", 5), ("a/+", 300_000), ("#", None), ("+/b", 1), ("x", 9)):
        reader.subscribe(filter, qos=qos, identifier=identifier)
    node.connect("writer").publish("a/b", b"x", qos=1)
    (message,) = reader.messages()
    assert message.properties.subscription_identifiers == (5, 300_000, 1)
    reader.subscribe("a/+", qos=qos)
    node.connect("again").publish("a/b", b"y", qos=1)
    assert reader.messages()[0].properties.subscription_identifiers == (5, 1)


def test_identifiers_survive_in_the_queue_and_over_a_restart() -> None:
    """Those of the moment when the message came."""
    node = Node()
    reader = reader_of(node, durable=True)
    reader.subscribe("a", qos=1, identifier=3)
    reader.lose()
    node.connect("writer").publish("a", b"x", qos=1)
    node.restart()
    reader = node.connect("reader", clean=False, expiry=60)
    assert reader.messages()[0].properties.subscription_identifiers == (3,)
    node.connect("writer").publish("a", b"y", qos=1)
    assert reader.messages()[0].properties.subscription_identifiers == (3,)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_local_keeps_a_clients_own_messages_from_it(qos: int) -> None:
    """[MQTT-3.8.3-3] By client id, so also for the will and over a reconnect; the messages of others come."""
    node = Node()
    client = node.connect("c", clean=False, expiry=60)
    client.subscribe("a", qos=qos, no_local=True)
    client.publish("a", b"mine", qos=qos)
    node.connect("other").publish("a", b"theirs", qos=qos)
    assert client.drain() == [b"theirs"]
    client.lose()
    client = node.connect("c", clean=False, expiry=60)
    client.publish("a", b"mine", qos=qos)
    assert client.payloads() == []


def test_no_local_counts_for_its_own_subscription_only() -> None:
    """An overlapping one without it takes the message, with its own options."""
    node = Node()
    client = node.connect("c")
    client.subscribe("a", qos=2, no_local=True, identifier=1)
    client.subscribe("#", qos=1, identifier=2)
    client.publish("a", b"mine", qos=2)
    (message,) = client.messages()
    assert (message.qos, message.properties.subscription_identifiers) == (1, (2,))


def test_a_message_that_only_its_publisher_would_get_has_no_receiver() -> None:
    """The acknowledgement says so, and the counters too."""
    node = Node()
    client = node.connect("c")
    client.subscribe("a", no_local=True)
    (ack,) = client.publish("a", b"mine", qos=1)
    assert isinstance(ack, Ack)
    assert ack.reason is ReasonCode.NO_MATCHING_SUBSCRIBERS
    assert (node.counters.messages_matched, node.counters.messages_unmatched) == (0, 1)


@KEPT
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("as_published", [False, True], ids=["cleared", "as-published"])
def test_retain_as_published_keeps_the_flag(as_published: bool, qos: int, durable: bool) -> None:
    """[MQTT-3.3.1-12] [MQTT-3.3.1-13] Of the publisher, set or not."""
    node = Node()
    reader = reader_of(node, durable)
    reader.subscribe("a", qos=qos, retain_as_published=as_published)
    writer = node.connect("writer")
    writer.publish("a", b"1", qos=1, retain=True)
    writer.publish("a", b"2", qos=1)
    assert [message.retain for message in reader.messages()] == [as_published, False]


def test_retain_as_published_of_one_of_several_is_enough() -> None:
    """Overlapping subscriptions are one copy, and the flag is not lost on it."""
    node = Node()
    reader = node.connect("reader")
    reader.subscribe(Request("a", 1), Request("#", 0, retain_as_published=True))
    node.connect("writer").publish("a", b"1", retain=True)
    assert [message.retain for message in reader.messages()] == [True]


@pytest.mark.parametrize(
    ("filter", "comes"),
    [("#", False), ("+/x", False), ("+/#", False), ("$data/x", True), ("$data/#", True), ("$data/+", True)],
)
@pytest.mark.parametrize("kept", [False, True], ids=["live", "retained"])
def test_a_wildcard_in_front_does_not_match_dollar_topics(filter: str, comes: bool, kept: bool) -> None:
    """[MQTT-4.7.2-1] Neither live nor retained."""
    node = Node()
    reader, message = node.connect("reader"), Message(b"$data/x", b"1", retain=kept)
    if kept:
        node.broker.publishing.path.send(message)
        reader.subscribe(filter)
    else:
        reader.subscribe(filter)
        node.broker.publishing.path.send(message)
        node.turn()
    assert reader.payloads() == ([b"1"] if comes else [])


def test_what_the_node_says_itself_comes_to_its_readers_and_counts_for_nobody() -> None:
    """$SYS is published quietly: matched when delivered, and never a message of a client."""
    node = Node()
    reader = node.connect("reader")
    reader.subscribe("$SYS/#")
    node.broker.publishing.path.quietly(Message(b"$SYS/x", b"1", retain=True))
    node.broker.publishing.path.quietly(Message(b"$SYS/y", b"2", retain=True))
    node.turn()
    assert reader.payloads() == [b"1", b"2"]
    assert node.counters.messages_received == 0


@pytest.mark.parametrize(
    ("published", "subscribed", "maximum", "granted"),
    [(2, 2, 2, 2), (2, 1, 2, 1), (1, 2, 2, 2), (1, 2, 1, 1), (0, 2, 0, 0)],
    ids=str,
)
def test_the_granted_qos_is_what_messages_come_with(
    published: int, subscribed: int, maximum: int, granted: int
) -> None:
    """[MQTT-3.8.4-7] Never above what is offered, what was asked for, and what was published."""
    node = Node(MqttSettings(max_qos=maximum))
    reader = node.connect("reader")
    assert reader.subscribe("a", qos=subscribed).reasons == (granted,)
    node.connect("writer").publish("a", b"x", qos=published)
    assert [message.qos for message in reader.messages()] == [min(published, granted)]


def test_the_same_filter_again_replaces_its_options_without_a_gap() -> None:
    """[MQTT-3.8.4-3] One subscription, the new options."""
    node = Node()
    reader = node.connect("reader")
    reader.subscribe("a", qos=2, identifier=1)
    reader.subscribe("a", qos=0, identifier=2)
    node.connect("writer").publish("a", b"x", qos=2)
    (message,) = reader.messages()
    assert (message.qos, message.properties.subscription_identifiers) == (0, (2,))
    assert node.broker.routing.routes.subscription_count == 1


def test_nothing_comes_after_unsubscribing_but_what_was_under_way() -> None:
    """[MQTT-3.10.4-2] [MQTT-3.10.4-3] Messages that were accepted before are still delivered."""
    node = Node()
    reader = node.connect("reader", receive_maximum=1)
    reader.subscribe("a", qos=1)
    writer = node.connect("writer")
    writer.publish("a", b"1", b"2", b"3", qos=1)
    reader.unsubscribe("a")
    writer.publish("a", b"4", qos=1)
    assert reader.drain() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_will_goes_the_same_way_as_any_message(qos: int) -> None:
    """QoS, identifiers and properties, to each receiver in its form."""
    node = Node()
    five, three = node.connect("five"), node.connect("three", V311)
    five.subscribe("will", qos=1, identifier=4)
    three.subscribe("will", qos=2)
    node.connect("c", will=ConnectWill(b"will", b"x", qos, False, Properties(content_type="t"))).lose()
    (message,) = five.messages()
    assert message.qos == min(qos, 1)
    assert message.properties == Properties(content_type="t", subscription_identifiers=(4,))
    assert [message.qos for message in three.messages()] == [qos]
