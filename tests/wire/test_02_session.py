"""Sessions: present or not, kept or discarded, expiry, take-over."""

from __future__ import annotations

import time

import pytest

from . import packets
from .clauses import clauses
from .client import Transport
from .conftest import Broker
from .packets import DISCONNECT, V5, V31, V311
from .versions import acknowledged, both, every


@clauses("MQTT3-3.2.2-3", "MQTT5-3.2.2-3", "MQTT3-3.1.2-4", "MQTT5-3.1.2-6", "MQTT3-3.1.4-3", "MQTT5-3.1.4-4")
@both
def test_a_first_connect_that_would_resume_finds_no_session(broker: Broker, version: int) -> None:
    """Session present is 0 where there was no session."""
    assert not broker.durable(version, broker.name()).connack.session_present


@clauses(
    "MQTT3-3.2.2-2",
    "MQTT5-3.2.2-3",
    "MQTT3-3.1.2-4",
    "MQTT5-3.1.2-5",
    "MQTT5-3.1.2-23",
    "MQTT3-3.1.3-2",
    "MQTT5-3.1.3-2",
    "MQTT3-4.1.0-1",
)
@both
@pytest.mark.parametrize("ending", ["disconnect", "drop"])
def test_a_kept_session_is_found_again_with_its_subscriptions(broker: Broker, version: int, ending: str) -> None:
    """After DISCONNECT and after a lost connection alike."""
    name, topic = broker.name(), broker.topic()
    first = broker.durable(version, name)
    first.subscribe(topic, qos=1)
    getattr(first, ending)()
    again = broker.resumed(version, name)
    assert again.connack.session_present
    again.publish(topic, "still there", qos=1)
    assert again.message().payload == b"still there"


def test_mqtt_3_1_has_no_session_present(broker: Broker) -> None:
    """Its CONNACK begins with a reserved byte, which is 0 also where a session is found again, live or left."""
    name = broker.name()
    connect = packets.connect(V31, name, clean=False)
    for ending in ("drop", "taken over", "found"):
        transport = Transport(broker.running.host, broker.running.port, broker.deadline)
        transport.send(connect)
        answer = transport.receive(broker.deadline)
        assert answer == b"\x20\x02\x00\x00", f"{ending}: reserved byte set: {answer!r}"
        if ending == "drop":
            transport.close()
    assert broker.connect(V311, name, clean=False).connack.session_present


@clauses("MQTT3-3.2.2-2", "MQTT3-3.1.2-4")
def test_a_session_is_kept_only_where_it_was_asked_for(broker: Broker) -> None:
    """Clean session 1 leaves nothing behind."""
    name, topic = broker.name(), broker.topic()
    first = broker.connect(V311, name, clean=True)
    first.subscribe(topic, qos=1)
    first.disconnect()
    again = broker.connect(V311, name, clean=False)
    assert not again.connack.session_present
    again.publish(topic, "x", qos=1)
    again.no_message()


@clauses("MQTT3-3.1.2-6", "MQTT5-3.1.2-4", "MQTT3-3.2.2-1", "MQTT5-3.2.2-2", "MQTT3-3.1.4-3", "MQTT5-3.1.4-4")
@both
def test_a_clean_start_discards_the_session(broker: Broker, version: int) -> None:
    """Subscriptions and waiting messages go; session present is 0."""
    name, topic = broker.name(), broker.topic()
    first = broker.durable(version, name)
    first.subscribe(topic, qos=1)
    first.disconnect()
    broker.connect(version).publish(topic, "waiting", qos=1)
    clean = broker.connect(version, name, clean=True)
    assert not clean.connack.session_present
    clean.publish(topic, "x", qos=1)
    clean.no_message()


@clauses("MQTT3-3.1.2-5", "MQTT3-4.5.0-1", "MQTT5-4.5.0-1")
@both
@acknowledged
def test_messages_for_an_absent_session_wait_for_it(broker: Broker, version: int, qos: int) -> None:
    """QoS 1 and 2 messages that came in the meantime are delivered at the next connect, in order."""
    name, topic = broker.name(), broker.topic()
    first = broker.durable(version, name)
    first.subscribe(topic, qos=qos)
    first.disconnect()
    publisher = broker.connect(version)
    for number in range(5):
        publisher.publish(topic, str(number), qos=qos)
    again = broker.resumed(version, name)
    got = again.messages(5)
    assert [message.payload for message in got] == [b"0", b"1", b"2", b"3", b"4"]
    assert [message.qos for message in got] == [qos] * 5
    assert not any(message.dup for message in got)


@clauses("MQTT5-4.1.0-2", "MQTT5-3.1.2-23")
def test_a_session_without_expiry_ends_with_its_connection(broker: Broker) -> None:
    """Session expiry 0, and its absence, end the session at once even with clean start 0."""
    name = broker.name()
    broker.connect(V5, name, clean=False).disconnect()
    assert not broker.connect(V5, name, clean=False).connack.session_present


@clauses("MQTT5-4.1.0-2")
def test_a_session_ends_when_its_expiry_has_passed(broker: Broker) -> None:
    """One second, and no sooner than that."""
    name = broker.name()
    broker.connect(V5, name, clean=False, expiry=1).disconnect()
    time.sleep(2.5)
    assert not broker.connect(V5, name, clean=False).connack.session_present


@clauses("MQTT5-3.1.2-23", "MQTT5-4.1.0-1")
def test_a_session_is_there_until_its_expiry_has_passed(broker: Broker) -> None:
    """Expiry counts from the end of the connection, not from its beginning."""
    name = broker.name()
    first = broker.connect(V5, name, clean=False, expiry=2)
    time.sleep(1.2)
    first.ping()
    time.sleep(1.2)
    first.disconnect()
    assert broker.connect(V5, name, clean=False, expiry=0).connack.session_present


@clauses("MQTT5-3.1.2-23")
def test_disconnect_can_shorten_the_expiry(broker: Broker) -> None:
    """Session expiry 0 at DISCONNECT ends the session."""
    name = broker.name()
    broker.durable(V5, name).disconnect(0, session_expiry_interval=0)
    assert not broker.connect(V5, name, clean=False).connack.session_present


@clauses("MQTT5-3.1.2-23")
def test_disconnect_can_lengthen_the_expiry(broker: Broker) -> None:
    """The session outlives the expiry given at CONNECT."""
    name = broker.name()
    broker.connect(V5, name, clean=False, expiry=1).disconnect(0, session_expiry_interval=60)
    time.sleep(1.8)
    assert broker.connect(V5, name, clean=False, expiry=0).connack.session_present


@clauses("MQTT5-3.1.2-23")
def test_a_new_connect_sets_the_expiry_anew(broker: Broker) -> None:
    """Resuming without an expiry makes the session end with that connection."""
    name = broker.name()
    broker.durable(V5, name).disconnect()
    broker.connect(V5, name, clean=False).disconnect()
    assert not broker.connect(V5, name, clean=False).connack.session_present


@clauses("MQTT3-3.1.4-2", "MQTT5-3.1.4-3")
@every
def test_a_second_connection_takes_the_client_id_over(broker: Broker, version: int) -> None:
    """The older connection is closed, in version 5 after DISCONNECT 0x8E; the newer one works."""
    name = broker.name()
    old = broker.connect(version, name)
    new = broker.connect(version, name)
    broker.refused(old, 0x8E)
    new.ping()


@clauses("MQTT3-3.1.4-2", "MQTT5-3.1.4-3")
def test_a_take_over_works_across_versions(broker: Broker) -> None:
    """A 3.1.1 client displaces a v5 client of the same id, and hears of its session."""
    name = broker.name()
    old = broker.durable(V5, name)
    new = broker.connect(V311, name, clean=False)
    broker.refused(old, 0x8E)
    assert new.connack.session_present
    new.ping()


@clauses("MQTT3-3.1.4-2", "MQTT5-3.1.4-3", "MQTT5-3.1.2-5", "MQTT3-4.1.0-2", "MQTT5-4.1.0-1")
@both
def test_a_take_over_keeps_the_session(broker: Broker, version: int) -> None:
    """Subscriptions go over to the new connection, and no message goes to both."""
    name, topic = broker.name(), broker.topic()
    old = broker.durable(version, name)
    old.subscribe(topic, qos=1)
    new = broker.durable(version, name)
    assert new.connack.session_present
    broker.connect(version).publish(topic, "for the new one", qos=1)
    assert new.message().payload == b"for the new one"
    assert not [packet for packet in old.closed() if packet.kind == packets.PUBLISH]


@clauses("MQTT3-3.1.2-7")
@both
def test_retained_messages_outlive_the_session_of_their_publisher(broker: Broker, version: int) -> None:
    """They are no part of session state."""
    topic = broker.topic()
    publisher = broker.connect(version, clean=True)
    publisher.publish(topic, "kept", qos=1, retain=True)
    publisher.disconnect()
    reader = broker.connect(version)
    reader.subscribe(topic)
    assert reader.message().payload == b"kept"
    broker.retained_gone(topic)


@clauses("MQTT5-3.14.2-2", "MQTT5-3.14.4-2", "MQTT5-4.13.2-1", "MQTT5-3.14.2-1")
def test_a_disconnect_from_the_server_has_no_session_expiry_and_is_the_last_packet(broker: Broker) -> None:
    """A take-over shows one DISCONNECT: well formed, without session expiry, followed by the close."""
    name = broker.name()
    old = broker.durable(V5, name)
    broker.durable(V5, name)
    said = old.closed()
    assert [packet.kind for packet in said] == [DISCONNECT]
    assert "session_expiry_interval" not in said[0].properties


@clauses("MQTT5-3.1.2-23")
def test_connack_tells_the_session_expiry_only_when_it_differs(broker: Broker) -> None:
    """A server that uses the client's value need not repeat it; a smaller one must be told."""
    told = broker.connect(V5, clean=False, expiry=30).connack.properties.get("session_expiry_interval", 30)
    assert told <= 30


@clauses("MQTT3-4.1.0-1", "MQTT5-3.1.2-23")
@both
def test_a_session_remembers_qos_2_messages_that_were_not_released(broker: Broker, version: int) -> None:
    """A PUBLISH repeated after a reconnect, before its PUBREL, is not delivered twice."""
    name, topic = broker.name(), broker.topic()
    reader = broker.connect(version)
    reader.subscribe(topic, qos=2)
    first = broker.durable(version, name)
    first.send(packets.publish(version, topic, b"once", qos=2, packet_id=7))
    assert first.expect(packets.PUBREC).packet_id == 7
    first.drop()
    again = broker.resumed(version, name)
    again.send(packets.publish(version, topic, b"once", qos=2, packet_id=7, dup=True))
    assert again.expect(packets.PUBREC).reason in (0, 0x10)
    again.ack(packets.PUBREL, 7)
    again.expect(packets.PUBCOMP)
    assert reader.message().payload == b"once"
    reader.no_message()
