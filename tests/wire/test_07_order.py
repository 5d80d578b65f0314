"""Order of messages: per publisher, topic and QoS."""

from __future__ import annotations

from . import packets
from .clauses import clauses
from .conftest import Broker
from .packets import PUBREC, PUBREL
from .versions import any_qos, both


@clauses("MQTT3-4.6.0-6", "MQTT5-4.6.0-5", "MQTT3-4.6.0-5", "MQTT5-4.6.0-6")
@both
@any_qos
def test_messages_arrive_in_the_order_published(broker: Broker, version: int, qos: int) -> None:
    """A hundred messages of one publisher on one topic."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=qos)
    publisher = broker.connect(version)
    if qos == 2:
        for number in range(40):
            publisher.publish(topic, str(number), qos=2)
    else:
        publisher.send(
            *(
                packets.publish(version, topic, str(number).encode(), qos=qos, packet_id=number + 1)
                for number in range(100)
            )
        )
    count = 40 if qos == 2 else 100
    assert [int(message.payload) for message in reader.messages(count)] == list(range(count))


@clauses("MQTT3-4.6.0-6", "MQTT5-4.6.0-5")
@both
def test_order_holds_while_acknowledgements_are_late(broker: Broker, version: int) -> None:
    """A full window does not let later messages overtake."""
    topic = broker.topic()
    reader = broker.connect(version, receive_maximum=5 if version == 5 else None)
    reader.subscribe(topic, qos=1)
    publisher = broker.connect(version)
    for number in range(60):
        publisher.publish(topic, str(number), qos=1)
    assert [int(message.payload) for message in reader.messages(60)] == list(range(60))


@clauses("MQTT3-4.6.0-6", "MQTT5-4.6.0-5")
@both
def test_pubrels_come_in_the_order_of_the_pubrecs(broker: Broker, version: int) -> None:
    """The server as a sender keeps the order of section 4.6 too."""
    topic = broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=2)
    publisher = broker.connect(version)
    for number in range(5):
        publisher.publish(topic, str(number), qos=2)
    ids = [message.packet_id for message in reader.messages(5, acknowledge=False)]
    for number in ids:
        reader.ack(PUBREC, number)
    assert [reader.expect(PUBREL).packet_id for _ in ids] == ids


@clauses("MQTT3-4.6.0-6", "MQTT5-4.6.0-5")
@both
def test_order_holds_from_the_queue_to_the_live_stream(broker: Broker, version: int) -> None:
    """Messages that waited come before those published after the reconnect."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(version, name)
    first.subscribe(topic, qos=1)
    first.disconnect()
    publisher = broker.connect(version)
    for number in range(15):
        publisher.publish(topic, str(number), qos=1)
    again = broker.resumed(version, name)
    for number in range(15, 30):
        publisher.publish(topic, str(number), qos=1)
    assert [int(message.payload) for message in again.messages(30)] == list(range(30))


@both
def test_acknowledgements_of_the_server_come_in_order(broker: Broker, version: int) -> None:
    """PUBREC in the order of the PUBLISH packets."""
    client = broker.connect(version)
    topic = broker.topic()
    client.send(*(packets.publish(version, topic, b"x", qos=2, packet_id=number) for number in range(1, 16)))
    assert [client.expect(PUBREC).packet_id for _ in range(15)] == list(range(1, 16))
