"""Maximum packet size towards the client, and what the server does with its own limits."""

from __future__ import annotations

import pytest

from . import packets
from .clauses import clauses
from .conftest import Broker
from .packets import PUBACK, V5
from .versions import both


@clauses("MQTT5-3.1.2-24", "MQTT5-3.1.2-25")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_too_large_for_the_client_is_left_out(broker: Broker, qos: int) -> None:
    """The one after it comes; the publisher hears nothing of it."""
    topic = broker.topic()
    reader = broker.connect(V5, maximum_packet_size=100)
    reader.subscribe(topic, qos=qos)
    writer = broker.connect(V5)
    assert writer.publish(topic, "x" * 200, qos=qos) in (0, 0x10)
    writer.publish(topic, "small", qos=qos)
    assert reader.message().payload == b"small"
    reader.no_message(0.1)


@clauses("MQTT5-3.1.2-24")
def test_a_message_of_exactly_the_maximum_size_comes(broker: Broker) -> None:
    """The limit counts the whole packet, and is allowed; one byte more is not."""
    topic = broker.topic()
    fits = packets.publish(V5, topic, b"x" * 50)
    reader = broker.connect(V5, maximum_packet_size=len(fits))
    reader.subscribe(topic)
    writer = broker.connect(V5)
    writer.publish(topic, b"x" * 51)
    writer.publish(topic, b"x" * 50)
    assert len(reader.message().payload) == 50


@clauses("MQTT5-3.1.2-25", "MQTT5-3.3.4-9")
def test_messages_left_out_take_no_place_in_the_window(broker: Broker) -> None:
    """Behaves as if it had been sent and acknowledged."""
    topic = broker.topic()
    reader = broker.connect(V5, maximum_packet_size=100, receive_maximum=1)
    reader.subscribe(topic, qos=1)
    writer = broker.connect(V5)
    for _ in range(3):
        writer.publish(topic, "x" * 200, qos=1)
    writer.publish(topic, "small", qos=1)
    assert reader.message().payload == b"small"


@clauses("MQTT5-3.1.2-25")
def test_a_message_too_large_for_one_reaches_the_others(broker: Broker) -> None:
    """Only the client that set the limit goes without."""
    topic = broker.topic()
    small, large = broker.connect(V5, maximum_packet_size=100), broker.connect(V5)
    for reader in (small, large):
        reader.subscribe(topic, qos=1)
    large.publish(topic, "x" * 200, qos=1)
    assert len(large.message().payload) == 200
    small.no_message(0.1)


@clauses("MQTT5-3.1.2-24", "MQTT5-3.1.2-25")
def test_a_waiting_message_too_large_for_the_new_connection_is_left_out(broker: Broker) -> None:
    """The limit of the connection that delivers counts, not that of the one before."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(V5, name)
    first.subscribe(topic, qos=1)
    first.disconnect()
    writer = broker.connect(V5)
    writer.publish(topic, "x" * 200, qos=1)
    writer.publish(topic, "small", qos=1)
    again = broker.resumed(V5, name, maximum_packet_size=100)
    assert again.message().payload == b"small"


@clauses(
    "MQTT5-3.2.2-19",
    "MQTT5-3.2.2-20",
    "MQTT5-3.4.2-2",
    "MQTT5-3.4.2-3",
    "MQTT5-3.5.2-2",
    "MQTT5-3.5.2-3",
    "MQTT5-3.6.2-2",
    "MQTT5-3.6.2-3",
    "MQTT5-3.7.2-2",
    "MQTT5-3.7.2-3",
    "MQTT5-3.9.2-1",
    "MQTT5-3.9.2-2",
    "MQTT5-3.11.2-1",
    "MQTT5-3.11.2-2",
    "MQTT5-3.14.2-3",
    "MQTT5-3.14.2-4",
    "MQTT5-3.1.2-24",
)
def test_no_packet_of_the_server_is_larger_than_a_tiny_client_allows(broker: Broker) -> None:
    """CONNACK, SUBACK, UNSUBACK, PUBACK, PUBREC, PUBREL, PUBCOMP and DISCONNECT, each within 60 bytes."""
    limit = 60
    topic, name = broker.topic(), broker.name()
    client = broker.connect(V5, name, maximum_packet_size=limit, request_problem_information=1)
    seen = [client.connack]
    client.send(
        packets.subscribe(V5, 1, [(topic, 2)]),
        packets.publish(V5, topic, b"1", qos=1, packet_id=2),
        packets.publish(V5, topic, b"2", qos=2, packet_id=3),
        packets.ack(packets.PUBREL, 3),
        packets.ack(packets.PUBREL, 99),
        packets.ack(packets.PUBREC, 98),
        packets.unsubscribe(V5, 4, [topic, "never/had"]),
        packets.subscribe(V5, 5, [(topic, 3)]),
    )
    seen += client.closed()
    assert {packet.kind for packet in seen} >= {packets.CONNACK, packets.SUBACK, packets.UNSUBACK, packets.PUBACK}
    assert max(len(packet.raw) for packet in seen) <= limit


@clauses("MQTT5-3.2.2-15")
@pytest.mark.variant("small_packets")
def test_the_maximum_packet_size_is_announced_and_packets_up_to_it_are_taken(broker: Broker) -> None:
    """Exactly 200 bytes pass."""
    client = broker.connect(V5)
    assert client.connack.properties.get("maximum_packet_size") == 200
    topic = broker.topic()
    client.subscribe(topic, qos=1)
    rest = 200 - len(packets.publish(V5, topic, b"", qos=1, packet_id=1)) - 1
    whole = packets.publish(V5, topic, b"x" * rest, qos=1, packet_id=1)
    assert len(whole) == 200
    client.send(whole)
    assert client.expect(PUBACK).reason == 0


@pytest.mark.variant("small_packets")
@both
def test_a_connect_over_the_maximum_size_is_refused(broker: Broker, version: int) -> None:
    """Before anything is buffered; CONNACK 0x95 or just a close."""
    client = broker.open(version, "c" * 300)
    client.send(packets.connect(version, client.client_id))
    assert [packet.reason for packet in client.closed() if packet.reason != 0x95] == []


@pytest.mark.parametrize("name", ["receive_maximum", "topic_alias_maximum", "maximum_packet_size"])
def test_limits_are_announced_as_two_and_four_byte_integers(broker: Broker, name: str) -> None:
    """What CONNACK says can be relied on in the tests of this suite."""
    value = broker.connect(V5).connack.properties.get(name)
    assert value is None or value >= (0 if name == "topic_alias_maximum" else 1)


@clauses("MQTT3-4.8.0-1", "MQTT5-4.13.1-1")
@both
def test_an_error_of_one_client_does_not_touch_the_others(broker: Broker, version: int) -> None:
    """Ten bad clients, one good one."""
    topic = broker.topic()
    good = broker.connect(version)
    good.subscribe(topic, qos=1)
    for _ in range(10):
        bad = broker.connect(version)
        bad.send(b"\x36\x00")
        bad.closed()
    good.publish(topic, "still here", qos=1)
    assert good.message().payload == b"still here"
