"""Retained messages: kept, replaced, removed, delivered by retain handling."""

from __future__ import annotations

import time

import pytest

from . import packets
from .clauses import clauses
from .conftest import Broker
from .packets import V5, V311
from .versions import any_qos, both, every


@clauses("MQTT3-3.3.1-5", "MQTT3-3.3.1-6", "MQTT3-3.3.1-8", "MQTT5-3.3.1-5", "MQTT5-3.3.1-9")
@every
@any_qos
def test_a_retained_message_is_sent_to_a_new_subscriber(broker: Broker, version: int, qos: int) -> None:
    """With RETAIN 1, at the QoS it was published with."""
    topic = broker.topic()
    broker.connect(version).publish(topic, "kept", qos=qos, retain=True)
    reader = broker.connect(version)
    broker.connect(version).ping()
    reader.subscribe(topic, qos=2)
    got = reader.message()
    assert (got.topic, got.payload, got.qos, got.retain, got.dup) == (topic, b"kept", qos, True, False)
    broker.retained_gone(topic)


@clauses("MQTT3-3.3.1-9", "MQTT5-3.3.1-12")
@both
def test_an_established_subscription_gets_it_with_retain_0(broker: Broker, version: int) -> None:
    """RETAIN says that the message is an old one."""
    topic = broker.topic()
    client = broker.connect(version)
    client.subscribe(topic, qos=1)
    client.publish(topic, "live", qos=1, retain=True)
    assert not client.message().retain
    broker.retained_gone(topic)


@clauses("MQTT5-3.3.1-13", "MQTT5-3.3.1-12")
def test_retain_as_published_keeps_the_flag(broker: Broker) -> None:
    """As the publisher set it, both ways."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.subscribe(topic, as_published=1)
    client.publish(topic, "1", qos=1, retain=True)
    client.publish(topic, "0", qos=1)
    assert [packet.retain for packet in client.messages(2)] == [True, False]
    broker.retained_gone(topic)


@clauses("MQTT5-3.3.1-12", "MQTT5-3.3.1-9")
def test_without_retain_as_published_a_new_subscription_still_sees_retain_1(broker: Broker) -> None:
    """Messages sent because a subscription was made have RETAIN 1 whatever the option says."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.publish(topic, "kept", qos=1, retain=True)
    client.subscribe(topic, as_published=0)
    assert client.message().retain
    broker.retained_gone(topic)


@clauses("MQTT3-3.3.1-10", "MQTT3-3.3.1-11", "MQTT5-3.3.1-6", "MQTT5-3.3.1-7")
@both
def test_an_empty_retained_message_is_delivered_and_removes_the_retained_one(broker: Broker, version: int) -> None:
    """Later subscribers find nothing; those that are there get the empty message."""
    topic = broker.topic()
    client = broker.connect(version)
    client.publish(topic, "kept", qos=1, retain=True)
    client.subscribe(topic, qos=1)
    assert client.message().payload == b"kept"
    client.publish(topic, b"", qos=1, retain=True)
    empty = client.message()
    assert (empty.payload, empty.retain) == (b"", False)
    late = broker.connect(version)
    late.subscribe(topic)
    late.no_message()


@clauses("MQTT3-3.3.1-12", "MQTT5-3.3.1-8")
@both
def test_a_message_that_is_not_retained_leaves_the_retained_one(broker: Broker, version: int) -> None:
    """Neither replaced nor removed, by an empty one either."""
    topic = broker.topic()
    client = broker.connect(version)
    client.publish(topic, "kept", qos=1, retain=True)
    client.publish(topic, "passing", qos=1)
    client.publish(topic, b"", qos=1)
    client.subscribe(topic)
    assert client.message().payload == b"kept"
    client.no_message(0.1)
    broker.retained_gone(topic)


@clauses("MQTT3-3.3.1-7", "MQTT3-3.3.1-5", "MQTT5-3.3.1-5")
@both
@any_qos
def test_the_last_retained_message_replaces_the_one_before(broker: Broker, version: int, qos: int) -> None:
    """A QoS 0 one as well."""
    topic = broker.topic()
    client = broker.connect(version)
    client.publish(topic, "old", qos=1, retain=True)
    client.publish(topic, "new", qos=qos, retain=True)
    client.ping()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=2)
    assert reader.message().payload == b"new"
    reader.no_message(0.1)
    broker.retained_gone(topic)


@clauses("MQTT5-3.3.1-9")
def test_retain_handling_0_sends_at_every_subscribe(broker: Broker) -> None:
    """Also when the subscription existed."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.publish(topic, "kept", qos=1, retain=True)
    for _ in range(2):
        client.subscribe(topic, handling=0)
        assert client.message().payload == b"kept"
    broker.retained_gone(topic)


@clauses("MQTT5-3.3.1-10")
def test_retain_handling_1_sends_only_for_a_new_subscription(broker: Broker) -> None:
    """And again after unsubscribing."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.publish(topic, "kept", qos=1, retain=True)
    client.subscribe(topic, handling=1)
    assert client.message().payload == b"kept"
    client.subscribe(topic, handling=1)
    client.no_message()
    client.unsubscribe(topic)
    client.subscribe(topic, handling=1)
    assert client.message().payload == b"kept"
    broker.retained_gone(topic)


@clauses("MQTT5-3.3.1-10")
def test_retain_handling_1_knows_the_subscription_of_a_resumed_session(broker: Broker) -> None:
    """Subscribing again after a reconnect is not a new subscription."""
    topic, name = broker.topic(), broker.name()
    first = broker.durable(V5, name)
    first.publish(topic, "kept", qos=1, retain=True)
    first.subscribe(topic, handling=1)
    first.message()
    first.disconnect()
    again = broker.resumed(V5, name)
    again.subscribe(topic, handling=1)
    again.no_message()
    broker.retained_gone(topic)


@clauses("MQTT5-3.3.1-9", "MQTT5-3.8.4-5")
@pytest.mark.parametrize("second", [1, 2])
def test_filters_of_one_subscribe_are_asked_one_after_the_other(broker: Broker, second: int) -> None:
    """The first one asks for what is kept; that the second one, for the same filter, does not, takes nothing back."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.publish(topic, "kept", qos=1, retain=True)
    assert client.subscribe((topic, 0), (topic, second << 4 | 1)) == (0, 1)
    assert client.message().payload == b"kept"
    client.no_message()
    broker.retained_gone(topic)


@clauses("MQTT5-3.8.4-5")
def test_the_same_filter_twice_in_one_subscribe_brings_what_is_kept_once(broker: Broker) -> None:
    """Each of the two asks for it, and one answer is for both."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.publish(topic, "kept", qos=1, retain=True)
    client.subscribe((topic, 0), (topic, 1))
    assert client.message().payload == b"kept"
    client.unsubscribe(topic)
    broker.retained_gone(topic)


@clauses("MQTT5-3.3.1-11")
def test_retain_handling_2_sends_nothing(broker: Broker) -> None:
    """Only what is published from now on."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.publish(topic, "kept", qos=1, retain=True)
    client.subscribe(topic, handling=2)
    client.no_message()
    client.publish(topic, "live")
    assert client.message().payload == b"live"
    broker.retained_gone(topic)


@clauses("MQTT3-3.8.4-3", "MQTT5-3.8.4-4")
def test_subscribing_again_sends_retained_messages_again_in_version_3_1_1(broker: Broker) -> None:
    """There is no retain handling before version 5."""
    topic = broker.topic()
    client = broker.connect(V311)
    client.publish(topic, "kept", qos=1, retain=True)
    for _ in range(2):
        client.subscribe(topic)
        assert client.message().payload == b"kept"
    broker.retained_gone(topic)


@clauses("MQTT3-3.3.1-6", "MQTT5-3.3.1-9")
@both
@pytest.mark.parametrize("tail", ["#", "+", "+/c", "b/#"])
def test_wildcards_find_every_retained_message_that_they_match(broker: Broker, version: int, tail: str) -> None:
    """One message for each topic that matches."""
    base = broker.topic()
    topics = [base, f"{base}/a", f"{base}/b", f"{base}/b/c", f"{base}/d/c", f"{base}/d/e"]
    expected = {
        "#": set(topics),
        "+": {f"{base}/a", f"{base}/b"},
        "+/c": {f"{base}/b/c", f"{base}/d/c"},
        "b/#": {f"{base}/b", f"{base}/b/c"},
    }[tail]
    client = broker.connect(version)
    for topic in topics:
        client.publish(topic, "kept", qos=1, retain=True)
    client.subscribe(f"{base}/{tail}", qos=1)
    got = [packet.topic for packet in client.messages(len(expected))]
    assert sorted(got) == sorted(expected)
    client.no_message(0.1)
    broker.retained_gone(*topics)


@both
def test_many_retained_messages_arrive_through_a_small_window(broker: Broker, version: int) -> None:
    """Two hundred, acknowledged one by one."""
    base = broker.topic()
    writer = broker.connect(version)
    for number in range(200):
        writer.publish(f"{base}/{number}", "kept", qos=1, retain=True)
    reader = broker.connect(version, receive_maximum=4 if version == 5 else None)
    reader.subscribe(f"{base}/#", qos=1)
    assert len({packet.topic for packet in reader.messages(200)}) == 200
    broker.retained_gone(*(f"{base}/{number}" for number in range(200)))


@clauses("MQTT5-3.3.2-5", "MQTT5-3.3.2-6")
def test_a_retained_message_expires(broker: Broker) -> None:
    """Before its expiry with the time that is left, after it not at all."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.publish(topic, "short", qos=1, retain=True, message_expiry_interval=3)
    time.sleep(1.1)
    client.subscribe(topic)
    assert client.message().properties["message_expiry_interval"] in (1, 2)
    time.sleep(2.4)
    late = broker.connect(V5)
    late.subscribe(topic)
    late.no_message()


@clauses("MQTT5-3.3.2-4", "MQTT5-3.3.2-15", "MQTT5-3.3.2-16", "MQTT5-3.3.2-17", "MQTT5-3.3.2-18", "MQTT5-3.3.2-20")
def test_a_retained_message_keeps_its_properties(broker: Broker) -> None:
    """All that describe the message, and none of the publisher's hop."""
    topic = broker.topic()
    given = {
        "payload_format_indicator": 1,
        "content_type": "text/plain",
        "response_topic": "answers/here",
        "correlation_data": b"\0\xff",
        "user_property": [("b", "2"), ("a", "1"), ("b", "3")],
    }
    client = broker.connect(V5)
    client.publish(topic, "kept", qos=1, retain=True, topic_alias=1, **given)
    client.subscribe(topic, identifier=8)
    assert client.message().properties == given | {"subscription_identifier": [8]}
    broker.retained_gone(topic)


@clauses("MQTT5-3.3.1-9")
def test_a_shared_subscription_gets_no_retained_messages(broker: Broker) -> None:
    """Section 4.8.2: they are not sent when a shared subscription is made."""
    topic = broker.topic()
    client = broker.connect(V5)
    client.publish(topic, "kept", qos=1, retain=True)
    client.subscribe(f"$share/{broker.name()}/{topic}")
    client.no_message()
    broker.retained_gone(topic)


@clauses("MQTT5-3.2.2-14", "MQTT5-3.2.2-13")
@pytest.mark.variant("no_retain")
def test_retain_not_available_is_announced(broker: Broker) -> None:
    """Retain Available 0."""
    assert broker.connect(V5).connack.properties.get("retain_available") == 0


@both
def test_a_retained_message_for_a_dollar_topic_is_hidden_from_wildcards(broker: Broker, version: int) -> None:
    """Retained messages follow the rule of section 4.7.2 as well."""
    topic = "$" + broker.topic()
    client = broker.connect(version)
    client.publish(topic, "kept", qos=1, retain=True)
    client.send(packets.subscribe(version, 77, [("+/" + topic.split("/", 1)[1], 0)]))
    client.expect(packets.SUBACK)
    client.no_message()
    broker.retained_gone(topic)
