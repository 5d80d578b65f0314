"""Two connections with one client id: the newcomer wins, and the session goes on without a gap."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Connack, PacketType
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import OF_SESSIONS, V5, V311, Node, subscribe

VERSIONS = pytest.mark.parametrize("version", [V311, V5], ids=["v3.1.1", "v5"])


@VERSIONS
def test_the_old_connection_is_told_and_closed(version: ProtocolVersion) -> None:
    """[MQTT-3.1.4-3] DISCONNECT 0x8E in version 5, silence before; nobody else notices."""
    node = Node()
    other = node.connect("other", version)
    old = node.connect("c", version)
    new = node.connect("c", version)
    assert old.farewell is (ReasonCode.SESSION_TAKEN_OVER if version is V5 else None)
    assert old.closed
    assert not new.closed
    assert not other.closed
    assert node.counters.disconnects == {"session_taken_over": 1}
    assert node.broker.clients.connections.clients == 2


@VERSIONS
@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_in_flight_goes_on_with_the_newcomer(version: ProtocolVersion, qos: int) -> None:
    """[MQTT-4.4.0-1] With DUP and the same ids; what comes later follows."""
    node = Node()
    old = node.connect("c", version, clean=False, expiry=60 if version is V5 else None)
    old.subscribe("t", qos=qos)
    writer = node.connect("writer")
    writer.publish("t", b"1", b"2", qos=qos)
    assert old.payloads() == [b"1", b"2"]
    new = node.connect("c", version, clean=False, expiry=60 if version is V5 else None)
    assert new.connack is not None
    assert new.connack.session_present
    writer.publish("t", b"3", qos=qos)
    got = [(message.packet_id, message.dup, message.payload) for message in new.messages()]
    assert got == [(1, True, b"1"), (2, True, b"2"), (3, False, b"3")]


def test_an_acknowledgement_on_the_old_connection_is_too_late() -> None:
    """What it still says is not heard."""
    node = Node()
    old = node.connect("c", expiry=60)
    old.subscribe("t", qos=1)
    node.connect("writer").publish("t", b"1", qos=1)
    new = node.connect("c", clean=False, expiry=60)
    old.ack(PacketType.PUBACK, 1)
    assert node.session("c").inflight_count == 1
    assert new.drain() == [b"1"]
    assert node.session("c").inflight_count == 0


def test_a_clean_newcomer_gets_nothing_of_the_old_session() -> None:
    """[MQTT-3.1.2-4] Nothing is left in the store either, and what waited is counted."""
    node = Node()
    old = node.connect("c", clean=False, expiry=60, receive_maximum=1)
    old.subscribe("t", qos=1)
    node.connect("writer").publish("t", b"1", b"2", qos=1)
    new = node.connect("c")
    assert new.connack is not None
    assert not new.connack.session_present
    assert new.messages() == []
    assert node.records(*OF_SESSIONS) == 0
    assert node.dropped() == {"session_ended": 2}


@pytest.mark.parametrize("qos", [1, 2])
def test_while_the_commit_of_a_message_is_held(qos: int) -> None:
    """It was never sent, so it comes without DUP, once, and only when it is safe."""
    node = Node()
    old = node.connect("c", clean=False, expiry=60)
    old.subscribe("t", qos=qos)
    writer = node.connect("writer")
    node.hold()
    writer.publish("t", b"1", qos=qos)
    new = node.connect("c", clean=False, expiry=60)
    assert old.farewell is ReasonCode.SESSION_TAKEN_OVER
    assert new.connack is None
    assert new.take_all() == []
    node.release()
    assert [type(packet) for packet in new.take_all()[:1]] == [Connack]
    node.advance(0)
    assert old.messages() == []
    assert node.session("c").inflight_count == 1
    assert len(writer.acks(PacketType.PUBACK if qos == 1 else PacketType.PUBREC)) == 1


def test_a_message_under_commit_comes_to_the_newcomer_once() -> None:
    """After CONNACK, first sent, no DUP."""
    node = Node()
    old = node.connect("c", clean=False, expiry=60)
    old.subscribe("t", qos=1)
    node.hold()
    node.connect("writer").publish("t", b"1", qos=1)
    new = node.connect("c", clean=False, expiry=60)
    node.release()
    assert [(message.payload, message.dup) for message in new.messages()] == [(b"1", False)]
    assert old.messages() == []


def test_answers_that_the_old_connection_waited_for_do_not_come_to_the_new_one() -> None:
    """The newcomer repeats, and its Receive Maximum begins anew."""
    node = Node()
    node.connect("reader", clean=False, expiry=60).subscribe("t", qos=2)
    old = node.connect("c", clean=False, expiry=60)
    node.hold()
    old.publish("t", b"1", qos=1, packet_id=1)
    old.publish("t", b"2", qos=2, packet_id=2)
    new = node.connect("c", clean=False, expiry=60)
    node.release()
    assert [type(packet) for packet in new.take_all()] == [Connack]
    assert old.acks(PacketType.PUBACK) == []
    assert node.session("c").inbound.unacknowledged == 0
    assert len(new.publish("t", b"2", qos=2, packet_id=2, dup=True)) == 1
    new.ack(PacketType.PUBREL, 2)
    assert node.connect("reader", clean=False, expiry=60).drain() == [b"1", b"2"]


def test_a_newcomer_that_is_itself_taken_over_before_its_connack() -> None:
    """Three connections while the disk hangs: the last one gets the session."""
    node = Node()
    node.hold()
    clients = [node.connect("c", clean=False, expiry=60) for _ in range(3)]
    node.release()
    assert [client.closed for client in clients] == [True, True, False]
    last = clients[-1].take(Connack)
    assert [connack.reason for connack in last] == [ReasonCode.SUCCESS]
    refused = [connack.reason for client in clients[:2] for connack in client.take(Connack)]
    # CONNACK has no word for it: this one says that it may be tried again.
    assert refused == [ReasonCode.SERVER_UNAVAILABLE] * 2
    assert node.counters.connects_refused == {"SESSION_TAKEN_OVER": 2}
    assert node.counters.connects_accepted == 1
    assert (node.broker.clients.connections.clients, len(node.broker.sessions)) == (1, 1)


def test_a_subscribe_under_commit_is_kept_and_answered_to_nobody() -> None:
    """The session has the subscription; the newcomer may ask again."""
    node = Node()
    old = node.connect("c", clean=False, expiry=60)
    node.hold()
    old.send(subscribe(1, "t", qos=1))
    new = node.connect("c", clean=False, expiry=60)
    node.release()
    node.connect("writer").publish("t", b"x", qos=1)
    assert new.payloads() == [b"x"]


@pytest.mark.parametrize(("before", "after"), [(V5, V311), (V311, V5)], ids=["to-v3.1.1", "to-v5"])
def test_a_session_may_change_its_version(before: ProtocolVersion, after: ProtocolVersion) -> None:
    """What is repeated is written in the version of the connection."""
    node = Node()
    old = node.connect("c", before, clean=False, expiry=60 if before is V5 else None)
    old.subscribe("t", qos=1)
    node.connect("writer").publish("t", b"1", qos=1, content_type="x")
    new = node.connect("c", after, clean=False, expiry=60 if after is V5 else None)
    (message,) = new.messages()
    assert (message.dup, message.properties.content_type) == (True, "x" if after is V5 else None)
    assert node.session("c").version == after


def test_a_client_that_takes_itself_over_many_times_leaves_nothing_behind() -> None:
    """Timers, connections and records are those of one client."""
    node = Node()
    for _ in range(20):
        node.connect("c", clean=False, expiry=60).subscribe("t", qos=1)
    assert len(node.broker.clients.connections) == 1
    assert node.records(CacheName.SESSIONS, CacheName.SUBSCRIPTIONS) == 2
    node.advance(1000)
    assert node.session("c").connection is not None
