"""Topic aliases in both directions."""

from __future__ import annotations

import pytest

from . import packets
from .clauses import clauses
from .client import Mismatch
from .conftest import Broker
from .packets import V5
from .versions import any_qos


@clauses("MQTT5-3.3.2-12")
@any_qos
def test_an_alias_stands_for_its_topic(broker: Broker, qos: int) -> None:
    """Defined once, used without the name, redefined later."""
    one, two = broker.topic("one"), broker.topic("two")
    reader = broker.connect(V5)
    reader.subscribe(one, two, qos=2)
    client = broker.connect(V5)
    for topic, payload in ((one, "1"), ("", "2"), (two, "3"), ("", "4")):
        client.publish(topic, payload, qos=qos, topic_alias=1)
    assert [(packet.topic, packet.payload) for packet in reader.messages(4)] == [
        (one, b"1"),
        (one, b"2"),
        (two, b"3"),
        (two, b"4"),
    ]


@clauses("MQTT5-3.3.2-12", "MQTT5-3.2.2-17")
def test_every_alias_up_to_the_maximum_is_accepted(broker: Broker) -> None:
    """The highest one that CONNACK announced, and the lowest."""
    client = broker.connect(V5)
    highest = client.connack.properties.get("topic_alias_maximum", 0)
    if not highest:
        pytest.skip("the broker takes no aliases")
    topic = broker.topic()
    client.subscribe(topic)
    for alias in {1, highest}:
        client.publish(topic, "with", topic_alias=alias)
        client.publish("", "without", topic_alias=alias)
        assert [packet.payload for packet in client.messages(2)] == [b"with", b"without"]


@clauses("MQTT5-3.2.2-17", "MQTT5-3.3.2-9")
def test_an_alias_above_the_announced_maximum_is_refused(broker: Broker) -> None:
    """DISCONNECT 0x94."""
    client = broker.connect(V5)
    highest = client.connack.properties.get("topic_alias_maximum", 0)
    if highest == 0xFFFF:
        pytest.skip("there is no alias above 65535")
    client.send(packets.publish(V5, broker.topic(), b"x", topic_alias=highest + 1))
    broker.refused(client, 0x94)


@clauses("MQTT5-3.3.2-7")
def test_aliases_end_with_their_connection(broker: Broker) -> None:
    """A resumed session does not bring them back."""
    name = broker.name()
    first = broker.durable(V5, name)
    first.publish(broker.topic(), "x", qos=1, topic_alias=1)
    first.disconnect()
    again = broker.resumed(V5, name)
    again.send(packets.publish(V5, "", b"x", topic_alias=1))
    broker.refused(again, 0x82)


@clauses("MQTT5-3.3.2-7")
def test_aliases_of_two_connections_are_independent(broker: Broker) -> None:
    """The same alias, two topics."""
    topics = [broker.topic("a"), broker.topic("b")]
    reader = broker.connect(V5)
    reader.subscribe(*topics)
    writers = [broker.connect(V5) for _ in topics]
    for writer, topic in zip(writers, topics, strict=True):
        writer.publish(topic, "1", topic_alias=1)
        assert reader.message().topic == topic
    for writer, topic in zip(writers, topics, strict=True):
        writer.publish("", "2", topic_alias=1)
        assert reader.message().topic == topic


@clauses("MQTT5-3.1.2-27")
@pytest.mark.parametrize("maximum", [None, 0])
def test_the_server_sends_no_alias_to_a_client_that_takes_none(broker: Broker, maximum: int | None) -> None:
    """Without Topic Alias Maximum, or with 0."""
    topic = broker.topic()
    reader = broker.connect(V5, topic_alias_maximum=maximum)
    reader.subscribe(topic)
    writer = broker.connect(V5)
    for _ in range(5):
        writer.publish(topic, "x")
    assert all("topic_alias" not in packet.properties for packet in reader.messages(5))


@clauses("MQTT5-3.1.2-26", "MQTT5-3.3.2-11", "MQTT5-3.3.2-8", "MQTT5-3.3.2-10")
def test_the_server_keeps_to_the_clients_maximum(broker: Broker) -> None:
    """Ten topics, two aliases; every message comes under its right name (the client here checks each alias)."""
    base = broker.topic()
    reader = broker.connect(V5, topic_alias_maximum=2)
    reader.subscribe(f"{base}/#", qos=1)
    writer = broker.connect(V5)
    names = [f"{base}/{number % 10}" for number in range(40)]
    for name in names:
        writer.publish(name, name.rsplit("/", 1)[1], qos=1)
    got = reader.messages(40)
    assert [packet.topic for packet in got] == names
    assert all(packet.payload.decode() == packet.topic.rsplit("/", 1)[1] for packet in got)
    assert all(1 <= packet.properties.get("topic_alias", 1) <= 2 for packet in got)


def test_the_server_assigns_aliases_to_a_client_that_takes_them(broker: Broker) -> None:
    """Not demanded by the specification, but what Topic Alias Maximum is for: repeats come without the name."""
    topic = broker.topic("a", "rather", "long", "name")
    reader = broker.connect(V5, topic_alias_maximum=10)
    reader.subscribe(topic)
    writer = broker.connect(V5)
    got = []
    for number in range(5):
        # One by one: what comes in bulk may well go in bulk.
        writer.publish(topic, str(number))
        got += reader.messages(1)
    assert [packet.topic for packet in got] == [topic] * 5
    if not any(topic.encode() not in packet.raw for packet in got):
        raise Mismatch("expected a PUBLISH by its alias alone, every one had its topic name")


@clauses("MQTT5-3.3.2-7")
def test_messages_sent_again_do_not_rely_on_aliases_of_the_lost_connection(broker: Broker) -> None:
    """The new connection learns its aliases anew."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(V5, name, topic_alias_maximum=5)
    first.subscribe(topic, qos=1)
    writer = broker.connect(V5)
    for number in range(3):
        writer.publish(topic, str(number), qos=1)
    first.messages(3, acknowledge=False)
    first.drop()
    again = broker.resumed(V5, name)
    assert [(packet.topic, packet.payload) for packet in again.messages(3)] == [
        (topic, b"0"),
        (topic, b"1"),
        (topic, b"2"),
    ]
