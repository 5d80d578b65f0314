"""Messages of a read that different sessions keep: they are put into the log in a row, and each session has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from iot_mqtt.broker.publishing.fanout import FanOut
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Ack, PacketType, Publish
from iot_mqtt.errors import ReasonCode
from tests.unit.broker.harness import V5, V311, Client, Node
from tests.unit.broker.logreaders import check, durable


def send(client: Client, *topics: str) -> None:
    """One message to each topic, with its place as payload, all in one read."""
    client.send(
        *(Publish(topic.encode(), b"%d" % at, 1, False, False, client.next_id()) for at, topic in enumerate(topics))
    )


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each row has."""
    found: list[int] = []
    hand_on = FanOut.fan_out_row

    def counted(fan_out: FanOut, publications: Sequence[Any], matches: Any) -> Any:
        found.append(len(publications))
        return hand_on(fan_out, publications, matches)

    monkeypatch.setattr(FanOut, "fan_out_row", counted)
    return found


@pytest.mark.parametrize("version", [V311, V5])
def test_what_different_sessions_keep_is_one_row(version: Any, rows: list[int]) -> None:
    """Whether they are there or away; all are acknowledged once they are safe."""
    node = Node()
    for name in "abc":
        reader = durable(node, name)
        reader.subscribe(f"t/{name}", qos=1)
        reader.lose()
    there = durable(node, "there")
    there.subscribe("t/b", "u", qos=1)
    writer = node.connect("writer", version)
    node.hold()
    send(writer, "t/a", "t/b", "t/c", "u", "t/a", "t/b", "u")
    assert rows == [7]
    assert not writer.acks(PacketType.PUBACK)
    assert not there.messages()
    node.release()
    assert len(writer.acks(PacketType.PUBACK)) == 7
    assert there.payloads() == [b"1", b"3", b"5", b"6"]
    assert {name: durable(node, name).payloads() for name in "abc"} == {
        "a": [b"0", b"4"],
        "b": [b"1", b"5"],
        "c": [b"2"],
    }
    check(node)


def test_a_session_gets_them_in_their_order_whatever_they_match(rows: list[int]) -> None:
    """Also where its subscriptions have different identifiers."""
    node = Node()
    reader = durable(node)
    for identifier, topic in enumerate("xy", 1):
        reader.subscribe(topic, qos=1, identifier=identifier)
    send(node.connect("writer"), "x", "x", "y", "x", "y", "y")
    got = reader.messages()
    assert rows == [4]
    assert [one.payload for one in got] == [b"%d" % number for number in range(6)]
    assert [one.properties.subscription_identifiers for one in got] == [(1,), (1,), (2,), (1,), (2,), (2,)]
    check(node)


def test_one_that_has_no_room_is_told_apart_from_those_that_keep(rows: list[int]) -> None:
    """Its queue is full: the publisher is told of that message, and of no other."""
    node = Node(MqttSettings(max_queued_messages=1))
    reader = durable(node)
    reader.subscribe("kept", "both", qos=1)
    other = node.connect("other", receive_maximum=1)
    other.subscribe("passing", "both", qos=1)
    writer = node.connect("writer")
    send(writer, "kept", "both", "both", "both", "kept")
    assert rows == [3]
    assert [(one.packet_id, one.reason) for one in writer.take(Ack)] == [(n, ReasonCode.SUCCESS) for n in range(1, 6)]
    assert reader.payloads() == [b"%d" % number for number in range(5)]
    assert other.payloads() == [b"1"]
    assert node.dropped() == {"queue_full": 1}
    check(node)


def test_messages_that_a_reader_can_not_take_all_of_are_found_in_the_log(rows: list[int]) -> None:
    """Its window is smaller than what is for it in the row."""
    node = Node()
    reader = durable(node, window=2)
    reader.subscribe("t/+", qos=1)
    durable(node, "away").subscribe("u", qos=1)
    send(node.connect("writer"), "t/1", "u", "t/2", "t/3", "u", "t/4")
    assert rows == [6]
    assert reader.drain() == [b"0", b"2", b"3", b"5"]
    check(node)
