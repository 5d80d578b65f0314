"""Receive Maximum both ways: what a client may have unanswered, and what it gets at most."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import PacketType
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.grid import CacheName
from tests.unit.broker.harness import V311, Client, Node

EXCEEDED = ReasonCode.RECEIVE_MAXIMUM_EXCEEDED
PAYLOADS = [b"%d" % number for number in range(8)]


def busy(maximum: int = 3) -> tuple[Node, Client]:
    """A node whose disk hangs, and a durable publisher; the topic ``kept`` has a durable reader."""
    node = Node(MqttSettings(receive_maximum=maximum))
    node.connect("reader", clean=False, expiry=600).subscribe("kept", qos=2)
    writer = node.connect("writer", clean=False, expiry=600)
    return node, writer


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("count", [3, 4], ids=["full", "one-too-many"])
@pytest.mark.parametrize("together", [False, True], ids=["one-by-one", "run"])
def test_a_client_that_sends_more_than_it_was_told_to_is_closed(qos: int, count: int, together: bool) -> None:
    """[MQTT-3.3.4-9] 0x93 for the one too many, counted; exactly the maximum is fine."""
    node, writer = busy()
    node.hold()
    for run in [PAYLOADS[:count]] if together else [[payload] for payload in PAYLOADS[:count]]:
        writer.publish("kept", *run, qos=qos)
    too_many = count > 3
    assert writer.farewell is (EXCEEDED if too_many else None)
    assert writer.closed is too_many
    assert node.counters.errors == ({"RECEIVE_MAXIMUM_EXCEEDED": 1} if too_many else {})


def test_both_kinds_share_the_quota() -> None:
    """QoS 1 waiting for its PUBACK and QoS 2 until PUBREL."""
    node, writer = busy()
    writer.publish("nobody", b"", b"", qos=2)
    node.hold()
    writer.publish("kept", b"", qos=1)
    assert not writer.closed
    writer.publish("nobody", b"", qos=2)
    assert writer.farewell is EXCEEDED


def test_an_answer_gives_its_place_back() -> None:
    """PUBACK when the commit is over, PUBCOMP for QoS 2; a window's worth again and again."""
    node, writer = busy()
    for _ in range(3):
        node.hold()
        writer.publish("kept", *PAYLOADS[:3], qos=1)
        node.release()
        assert len(writer.acks(PacketType.PUBACK)) == 3
    for _ in range(3):
        acks = writer.publish("kept", *PAYLOADS[:3], qos=2)
        writer.ack(PacketType.PUBREL, *(ack.packet_id for ack in acks))  # type: ignore[union-attr]
        assert len(writer.acks(PacketType.PUBCOMP)) == 3
    assert not writer.closed


@pytest.mark.parametrize("qos", [1, 2])
def test_refused_messages_take_no_place(qos: int) -> None:
    """PUBACK or PUBREC of 0x80 and more end the exchange [MQTT-4.3.3-4]."""
    node = Node(MqttSettings(receive_maximum=2, max_queued_messages=0), durable=False)
    node.connect("reader", clean=False, expiry=600).subscribe("kept", qos=2)
    node.durable = True
    writer = node.connect("writer", clean=False, expiry=600)
    for _ in range(3):
        acks = writer.publish("kept", b"1", b"2", qos=qos)
        assert {ack.reason for ack in acks} == {ReasonCode.QUOTA_EXCEEDED}  # type: ignore[union-attr]
    assert not writer.closed
    assert node.records(CacheName.RECEIVED) == 0


def test_exchanges_of_the_connection_before_take_no_place() -> None:
    """MQTT 5, section 4.9: the quota begins anew with each connection. Those whose PUBREL has not come back yet do
    not count against it, unless they get more with every connection.
    """
    node, writer = busy()
    writer.publish("nobody", b"", b"", b"", qos=2)
    for _ in range(3):
        writer.lose()
        writer = node.connect("writer", clean=False, expiry=600)
        writer._packet_id = node.session("writer").inbound.count
        assert len(writer.publish("nobody", *PAYLOADS[:3], qos=2)) == 3
        assert not writer.closed
    writer.lose()
    writer = node.connect("writer", clean=False, expiry=600)
    writer._packet_id = 100
    writer.publish("nobody", b"", qos=2)
    assert writer.farewell is EXCEEDED


def test_repetitions_take_no_second_place() -> None:
    """The same id is the same exchange."""
    _, writer = busy()
    for _ in range(5):
        writer.publish("kept", *PAYLOADS[:3], qos=2, packet_id=None)
        writer._packet_id = 0
    assert not writer.closed


def test_messages_of_a_run_that_was_too_much_are_not_taken_for_repetitions() -> None:
    """They went nowhere; the client comes back, sends them within its quota, and each arrives."""
    node, writer = busy()
    writer.publish("kept", *PAYLOADS[:5], qos=2)
    assert writer.farewell is EXCEEDED
    assert not node.session("writer").inbound.received
    writer = node.connect("writer", clean=False, expiry=600)
    for number, payload in enumerate(PAYLOADS[:5], 1):
        assert len(writer.publish("kept", payload, qos=2, packet_id=number, dup=True)) == 1
        writer.ack(PacketType.PUBREL, number)
    assert node.connect("reader", clean=False, expiry=600).drain() == PAYLOADS[:5]


def test_what_was_open_before_the_one_too_many_stays_open() -> None:
    """Those exchanges began rightly."""
    node, writer = busy()
    writer.publish("kept", *PAYLOADS[:2], qos=2)
    writer.publish("kept", *PAYLOADS[2:4], qos=2)
    assert writer.closed
    assert node.session("writer").inbound.received == {1, 2}


def test_a_3x_client_knows_no_quota() -> None:
    """MQTT 3 has no Receive Maximum: it is held back by its unanswered messages, not closed."""
    node, _ = busy()
    writer = node.connect("old", V311)
    node.hold()
    writer.publish("kept", *PAYLOADS, qos=1)
    writer.publish("kept", *PAYLOADS, qos=2)
    assert not writer.closed
    node.release()
    assert len(writer.take_all()) == 16


@pytest.mark.parametrize("durable", [False, True], ids=["clean", "durable"])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(("announced", "inflight", "window"), [(None, 5, 5), (3, 5, 3), (7, 5, 5), (1, 5, 1)], ids=str)
def test_a_client_gets_no_more_than_it_takes(
    announced: int | None, inflight: int, window: int, qos: int, durable: bool
) -> None:
    """[MQTT-3.3.4-7] The smaller of its Receive Maximum and our bound; each answer lets one more go."""
    node = Node(MqttSettings(max_inflight=inflight))
    reader = node.connect("reader", expiry=600 if durable else None, receive_maximum=announced)
    reader.subscribe("t", qos=qos)
    node.connect("writer").publish("t", *PAYLOADS, qos=qos)
    got = reader.messages()
    assert [message.payload for message in got] == PAYLOADS[:window]
    first = got[0].packet_id
    if qos == 2:
        reader.ack(PacketType.PUBREC, first)
        assert reader.messages() == []
        reader.ack(PacketType.PUBCOMP, first)
    else:
        reader.ack(PacketType.PUBACK, first)
    assert reader.payloads() == PAYLOADS[window : window + 1]


def test_qos_0_passes_a_full_window() -> None:
    """[MQTT-4.9.0-3] It takes no place in it."""
    node = Node()
    reader = node.connect("reader", receive_maximum=1)
    reader.subscribe("one", qos=1)
    reader.subscribe("zero", qos=0)
    writer = node.connect("writer")
    writer.publish("one", b"1", b"2", qos=1)
    writer.publish("zero", b"3")
    assert reader.payloads() == [b"1", b"3"]


@pytest.mark.parametrize("durable", [False, True], ids=["clean", "durable"])
def test_messages_of_all_sizes_of_runs_leave_in_order(durable: bool) -> None:
    """Through the window, behind it, and while it empties."""
    node = Node()
    reader = node.connect("reader", expiry=600 if durable else None, receive_maximum=4)
    reader.subscribe("t", qos=1)
    writer = node.connect("writer")
    got: list[bytes] = []
    sent = 0
    for size in (1, 3, 2, 7, 1, 30, 2):
        writer.publish("t", *(b"%d" % number for number in range(sent, sent + size)), qos=1)
        sent += size
        messages = reader.messages()
        got += [message.payload for message in messages]
        reader.ack(PacketType.PUBACK, *(message.packet_id for message in messages))
    got += reader.drain()
    assert got == [b"%d" % number for number in range(sent)]
