"""What is sent again after a reconnect, and that nothing is sent again at any other time."""

from __future__ import annotations

import pytest

from . import packets
from .clauses import clauses
from .conftest import Broker
from .packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, V5
from .versions import acknowledged, both, every


@clauses(
    "MQTT3-4.4.0-1",
    "MQTT5-4.4.0-1",
    "MQTT3-3.3.1-1",
    "MQTT5-3.3.1-1",
    "MQTT3-2.3.1-3",
    "MQTT3-2.3.1-4",
    "MQTT5-4.3.2-3",
    "MQTT5-4.3.3-3",
)
@every
@acknowledged
@pytest.mark.parametrize("ending", ["drop", "disconnect"])
def test_unacknowledged_messages_come_again_with_dup_and_the_same_id(
    broker: Broker, version: int, qos: int, ending: str
) -> None:
    """In the original order, at the next connect of the session."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(version, name)
    first.subscribe(topic, qos=qos)
    publisher = broker.connect(version)
    for number in range(3):
        publisher.publish(topic, str(number), qos=qos)
    before = first.messages(3, acknowledge=False)
    getattr(first, ending)()
    again = broker.resumed(version, name)
    after = again.messages(3)
    assert [(packet.packet_id, packet.payload) for packet in after] == [
        (packet.packet_id, packet.payload) for packet in before
    ]
    assert [packet.dup for packet in after] == [True] * 3
    again.no_message(0.1)


@clauses("MQTT3-4.4.0-1", "MQTT5-4.4.0-1", "MQTT3-4.3.3-1", "MQTT5-4.3.3-5", "MQTT5-4.3.3-6")
@both
def test_a_pubrel_without_pubcomp_comes_again_and_not_the_publish(broker: Broker, version: int) -> None:
    """Once PUBREL was sent the PUBLISH is never sent again."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(version, name)
    first.subscribe(topic, qos=2)
    broker.connect(version).publish(topic, "x", qos=2)
    got = first.message(acknowledge=False)
    first.ack(PUBREC, got.packet_id)
    first.expect(PUBREL)
    first.drop()
    again = broker.resumed(version, name)
    assert again.expect(PUBREL).packet_id == got.packet_id
    again.ack(PUBCOMP, got.packet_id)
    again.no_message()


@clauses("MQTT5-4.4.0-1", "MQTT3-4.4.0-1")
@both
def test_acknowledged_messages_do_not_come_again(broker: Broker, version: int) -> None:
    """Out of three, only the one in the middle was not acknowledged."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(version, name)
    first.subscribe(topic, qos=1)
    publisher = broker.connect(version)
    for number in range(3):
        publisher.publish(topic, str(number), qos=1)
    got = first.messages(3, acknowledge=False)
    first.ack(PUBACK, got[0].packet_id)
    first.ack(PUBACK, got[2].packet_id)
    first.ping()
    first.drop()
    again = broker.resumed(version, name)
    resent = again.message()
    assert (resent.payload, resent.dup) == (b"1", True)
    again.no_message()


@clauses("MQTT3-3.3.1-1", "MQTT5-3.3.1-1", "MQTT5-4.3.2-2")
@both
def test_messages_that_were_never_sent_come_without_dup(broker: Broker, version: int) -> None:
    """After the ones that are sent again come the ones that waited, with DUP 0."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(version, name)
    first.subscribe(topic, qos=1)
    publisher = broker.connect(version)
    publisher.publish(topic, "sent", qos=1)
    first.message(acknowledge=False)
    first.disconnect()
    publisher.publish(topic, "waited", qos=1)
    again = broker.resumed(version, name)
    assert [(packet.payload, packet.dup) for packet in again.messages(2)] == [(b"sent", True), (b"waited", False)]


@clauses("MQTT5-4.4.0-1", "MQTT3-4.4.0-1")
@both
def test_a_clean_start_forgets_what_was_in_flight(broker: Broker, version: int) -> None:
    """Nothing of the old session comes."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(version, name)
    first.subscribe(topic, qos=2)
    broker.connect(version).publish(topic, "x", qos=2)
    first.message(acknowledge=False)
    first.drop()
    assert broker.connect(version, name).quiet(0.3) == []


@clauses("MQTT5-4.3.3-7")
def test_an_expired_message_that_was_sent_already_comes_again(broker: Broker) -> None:
    """Expiry is not applied once the PUBLISH has gone out (QoS 2)."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(V5, name)
    first.subscribe(topic, qos=2)
    broker.connect(V5).publish(topic, "x", qos=2, message_expiry_interval=1)
    got = first.message(acknowledge=False)
    assert first.quiet(1.6) == []
    first.drop()
    again = broker.resumed(V5, name)
    resent = again.receive()
    assert resent is not None and (resent.kind, resent.packet_id) == (PUBLISH, got.packet_id)


@clauses("MQTT5-3.3.4-9", "MQTT5-4.9.0-1")
def test_resending_keeps_to_the_receive_maximum_of_the_new_connection(broker: Broker) -> None:
    """Three were in flight; the new connection wants one at a time."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(V5, name)
    first.subscribe(topic, qos=1)
    publisher = broker.connect(V5)
    for number in range(3):
        publisher.publish(topic, str(number), qos=1)
    first.messages(3, acknowledge=False)
    first.drop()
    again = broker.resumed(V5, name, receive_maximum=1)
    for number in range(3):
        got = again.message(acknowledge=False)
        assert got.payload == str(number).encode()
        again.no_message(0.15)
        again.ack(PUBACK, got.packet_id)


@both
def test_a_take_over_resends_to_the_new_connection(broker: Broker, version: int) -> None:
    """The connection need not have been lost for its session to go on elsewhere."""
    topic, name = broker.topic(), broker.name()
    old = broker.durable(version, name)
    old.subscribe(topic, qos=1)
    broker.connect(version).publish(topic, "x", qos=1)
    old.message(acknowledge=False)
    new = broker.durable(version, name)
    got = new.message()
    assert (got.payload, got.dup) == (b"x", True)


@clauses("MQTT3-2.3.1-4", "MQTT5-2.2.1-4")
@both
def test_new_messages_do_not_get_the_ids_of_those_in_flight_from_before(broker: Broker, version: int) -> None:
    """Ids that wait for an acknowledgement stay taken across connections."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(version, name)
    first.subscribe(topic, qos=1)
    publisher = broker.connect(version)
    for number in range(3):
        publisher.publish(topic, str(number), qos=1)
    first.messages(3, acknowledge=False)
    first.drop()
    again = broker.resumed(version, name)
    old = {packet.packet_id for packet in again.messages(3, acknowledge=False)}
    publisher.publish(topic, "new", qos=1)
    assert again.message(acknowledge=False).packet_id not in old


@clauses("MQTT5-4.3.3-13", "MQTT5-4.3.3-8")
def test_an_expired_qos_2_message_from_a_client_still_finishes_its_exchange(broker: Broker) -> None:
    """PUBREL is answered after the message has expired."""
    client = broker.connect(V5)
    client.send(packets.publish(V5, broker.topic(), b"x", qos=2, packet_id=4, message_expiry_interval=1))
    client.expect(PUBREC)
    assert client.quiet(1.5) == []
    client.ack(PUBREL, 4)
    assert client.expect(PUBCOMP).packet_id == 4
