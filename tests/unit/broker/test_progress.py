"""What is kept of the way through the log: after a restart nothing is missing, and nothing comes as new twice."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import LogUse
from iot_mqtt.codec import Ack, PacketType, Publish
from iot_mqtt.ports.grid import CacheName
from tests.unit.broker.harness import Client, Node
from tests.unit.broker.logreaders import check, durable, numbers, publish

PUBACK, PUBREC, PUBREL, PUBCOMP = PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP
QOS = pytest.mark.parametrize("qos", [1, 2])


def seen(client: Client) -> list[tuple[int, bool, bytes]]:
    """Id, DUP and payload."""
    return [(one.packet_id, one.dup, one.payload) for one in client.messages()]


@QOS
def test_in_flight_over_a_restart_under_the_same_ids(qos: int) -> None:
    """From two turns, some of each acknowledged, with gaps; the rest is new."""
    node = Node()
    reader = durable(node, window=6)
    reader.subscribe("t", qos=qos)
    publish(node, 0, 4, qos=qos)
    publish(node, 4, 9, qos=qos)
    assert seen(reader) == [(number + 1, False, b"%d" % number) for number in range(6)]
    reader.ack(PUBACK if qos == 1 else PUBREC, 2, 3, 5)
    if qos == 2:
        reader.ack(PUBCOMP, 2, 3, 5)
    reader.take_all()
    node.restart()
    before = node.waiting
    reader = durable(node, window=6)
    again = [(1, True, b"0"), (4, True, b"3"), (6, True, b"5")]
    late = [(7, True, b"6"), (8, True, b"7"), (9, True, b"8")]
    assert seen(reader) == again + late
    assert before == 6
    node.restart()
    assert seen(durable(node)) == again + late


@QOS
def test_a_restart_between_the_page_and_the_position(qos: int) -> None:
    """The page and what was taken of it leave in one batch: killed before it, the publisher was told nothing."""
    for written in (False, True):
        node = Node()
        reader = durable(node)
        reader.subscribe("t", qos=qos)
        writer = node.connect("writer")
        node.hold()
        assert not writer.publish("t", b"1", qos=qos)
        assert not reader.messages(), "sent before it was safe"
        node.restart(written=written)
        expected = [(1, True, b"1")] if written else []
        assert seen(durable(node)) == expected


def test_exchanges_past_pubrec_go_on_with_pubrel() -> None:
    """[MQTT-4.3.3-6] Its message is forgotten, also in a flight of several."""
    node = Node()
    reader = durable(node)
    reader.subscribe("t", qos=2)
    publish(node, 0, 3, qos=2)
    reader.ack(PUBREC, 2)
    node.restart()
    reader = durable(node)
    packets = reader.take_all()
    assert [packet.packet_id for packet in packets if isinstance(packet, Ack)] == [2]
    assert [one.payload for one in packets if isinstance(one, Publish)] == [b"0", b"2"]
    reader.ack(PUBCOMP, 2)
    reader.ack(PUBREC, 1, 3)
    reader.ack(PUBCOMP, 1, 3)
    assert node.records(CacheName.SEGMENTS, CacheName.PUBREL) == 0
    assert node.waiting == 0


@pytest.mark.parametrize("turns", [1, 5])
def test_what_was_acknowledged_does_not_come_again(turns: int) -> None:
    """The position is kept with the ids, whatever was read before and behind it."""
    node = Node(log_use=LogUse(batch_size=3))
    reader = durable(node, window=4)
    reader.subscribe("t", qos=1)
    for turn in range(turns):
        publish(node, 10 * turn, 10 * turn + 10)
        publish(node, 0, 7, "other")
        assert reader.drain() == numbers(10 * turn, 10 * turn + 10)
        node.restart()
        reader = durable(node, window=4)
        assert reader.messages() == []
        check(node)


def test_a_position_kept_late_costs_nothing_twice() -> None:
    """Killed while a position was being written: what had been sent has its id or comes as new, not both."""
    node = Node()
    reader = durable(node, window=2)
    reader.subscribe("t", qos=2)
    publish(node, 0, 6, qos=2)
    assert seen(reader) == [(1, False, b"0"), (2, False, b"1")]
    node.hold()
    reader.ack(PUBREC, 1, 2)
    reader.ack(PUBCOMP, 1, 2)
    node.restart()
    reader = durable(node, window=2)
    assert seen(reader) == [(1, True, b"0"), (2, True, b"1")]
    reader.ack(PUBREC, 1, 2)
    reader.ack(PUBCOMP, 1, 2)
    assert seen(reader) == [(3, False, b"2"), (4, False, b"3")]


def test_segments_are_removed_and_nothing_is_left() -> None:
    """However often a session went away, was refused, or took part of a run."""
    node = Node()
    reader = durable(node, window=3)
    reader.subscribe("t", qos=1)
    for start in range(0, 50, 5):
        publish(node, start, start + 5)
        reader.lose()
        reader = durable(node, window=1 + start % 4)
        assert reader.drain() == numbers(start, start + 5)
    node.turn()
    assert node.records(CacheName.SEGMENTS) == 0
    assert node.records(CacheName.PROGRESS) == 1
    reader.disconnect(session_expiry_interval=0)
    assert node.records(CacheName.PROGRESS, CacheName.SEGMENTS, CacheName.SUBSCRIPTIONS, CacheName.SESSIONS) == 0
    check(node)


def test_a_clean_start_in_the_turn_of_the_end_has_its_own_segments() -> None:
    """Numbers begin anew; the removal of the old ones must not hit them."""
    node = Node()
    reader = durable(node)
    reader.subscribe("t", qos=1)
    publish(node, 0, 2)
    node.hold()
    reader = node.connect("reader", clean=True, expiry=600)
    node.release()
    reader.read()
    reader.subscribe("t", qos=1)
    publish(node, 2, 4)
    node.restart()
    assert [one.payload for one in durable(node).messages()] == numbers(2, 4)


def test_while_it_only_falls_behind_nothing_is_written_for_it() -> None:
    """One stored copy and no record for each of a hundred that are away."""
    node = Node()
    for number in range(100):
        reader = durable(node, f"reader{number}")
        reader.subscribe("t", qos=1)
        reader.lose()
    operations = node.counters.commit_operations
    publish(node, 0, 1)
    assert node.counters.commit_operations - operations < 10
    assert node.waiting == 100
