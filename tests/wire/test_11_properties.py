"""Properties of messages: passed on unaltered, in order, with the time that is left."""

from __future__ import annotations

import time

import pytest

from .clauses import clauses
from .conftest import Broker
from .packets import PUBACK, V5, V311
from .versions import any_qos, both

EVERYTHING = {
    "payload_format_indicator": 1,
    "content_type": "application/json; ü",
    "response_topic": "answers/to/me",
    "correlation_data": bytes(range(256)),
    "user_property": [("k", "1"), ("a", "2"), ("k", "3"), ("", ""), ("ключ", "знач")],
}


@clauses(
    "MQTT5-3.3.2-4",
    "MQTT5-3.3.2-15",
    "MQTT5-3.3.2-16",
    "MQTT5-3.3.2-17",
    "MQTT5-3.3.2-18",
    "MQTT5-3.3.2-20",
    "MQTT5-3.3.2-13",
)
@any_qos
def test_the_properties_of_a_message_arrive_unaltered_and_in_order(broker: Broker, qos: int) -> None:
    """Format, content type, response topic, correlation data and all user properties."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(topic, qos=2)
    client.publish(topic, "x", qos=qos, **EVERYTHING)
    assert client.message().properties == EVERYTHING


@clauses("MQTT5-3.3.2-4")
def test_payload_format_0_may_be_left_out_or_passed_on(broker: Broker) -> None:
    """0 is what its absence means."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(topic)
    client.publish(topic, b"\xff", payload_format_indicator=0)
    assert client.message().properties.get("payload_format_indicator", 0) == 0


@clauses("MQTT5-2.2.2-1")
def test_a_message_without_properties_arrives_without_any(broker: Broker) -> None:
    """The broker adds none of its own."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(topic)
    client.publish(topic, "x")
    assert client.message().properties == {}


@clauses("MQTT5-3.3.2-17", "MQTT5-3.3.2-18")
def test_properties_wait_with_a_message_for_an_absent_session(broker: Broker) -> None:
    """A queued message has the same properties as a live one."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(V5, name)
    first.subscribe(topic, qos=1)
    first.disconnect()
    broker.connect(V5).publish(topic, "x", qos=1, **EVERYTHING)
    assert broker.resumed(V5, name).message().properties == EVERYTHING


def test_properties_of_the_packet_are_not_those_of_the_message(broker: Broker) -> None:
    """A topic alias of the publisher's connection does not reach a subscriber without aliases."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(topic)
    client.publish(topic, "1", topic_alias=1)
    client.publish("", "2", topic_alias=1)
    assert [(packet.topic, packet.payload, packet.properties) for packet in client.messages(2)] == [
        (topic, b"1", {}),
        (topic, b"2", {}),
    ]


@clauses("MQTT5-3.3.2-6")
def test_message_expiry_is_passed_on(broker: Broker) -> None:
    """To a subscriber that is there, at once."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(topic)
    client.publish(topic, "x", message_expiry_interval=100)
    assert client.message().properties["message_expiry_interval"] in (99, 100)


@clauses("MQTT5-3.3.2-6")
def test_a_message_that_waited_has_the_time_that_is_left(broker: Broker) -> None:
    """The interval minus the seconds it spent in the server."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(V5, name)
    first.subscribe(topic, qos=1)
    first.disconnect()
    broker.connect(V5).publish(topic, "x", qos=1, message_expiry_interval=10)
    time.sleep(2.1)
    assert broker.resumed(V5, name).message().properties["message_expiry_interval"] in (7, 8)


@clauses("MQTT5-3.3.2-5")
def test_a_message_that_waited_too_long_is_gone(broker: Broker) -> None:
    """For subscribers of both versions; one without expiry that came later is there."""
    topic = broker.topic()
    names = {V311: broker.name(), V5: broker.name()}
    for version, name in names.items():
        first = broker.durable(version, name)
        first.subscribe(topic, qos=1)
        first.disconnect()
    publisher = broker.connect(V5)
    publisher.publish(topic, "short", qos=1, message_expiry_interval=1)
    publisher.publish(topic, "lasting", qos=1)
    time.sleep(2.2)
    for version, name in names.items():
        again = broker.resumed(version, name)
        assert again.message().payload == b"lasting"
        again.no_message(0.1)


@clauses("MQTT5-3.3.2-5")
def test_a_message_that_waits_for_its_place_in_the_window_expires(broker: Broker) -> None:
    """Held back by the receive maximum it was not sent, so it expires."""
    topic = broker.topic()
    reader = broker.connect(V5, receive_maximum=1)
    reader.subscribe(topic, qos=1)
    publisher = broker.connect(V5)
    publisher.publish(topic, "first", qos=1)
    publisher.publish(topic, "short", qos=1, message_expiry_interval=1)
    publisher.publish(topic, "last", qos=1)
    first = reader.message(acknowledge=False)
    time.sleep(2.2)
    reader.ack(PUBACK, first.packet_id)
    assert reader.message().payload == b"last"


@clauses("MQTT5-3.3.2-15", "MQTT5-3.3.2-16")
def test_request_and_response(broker: Broker) -> None:
    """A requester hears its answer on the response topic, with its correlation data."""
    asks, answers = broker.topic("asks"), broker.topic("answers")
    requester, responder = broker.connect(V5), broker.connect(V5)
    requester.subscribe(answers, qos=1)
    responder.subscribe(asks, qos=1)
    requester.publish(asks, "how much?", qos=1, response_topic=answers, correlation_data=b"\x01\x02")
    asked = responder.message().properties
    responder.publish(asked["response_topic"], "42", qos=1, correlation_data=asked["correlation_data"])
    answer = requester.message()
    assert (answer.payload, answer.properties["correlation_data"]) == (b"42", b"\x01\x02")


@both
@pytest.mark.parametrize("count", [1, 50])
def test_user_properties_do_not_confuse_older_subscribers(broker: Broker, version: int, count: int) -> None:
    """A 3.1.1 subscriber gets the payload alone."""
    topic = broker.topic()
    reader = broker.connect(V311)
    reader.subscribe(topic, qos=1)
    extra = {"user_property": [("k", str(number)) for number in range(count)]} if version == V5 else {}
    broker.connect(version).publish(topic, "x", qos=1, **extra)
    assert reader.message().payload == b"x"
