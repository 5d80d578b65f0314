"""What is repeated after a reconnect or a restart, in which order, and under which packet ids."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Ack, Packet, PacketType, Publish
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.session.outbound import MAX_PACKET_ID, SENT_QOS1
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import OF_SESSIONS, V5, V311, Client, Node

PUBACK, PUBREC, PUBREL, PUBCOMP = PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP
VERSIONS = pytest.mark.parametrize("version", [V311, V5], ids=["v3.1.1", "v5"])
#: Ways for a durable session to come back.
AGAIN = pytest.mark.parametrize("restarted", [False, True], ids=["reconnect", "restart"])


def reader_of(node: Node, version: ProtocolVersion = V5, window: int | None = None) -> Client:
    """A durable session's connection, new or again."""
    if version is V5:
        return node.connect("reader", version, clean=False, expiry=600, receive_maximum=window)
    return node.connect("reader", version, clean=False)


def again(node: Node, reader: Client, restarted: bool, window: int | None = None) -> Client:
    """The connection breaks, and the client comes back."""
    if restarted:
        node.restart()
    else:
        reader.lose()
    return reader_of(node, reader.version, window)


def seen(packets: list[Packet]) -> list[tuple[int, bool, bytes]]:
    """Id, DUP and payload of messages."""
    return [(one.packet_id, one.dup, one.payload) for one in packets if isinstance(one, Publish)]


@VERSIONS
@AGAIN
@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_sent_comes_again_in_order_with_dup(version: ProtocolVersion, restarted: bool, qos: int) -> None:
    """[MQTT-4.4.0-1] [MQTT-4.6.0-1] [MQTT-3.3.1-1] Under the same ids; what was acknowledged does not."""
    node = Node()
    reader = reader_of(node, version)
    reader.subscribe("t", qos=qos)
    node.connect("writer").publish("t", b"1", b"2", b"3", b"4", qos=qos)
    reader.ack(PUBACK if qos == 1 else PUBREC, 2)
    reader.ack(PUBCOMP, *([2] if qos == 2 else []))
    reader = again(node, reader, restarted)
    assert seen(reader.take_all()) == [(1, True, b"1"), (3, True, b"3"), (4, True, b"4")]


def test_nothing_is_repeated_while_the_connection_lives() -> None:
    """[MQTT-4.4.0-1] However long the client is silent, and whatever else it does."""
    node = Node()
    reader = reader_of(node)
    reader.subscribe("t", qos=2)
    node.connect("writer").publish("t", b"1", b"2", qos=2)
    assert len(reader.take_all()) == 2
    reader.ack(PUBREC, 1)
    assert [packet.type for packet in reader.take_all()] == [PUBREL]
    node.advance(1000)
    reader.subscribe("t", qos=1)
    reader.publish("other", b"", qos=1)
    assert reader.take_all() == []


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_that_waited_behind_the_window_is_no_repetition(qos: int) -> None:
    """DUP is for what left once; the others come first-time, later."""
    node = Node()
    reader = reader_of(node, window=2)
    reader.subscribe("t", qos=qos)
    node.connect("writer").publish("t", b"1", b"2", b"3", b"4", qos=qos)
    reader.lose()
    reader = reader_of(node)
    assert seen(reader.take_all()) == [(1, True, b"1"), (2, True, b"2"), (3, False, b"3"), (4, False, b"4")]


@AGAIN
def test_a_smaller_window_takes_the_repetitions_bit_by_bit(restarted: bool) -> None:
    """[MQTT-3.3.4-9] The Receive Maximum of the new connection counts, also for what was sent on the old one."""
    node = Node()
    reader = reader_of(node, window=10)
    reader.subscribe("t", qos=1)
    node.connect("writer").publish("t", *(b"%d" % number for number in range(6)), qos=1)
    reader = again(node, reader, restarted, window=2)
    got = []
    while messages := reader.messages():
        assert len(messages) <= 2
        got += [message.payload for message in messages]
        reader.ack(PUBACK, *(message.packet_id for message in messages))
    assert got == [b"%d" % number for number in range(6)]


#: What is there as long as the session is.
KEPT = {CacheName.SESSIONS, CacheName.SUBSCRIPTIONS, CacheName.PROGRESS}


@AGAIN
def test_an_exchange_past_pubrec_goes_on_with_pubrel(restarted: bool) -> None:
    """[MQTT-4.3.3-6] The message never comes again; PUBRELs in the order of the PUBRECs [MQTT-4.6.0-4]."""
    node = Node()
    reader = reader_of(node)
    reader.subscribe("t", qos=2)
    node.connect("writer").publish("t", b"1", b"2", b"3", b"4", qos=2)
    for packet_id in (3, 1):
        reader.ack(PUBREC, packet_id)
    reader = again(node, reader, restarted)
    came = reader.take_all()
    assert [one.packet_id for one in came if isinstance(one, Ack) and one.type is PUBREL] == [3, 1]
    assert seen(came) == [(2, True, b"2"), (4, True, b"4")]
    reader.ack(PUBCOMP, 3, 1)
    reader.ack(PUBREC, 2, 4)
    reader.ack(PUBCOMP, 2, 4)
    assert node.records(*(set(OF_SESSIONS) - KEPT)) == 0
    assert node.waiting == 0


@pytest.mark.parametrize("written", [False, True], ids=["lost", "written"])
def test_a_crash_while_pubrec_is_noted_repeats_the_same_exchange(written: bool) -> None:
    """Either the message under its old id with DUP, or its PUBREL: never a second message."""
    node = Node()
    reader = reader_of(node)
    reader.subscribe("t", qos=2)
    node.connect("writer").publish("t", b"1", qos=2)
    node.hold()
    reader.ack(PUBREC, 1)
    node.restart(written=written)
    came = reader_of(node).take_all()
    assert seen(came) == ([] if written else [(1, True, b"1")])
    assert [one.packet_id for one in came if isinstance(one, Ack)] == ([1] if written else [])


def test_a_message_under_commit_when_the_connection_breaks_comes_as_new() -> None:
    """It never left."""
    node = Node()
    reader = reader_of(node)
    reader.subscribe("t", qos=1)
    node.hold()
    node.connect("writer").publish("t", b"1", qos=1)
    reader.lose()
    node.release()
    assert seen(reader_of(node).take_all()) == [(1, False, b"1")]


@AGAIN
def test_the_receiving_half_of_qos_2_survives(restarted: bool) -> None:
    """[MQTT-4.3.3-10] A repeated PUBLISH is acknowledged and not passed on; after PUBREL the id is new."""
    node = Node()
    reader = reader_of(node)
    reader.subscribe("t", qos=2)
    writer = node.connect("writer", clean=False, expiry=600)
    writer.publish("t", b"1", qos=2, packet_id=7)
    if restarted:
        node.restart()
    else:
        writer.lose()
    writer = node.connect("writer", clean=False, expiry=600)
    assert len(writer.publish("t", b"1", qos=2, packet_id=7, dup=True)) == 1
    writer.ack(PUBREL, 7)
    assert [packet.type for packet in writer.take_all()] == [PUBCOMP]
    writer.publish("t", b"2", qos=2, packet_id=7)
    assert reader_of(node).drain() == [b"1", b"2"]


@pytest.mark.parametrize("durable", [False, True], ids=["clean", "durable"])
@pytest.mark.parametrize("qos", [1, 2])
def test_packet_ids_wrap_and_step_over_what_is_in_flight(qos: int, durable: bool) -> None:
    """[MQTT-2.2.1-3] [MQTT-2.2.1-4] 65,535 is followed by 1, never by 0, and a taken id is not issued twice."""
    node = Node()
    reader = node.connect("reader", clean=False, expiry=600 if durable else None)
    reader.subscribe("t", qos=qos)
    writer = node.connect("writer")
    writer.publish("t", b"first", b"second", qos=qos)
    assert [message.packet_id for message in reader.messages()] == [1, 2]
    reader.ack(PUBACK if qos == 1 else PUBREC, 1)
    reader.ack(PUBCOMP, *([1] if qos == 2 else []))
    outbound = node.session("reader").outbound
    # As if 65,532 messages had come and gone: ids go up one by one.
    outbound.last = MAX_PACKET_ID - 1
    reader.take_all()
    writer.publish("t", *(b"%d" % number for number in range(5)), qos=qos)
    assert [message.packet_id for message in reader.messages()] == [MAX_PACKET_ID, 1, 3, 4, 5]


def test_an_id_in_its_second_half_is_not_issued() -> None:
    """[MQTT-2.2.1-4] Until PUBCOMP it is in use."""
    node = Node(MqttSettings(max_inflight=2))
    reader = reader_of(node)
    reader.subscribe("t", qos=2)
    writer = node.connect("writer")
    writer.publish("t", b"1", qos=2)
    reader.ack(PUBREC, 1)
    node.session("reader").outbound.last = 0
    writer.publish("t", b"2", qos=2)
    assert [message.packet_id for message in reader.messages()] == [1, 2]


def test_ids_go_on_behind_those_of_the_life_before() -> None:
    """A restart does not begin with 1 again while 1 is in flight."""
    node = Node()
    reader = reader_of(node)
    reader.subscribe("t", qos=1)
    node.connect("writer").publish("t", b"1", b"2", b"3", qos=1)
    reader.ack(PUBACK, 2)
    node.restart()
    node.connect("writer").publish("t", b"4", qos=1)
    assert seen(reader_of(node).take_all()) == [(1, True, b"1"), (3, True, b"3"), (4, False, b"4")]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_queued_message_keeps_the_id_it_got_last(qos: int) -> None:
    """It was queued without an id, sent, and is repeated under that id after a restart."""
    node = Node()
    reader_of(node).subscribe("t", qos=qos)
    node.clients[-1].lose()
    node.connect("writer").publish("t", b"1", b"2", qos=qos)
    first = seen(reader_of(node).take_all())
    assert first == [(1, False, b"1"), (2, False, b"2")]
    node.restart()
    reader = reader_of(node)
    assert seen(reader.read()) == [(1, True, b"1"), (2, True, b"2")]
    assert reader.drain() == [b"1", b"2"]
    assert node.records(CacheName.QUEUE, CacheName.DUP, CacheName.PUBREL) == 0


def test_acknowledgements_in_front_of_a_wrong_one_count() -> None:
    """PUBREC for a QoS 1 message ends the connection; the QoS 2 message before it has arrived all the same."""
    node = Node()
    reader = reader_of(node)
    reader.subscribe("two", qos=2)
    reader.subscribe("one", qos=1)
    writer = node.connect("writer")
    writer.publish("two", b"2", qos=2)
    writer.publish("one", b"1", qos=1)
    reader.send(Ack(PUBREC, 1), Ack(PUBREC, 2))
    assert reader.farewell is ReasonCode.PROTOCOL_ERROR
    assert node.counters.messages_delivered == 1
    node.restart()
    came = reader_of(node).take_all()
    assert [one.packet_id for one in came if isinstance(one, Ack)] == [1]
    assert seen(came) == [(2, True, b"1")]


def test_a_session_that_ends_with_its_connection_repeats_nothing() -> None:
    """Nor does it keep anything for that: markers instead of messages."""
    node = Node()
    reader = node.connect("reader")
    reader.subscribe("t", qos=1)
    node.connect("writer").publish("t", b"1", b"2", qos=1)
    assert list(node.session("reader").outbound.entries.values()) == [SENT_QOS1, SENT_QOS1]
    reader.lose()
    reader = node.connect("reader", clean=False)
    assert reader.connack is not None
    assert not reader.connack.session_present
    assert reader.take_all() == []
    assert node.dropped() == {"session_ended": 2}
