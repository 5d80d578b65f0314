"""The bytes of a message on its way out: every version and QoS, and which properties travel with it."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.codec import NO_PROPERTIES, PacketType, Properties, Publish, encode
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import Message, ProtocolVersion
from tests.unit.broker.harness import V5, V31, V311, Client, Node

VERSIONS = [V31, V311, V5]
PASSED_ON: dict[str, Any] = {
    "payload_format_indicator": 1,
    "content_type": "text/plain",
    "response_topic": "answers/here",
    "correlation_data": b"\x00\xff",
    "user_properties": (("b", "1"), ("a", "2"), ("b", "1"), ("", "")),
}


def named(version: ProtocolVersion) -> str:
    """For test ids."""
    return version.name.lower()


@pytest.mark.parametrize("subscribed", [0, 1, 2], ids="sub-qos{}".format)
@pytest.mark.parametrize("published", [0, 1, 2], ids="pub-qos{}".format)
@pytest.mark.parametrize("receiver", VERSIONS, ids=named)
@pytest.mark.parametrize("sender", VERSIONS, ids=named)
def test_a_run_in_every_form(
    sender: ProtocolVersion, receiver: ProtocolVersion, published: int, subscribed: int
) -> None:
    """[MQTT-3.8.4-8] The lower QoS of both, no retain, no DUP, ids from 1; the same bytes whatever the form."""
    node = Node()
    reader = node.connect("reader", receiver)
    reader.subscribe("a/b", qos=subscribed)
    writer = node.connect("writer", sender)
    payloads = (b"", b"1", b"22", b"x" * 200)
    writer.publish("a/b", *payloads, qos=published, packet_id=None)
    qos = min(published, subscribed)
    expected = [
        Publish(b"a/b", payload, qos, packet_id=number * (qos > 0)) for number, payload in enumerate(payloads, 1)
    ]
    assert reader.wire.take() == b"".join(encode(packet, receiver) for packet in expected)


def durable(node: Node, **options: Any) -> Client:
    """A reader that is away while the message comes."""
    reader = node.connect("reader", clean=False, expiry=60)
    reader.subscribe("t", qos=1, **options)
    reader.lose()
    return reader


def receive(node: Node, way: str, properties: dict[str, Any], qos: int = 1) -> Publish:
    """One message on its way through one part of the broker."""
    writer = node.connect("writer")
    if way == "retained":
        writer.publish("t", b"x", qos=qos, retain=True, **properties)
        reader = node.connect("reader")
        reader.subscribe("t", qos=1)
    elif way in ("queued", "restarted"):
        durable(node)
        writer.publish("t", b"x", qos=qos, **properties)
        if way == "restarted":
            node.restart()
        reader = node.connect("reader", clean=False, expiry=60)
    else:
        limits: dict[str, Any] = {"alias": {"topic_alias_maximum": 3}, "limited": {"maximum_packet_size": 5000}}.get(
            way, {}
        )
        reader = node.connect("reader", **limits)
        reader.subscribe("t", qos=0 if way == "qos0" else 1, identifier=7 if way == "identifier" else None)
        writer.publish("t", b"x", qos=qos, **properties)
    (message,) = reader.messages()
    return message


WAYS = ["direct", "qos0", "identifier", "alias", "limited", "queued", "restarted", "retained"]
HOP: dict[str, dict[str, Any]] = {"identifier": {"subscription_identifiers": (7,)}, "alias": {"topic_alias": 1}}


@pytest.mark.parametrize("way", WAYS)
def test_properties_of_the_message_are_passed_on_as_they_are(way: str) -> None:
    """[MQTT-3.3.2-17] [MQTT-3.3.2-18] And nothing but what belongs to this hop is added."""
    message = receive(Node(), way, PASSED_ON)
    assert message.properties == Properties(**PASSED_ON, **HOP.get(way, {}))


@pytest.mark.parametrize("way", WAYS)
def test_an_alias_of_the_publisher_is_not_passed_on(way: str) -> None:
    """It belongs to the publisher's connection; the message has its topic."""
    message = receive(Node(), way, {"topic_alias": 9, "content_type": "x"})
    assert message.topic == b"t"
    assert message.properties == Properties(content_type="x", **HOP.get(way, {}))


@pytest.mark.parametrize("way", WAYS)
def test_an_expiry_is_passed_on(way: str) -> None:
    """[MQTT-3.3.2-6] With the whole time, when no time has passed."""
    message = receive(Node(), way, {"message_expiry_interval": 100, "topic_alias": 2})
    assert message.properties.message_expiry_interval == 100


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_that_waited_says_how_long_it_is_still_good(qos: int) -> None:
    """[MQTT-3.3.2-6] Also when sent a second time, and never more than what was received less the wait."""
    node = Node()
    reader = durable(node)
    node.connect("writer").publish("t", b"x", qos=qos, message_expiry_interval=30)
    for passed, left in ((10.25, 19), (15, 4), (4.5, 1), (30, 0)):
        node.advance(passed)
        reader = node.connect("reader", clean=False, expiry=60)
        (message,) = reader.messages()
        assert message.properties.message_expiry_interval == left
        reader.lose()


@pytest.mark.parametrize("limits", [{}, {"topic_alias_maximum": 3}, {"maximum_packet_size": 5000}], ids=str)
def test_no_time_at_all_is_passed_on_as_it_is(limits: dict[str, Any]) -> None:
    """[MQTT-3.3.2-6] At QoS 0, to whoever can take it at once, in whatever form."""
    node = Node()
    reader = node.connect("reader", **limits)
    reader.subscribe("t")
    node.connect("writer").publish("t", b"x", message_expiry_interval=0)
    (message,) = reader.messages()
    assert message.properties.message_expiry_interval == 0


@pytest.mark.parametrize("way", ["qos0", "direct", "durable", "queued", "restarted"])
@pytest.mark.parametrize("seconds", [1, 2, 10])
@pytest.mark.parametrize("apart", [0, 0.003], ids=["at-once", "a-moment-later"])
def test_a_message_that_the_node_publishes_has_the_time_that_was_given(apart: float, seconds: int, way: str) -> None:
    """[MQTT-3.3.2-6] Of the API, a will: less the moments that it waited, and not each time a second."""
    node = Node()
    absent = way in ("queued", "restarted")
    reader = node.connect("reader", clean=False, expiry=60 if way == "durable" or absent else None)
    reader.subscribe("t", qos=0 if way == "qos0" else 1)
    if absent:
        reader.lose()
    expires_at = node.clock.wall() + seconds
    node.advance(apart)
    node.broker.publishing.path.send(Message(b"t", b"x", 1, expires_at=expires_at))
    node.advance(apart)
    if way == "restarted":
        node.restart()
    if absent:
        reader = node.connect("reader", clean=False, expiry=60)
    (message,) = reader.messages()
    assert message.properties.message_expiry_interval in (seconds - 1, seconds)


@pytest.mark.parametrize("clean", [True, False])
def test_a_message_that_the_node_publishes_is_over_when_its_time_is(clean: bool) -> None:
    """[MQTT-3.3.2-5] Not a second before, and not after."""
    node = Node()
    reader = node.connect("reader", clean=clean, expiry=None if clean else 60, receive_maximum=1)
    reader.subscribe("t", qos=1)
    reader.publish("t", b"first", qos=1)
    (first,) = reader.messages()
    expires_at = node.clock.wall() + 2
    node.advance(0.003)
    node.broker.publishing.path.send(Message(b"t", b"late", 1, expires_at=expires_at - 1))
    node.broker.publishing.path.send(Message(b"t", b"x", 1, expires_at=expires_at))
    node.advance(1.9)
    reader.ack(PacketType.PUBACK, first.packet_id)
    (message,) = reader.messages()
    assert (message.payload, message.properties.message_expiry_interval) == (b"x", 1)
    assert node.dropped() == {"expired": 1}


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(("waited", "left"), [(11.4, 18), (29.25, 1)])
def test_a_retained_message_says_how_long_it_is_still_good(qos: int, waited: float, left: int) -> None:
    """[MQTT-3.3.2-6] Each reader gets the time that is left for it; a part of the last second is one."""
    node = Node()
    node.connect("writer").publish("t", b"x", qos=qos, retain=True, message_expiry_interval=30)
    node.advance(waited)
    reader = node.connect("reader")
    reader.subscribe("t", qos=qos)
    assert reader.messages()[0].properties.message_expiry_interval == left


@pytest.mark.parametrize("durable_reader", [False, True], ids=["clean", "durable"])
def test_a_message_whose_time_is_over_is_not_sent(durable_reader: bool) -> None:
    """[MQTT-3.3.2-5] It is dropped with its reason, in the queue and behind a full window; others come."""
    node = Node()
    reader = node.connect("reader", expiry=600 if durable_reader else None, receive_maximum=1)
    reader.subscribe("t", qos=1)
    writer = node.connect("writer")
    writer.publish("t", b"first", qos=1)
    writer.publish("t", b"late", qos=1, message_expiry_interval=5)
    writer.publish("t", b"last", qos=1)
    node.advance(6)
    assert reader.drain() == [b"first", b"last"]
    assert node.dropped() == {"expired": 1}
    assert node.records(CacheName.QUEUE, CacheName.DUP) == 0


@pytest.mark.parametrize("receiver", [V31, V311], ids=named)
def test_a_3x_reader_gets_no_properties(receiver: ProtocolVersion) -> None:
    """The message itself is the same, and expires all the same."""
    node = Node()
    reader = node.connect("reader", receiver, clean=False)
    reader.subscribe("t", qos=1)
    writer = node.connect("writer")
    writer.publish("t", b"x", qos=1, **PASSED_ON)
    assert reader.wire.take() == encode(Publish(b"t", b"x", 1, packet_id=1), receiver)
    reader.lose()
    writer.publish("t", b"y", qos=1, message_expiry_interval=5)
    node.advance(6)
    again = node.connect("reader", receiver, clean=False)
    assert again.payloads() == [b"x"]
    again.ack(PacketType.PUBACK, 1)
    assert node.dropped() == {"expired": 1}


def test_the_order_of_properties_in_the_block_stays() -> None:
    """User properties between others arrive between others: the block is copied, not written anew."""
    node = Node()
    readers = [node.connect("qos0"), node.connect("qos1")]
    for qos, reader in enumerate(readers):
        reader.subscribe("t", qos=qos)
    block = b"\x26\x00\x01k\x00\x01v" + b"\x01\x01" + b"\x26\x00\x01a\x00\x01b" + b"\x03\x00\x01c"
    body = b"\x00\x01t" + b"\x00\x01" + bytes((len(block),)) + block + b"x"
    node.connect("writer").feed(b"\x32" + bytes((len(body),)) + body)
    for reader in readers:
        assert block + b"x" in reader.wire.take()


@pytest.mark.parametrize("receiver", [V311, V5], ids=named)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_alias_stands_for_its_topic_until_it_is_set_anew(qos: int, receiver: ProtocolVersion) -> None:
    """[MQTT-3.3.2-12] Resolved before anybody gets the message."""
    node = Node()
    reader = node.connect("reader", receiver)
    reader.subscribe("#", qos=2)
    writer = node.connect("writer")
    for topic, payload in (("a", b"1"), ("", b"2"), ("b", b"3"), ("", b"4")):
        writer.publish(topic, payload, qos=qos, topic_alias=1)
    got = [(message.topic, message.payload, message.properties) for message in reader.messages()]
    expected = [(b"a", b"1"), (b"a", b"2"), (b"b", b"3"), (b"b", b"4")]
    assert got == [(topic, payload, NO_PROPERTIES) for topic, payload in expected]


def test_aliases_end_with_their_connection() -> None:
    """[MQTT-3.3.2-7] The session goes on, the alias does not."""
    node = Node()
    writer = node.connect("writer", clean=False, expiry=60)
    writer.publish("a", b"1", topic_alias=1)
    writer.lose()
    writer = node.connect("writer", clean=False, expiry=60)
    writer.publish("", b"2", topic_alias=1)
    assert writer.closed


@pytest.mark.parametrize("qos", [0, 1])
def test_aliases_towards_a_client_are_told_once_and_the_oldest_gives_way(qos: int) -> None:
    """[MQTT-3.3.2-10] [MQTT-3.1.2-26] Never more of them than the client takes."""
    node = Node()
    reader = node.connect("reader", topic_alias_maximum=2)
    reader.subscribe("#", qos=qos)
    writer = node.connect("writer")
    for topic in ("a", "a", "b", "a", "c", "a", "b"):
        writer.publish(topic, b"x", qos=1)
    got = [(message.topic, message.properties.topic_alias) for message in reader.messages()]
    assert got == [(b"a", 1), (b"", 1), (b"b", 2), (b"", 1), (b"c", 2), (b"", 1), (b"b", 2)]


def test_topics_that_are_very_long_get_no_alias() -> None:
    """They would be kept for each connection."""
    node = Node()
    reader = node.connect("reader", topic_alias_maximum=2)
    reader.subscribe("#")
    writer = node.connect("writer")
    for topic in ("a", "t" * 4096, "t" * 4097, "t" * 4097, "t" * 4096):
        writer.publish(topic, b"x", qos=1)
    assert [message.properties.topic_alias for message in reader.messages()] == [1, 2, None, None, 2]


def test_a_message_sent_again_says_its_topic_again() -> None:
    """[MQTT-3.3.2-7] The new connection knows no alias."""
    node = Node()
    reader = node.connect("reader", expiry=60, topic_alias_maximum=2)
    reader.subscribe("t", qos=1)
    writer = node.connect("writer")
    for payload in (b"1", b"2"):
        writer.publish("t", payload, qos=1)
    assert [message.topic for message in reader.messages()] == [b"t", b""]
    reader.lose()
    again = node.connect("reader", clean=False, expiry=60, topic_alias_maximum=2)
    assert [message.topic for message in again.messages()] == [b"t", b""]
    again.lose()
    without = node.connect("reader", clean=False, expiry=60)
    assert [(message.topic, message.properties.topic_alias) for message in without.messages()] == [(b"t", None)] * 2
