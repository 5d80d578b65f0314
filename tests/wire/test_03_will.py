"""Wills: when they are published, with what, and when not."""

from __future__ import annotations

import time

import pytest

from . import packets
from .clauses import clauses
from .conftest import Broker
from .packets import V5, V31, V311, Will
from .versions import any_qos, both, every


@clauses("MQTT3-3.1.2-8", "MQTT5-3.1.2-7", "MQTT5-3.1.2-8", "MQTT3-3.1.2-9", "MQTT3-3.1.2-16", "MQTT5-3.1.2-14")
@every
@any_qos
def test_a_lost_connection_publishes_the_will(broker: Broker, version: int, qos: int) -> None:
    """With its topic, payload and QoS, not retained."""
    topic = broker.topic()
    watcher = broker.connect(version)
    watcher.subscribe(topic, qos=2)
    broker.connect(version, will=Will(topic, b"gone", qos)).drop()
    will = watcher.message()
    assert (will.topic, will.payload, will.qos, will.retain) == (topic, b"gone", qos, False)


@clauses("MQTT3-3.14.4-3", "MQTT5-3.14.4-3", "MQTT3-3.1.2-10", "MQTT5-3.1.2-10", "MQTT5-3.1.2-8", "MQTT3-3.1.2-8")
@every
def test_disconnect_removes_the_will(broker: Broker, version: int) -> None:
    """A client that says goodbye is not announced as gone."""
    topic = broker.topic()
    watcher = broker.connect(version)
    watcher.subscribe(topic)
    broker.connect(version, will=Will(topic)).disconnect()
    watcher.no_message(0.3)


@clauses("MQTT5-3.1.2-8", "MQTT5-3.14.4-3")
def test_disconnect_with_will_message_publishes_it(broker: Broker) -> None:
    """Reason 0x04 of DISCONNECT asks for the will."""
    topic = broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.connect(V5, will=Will(topic)).disconnect(0x04)
    assert watcher.message().payload == b"gone"


@clauses("MQTT5-3.14.4-3")
def test_disconnect_with_an_error_publishes_the_will(broker: Broker) -> None:
    """Only reason 0x00 removes it."""
    topic = broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.connect(V5, will=Will(topic)).disconnect(0x80)
    assert watcher.message().payload == b"gone"


@clauses("MQTT3-3.1.2-17", "MQTT5-3.1.2-15")
@both
def test_a_retained_will_is_retained(broker: Broker, version: int) -> None:
    """Will retain 1 makes it the retained message of its topic."""
    topic = broker.topic()
    watcher = broker.connect(version)
    watcher.subscribe(topic)
    broker.connect(version, will=Will(topic, b"last", 1, retain=True)).drop()
    assert watcher.message().payload == b"last"
    late = broker.connect(version)
    late.subscribe(topic)
    found = late.message()
    assert (found.payload, found.retain) == (b"last", True)
    broker.retained_gone(topic)


@clauses("MQTT3-3.1.2-16", "MQTT5-3.1.2-14")
@both
def test_a_will_that_is_not_retained_is_not_kept(broker: Broker, version: int) -> None:
    """A later subscriber does not see it."""
    topic = broker.topic()
    watcher = broker.connect(version)
    watcher.subscribe(topic)
    broker.connect(version, will=Will(topic)).drop()
    watcher.message()
    late = broker.connect(version)
    late.subscribe(topic)
    late.no_message()


@clauses("MQTT3-3.1.2-12", "MQTT5-3.1.2-7")
@both
def test_no_will_is_published_without_one(broker: Broker, version: int) -> None:
    """A will belongs to one connection: that of an earlier connection is not remembered."""
    name, topic = broker.name(), broker.topic()
    watcher = broker.connect(version)
    watcher.subscribe(topic)
    broker.durable(version, name, will=Will(topic)).disconnect()
    broker.durable(version, name).drop()
    watcher.no_message(0.3)


@clauses("MQTT3-3.1.2-10", "MQTT5-3.1.2-10")
@both
def test_a_will_is_published_once(broker: Broker, version: int) -> None:
    """Publishing it removes it from the session."""
    name, topic = broker.name(), broker.topic()
    watcher = broker.connect(version)
    watcher.subscribe(topic)
    broker.durable(version, name, will=Will(topic)).drop()
    watcher.message()
    broker.durable(version, name).drop()
    watcher.no_message(0.3)


@clauses("MQTT3-3.1.2-8", "MQTT5-3.1.2-8", "MQTT3-3.1.2-24", "MQTT5-3.1.2-22")
def test_a_keep_alive_that_runs_out_publishes_the_will(broker: Broker) -> None:
    """Silence for one and a half times the keep alive is a lost connection, in every version."""
    topic = broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(f"{topic}/+")
    for version in (V31, V311, V5):
        broker.connect(version, keep_alive=1, will=Will(f"{topic}/{version}"))
    got = [watcher.message(timeout=8).topic for _ in range(3)]
    assert sorted(got) == [f"{topic}/{version}" for version in (V31, V311, V5)]


@clauses("MQTT3-3.1.2-8", "MQTT5-3.1.2-8")
@both
def test_a_protocol_error_publishes_the_will(broker: Broker, version: int) -> None:
    """A connection that the server closes for an error counts as lost."""
    topic = broker.topic()
    watcher = broker.connect(version)
    watcher.subscribe(topic)
    bad = broker.connect(version, will=Will(topic))
    bad.send(b"\x36\x05\x00\x01a\x00\x01")
    bad.closed()
    assert watcher.message().payload == b"gone"


@clauses("MQTT3-3.1.2-8", "MQTT5-3.1.2-8", "MQTT3-3.1.4-2", "MQTT5-3.1.4-3")
@both
def test_a_take_over_with_a_clean_start_publishes_the_will(broker: Broker, version: int) -> None:
    """The old connection was closed by the server and its session has ended."""
    name, topic = broker.name(), broker.topic()
    watcher = broker.connect(version)
    watcher.subscribe(topic)
    broker.connect(version, name, will=Will(topic))
    broker.connect(version, name)
    assert watcher.message().payload == b"gone"


@clauses("MQTT5-3.1.2-8", "MQTT5-3.1.4-3")
def test_a_take_over_publishes_a_will_without_delay(broker: Broker) -> None:
    """Will delay 0 leaves no time for the new connection to cancel it."""
    name, topic = broker.name(), broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.durable(V5, name, will=Will(topic))
    broker.durable(V5, name)
    assert watcher.message().payload == b"gone"


@clauses("MQTT5-3.1.3-9")
def test_a_take_over_within_the_will_delay_cancels_the_will(broker: Broker) -> None:
    """The new connection continues the session before the delay has passed."""
    name, topic = broker.name(), broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.durable(V5, name, will=Will(topic, properties={"will_delay_interval": 1}))
    broker.durable(V5, name)
    watcher.no_message(1.5)


@clauses("MQTT5-3.1.3-9")
def test_a_reconnect_within_the_will_delay_cancels_the_will(broker: Broker) -> None:
    """The same after a lost connection."""
    name, topic = broker.name(), broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.durable(V5, name, will=Will(topic, properties={"will_delay_interval": 1})).drop()
    broker.durable(V5, name)
    watcher.no_message(1.5)


@clauses("MQTT5-3.1.2-8")
def test_a_will_waits_for_its_delay(broker: Broker) -> None:
    """Published when the delay has passed, not before."""
    topic = broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.durable(V5, broker.name(), will=Will(topic, properties={"will_delay_interval": 2})).drop()
    start = time.monotonic()
    assert watcher.message(timeout=8).payload == b"gone"
    assert time.monotonic() - start > 0.9


@clauses("MQTT5-3.1.2-8")
def test_the_end_of_the_session_cuts_the_will_delay_short(broker: Broker) -> None:
    """Delay or end of session, whichever comes first; without an expiry that is the close."""
    topic = broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.connect(V5, will=Will(topic, properties={"will_delay_interval": 60})).drop()
    assert watcher.message().payload == b"gone"


@clauses("MQTT5-3.1.2-8")
def test_the_session_expiry_cuts_the_will_delay_short(broker: Broker) -> None:
    """An expiry of one second publishes a will with a delay of a minute."""
    topic = broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.connect(V5, clean=False, expiry=1, will=Will(topic, properties={"will_delay_interval": 60})).drop()
    assert watcher.message(timeout=8).payload == b"gone"


@clauses("MQTT5-3.1.2-8", "MQTT5-3.1.2-4")
def test_a_clean_start_ends_the_session_and_publishes_the_delayed_will(broker: Broker) -> None:
    """The session ended before the delay passed."""
    name, topic = broker.name(), broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.durable(V5, name, will=Will(topic, properties={"will_delay_interval": 60})).drop()
    broker.connect(V5, name, clean=True)
    assert watcher.message().payload == b"gone"


@clauses("MQTT5-3.1.3-10", "MQTT5-3.3.2-18", "MQTT5-3.3.2-4", "MQTT5-3.3.2-15", "MQTT5-3.3.2-16", "MQTT5-3.3.2-20")
def test_the_properties_of_a_will_go_with_it(broker: Broker) -> None:
    """User properties in order, format, content type, response topic, correlation data; the delay stays."""
    topic = broker.topic()
    given = {
        "payload_format_indicator": 1,
        "content_type": "text/plain",
        "response_topic": "answers/here",
        "correlation_data": b"\0\xff",
        "user_property": [("b", "2"), ("a", "1"), ("b", "3")],
    }
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.connect(V5, will=Will(topic, properties=given | {"will_delay_interval": 0})).drop()
    assert watcher.message().properties == given


@clauses("MQTT5-3.3.2-6")
def test_the_expiry_of_a_will_counts_from_its_publication(broker: Broker) -> None:
    """A will with a message expiry arrives with it."""
    topic = broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    broker.connect(V5, will=Will(topic, properties={"message_expiry_interval": 30})).drop()
    assert watcher.message().properties["message_expiry_interval"] in (29, 30)


@both
def test_a_will_with_an_empty_payload_is_published(broker: Broker, version: int) -> None:
    """A zero-length will is a message like any other."""
    topic = broker.topic()
    watcher = broker.connect(version)
    watcher.subscribe(topic)
    broker.connect(version, will=Will(topic, b"")).drop()
    assert watcher.message().payload == b""


@clauses("MQTT5-3.2.2-12")
@pytest.mark.variant("max_qos_1")
def test_a_will_above_the_maximum_qos_is_refused(broker: Broker) -> None:
    """CONNACK 0x9B and a close."""
    client = broker.open(V5)
    assert client.connect(will=Will(broker.topic(), b"", 2)).reason == 0x9B
    assert client.closed() == []


@clauses("MQTT5-3.2.2-13")
@pytest.mark.variant("no_retain")
def test_a_retained_will_is_refused_where_retain_is_not_available(broker: Broker) -> None:
    """CONNACK 0x9A and a close."""
    client = broker.open(V5)
    assert client.connect(will=Will(broker.topic(), b"", 0, retain=True)).reason == 0x9A
    assert client.closed() == []


@clauses("MQTT3-3.1.2-8")
@pytest.mark.parametrize(("publisher", "reader"), [(V31, V5), (V5, V31), (V311, V5), (V5, V311)])
def test_a_will_crosses_versions(broker: Broker, publisher: int, reader: int) -> None:
    """A will of one version reaches subscribers of another."""
    topic = broker.topic()
    watcher = broker.connect(reader)
    watcher.subscribe(topic, qos=1)
    broker.connect(publisher, will=Will(topic, b"gone", 1)).drop()
    assert watcher.message().payload == b"gone"


@clauses("MQTT5-3.2.2-7")
def test_a_refused_connect_leaves_no_will(broker: Broker) -> None:
    """The will is stored when the connection is accepted, not before."""
    topic = broker.topic()
    watcher = broker.connect(V5)
    watcher.subscribe(topic)
    client = broker.open(V5)
    client.send(packets.connect(V5, client.client_id, will=Will(topic), authentication_method="no such method"))
    client.closed()
    watcher.no_message(0.3)
