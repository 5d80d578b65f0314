"""Messages of a read that different sessions keep: they are put into the log in a row, and each session has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from iot_mqtt.broker.publishing.fanout import FanOut
from iot_mqtt.broker.settings import BudgetSettings, MqttSettings
from iot_mqtt.codec import Ack, PacketType, Publish
from iot_mqtt.errors import ReasonCode
from tests.unit.broker.harness import V5, V311, Client, Node
from tests.unit.broker.logreaders import check, durable
from tests.unit.broker.test_disk_budget import MIB, Disk


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


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each batch that may be, whether there was nothing to do but to keep it."""
    found: list[bool] = []
    owe = FanOut.owe_row

    def counted(fan_out: FanOut, *arguments: Any) -> Any:
        outcome = owe(fan_out, *arguments)
        found.append(outcome is not None)
        return outcome

    monkeypatch.setattr(FanOut, "owe_row", counted)
    return found


@pytest.mark.parametrize("version", [V311, V5])
def test_what_is_for_nobody_who_is_there_is_kept_and_no_more(version: Any, rows: list[int], kept: list[bool]) -> None:
    """Acknowledged when it is safe, counted, owed to each; also after a restart."""
    node = Node()
    for name in "ab":
        reader = durable(node, name)
        reader.subscribe(f"t/{name}", "both", qos=1)
        reader.lose()
    writer = node.connect("writer", version)
    node.hold()
    before = node.counters.messages_received, node.counters.messages_matched
    send(writer, "t/a", "t/b", "both", "t/a", "t/a", "both")
    assert (rows, kept) == ([], [True])
    assert not writer.acks(PacketType.PUBACK)
    node.release()
    assert [(one.packet_id, one.reason) for one in writer.take(Ack)] == [(n, ReasonCode.SUCCESS) for n in range(1, 7)]
    assert (node.counters.messages_received - before[0], node.counters.messages_matched - before[1]) == (6, 8)
    assert node.waiting == 8
    check(node)
    node.restart()
    assert {name: durable(node, name).payloads() for name in "ab"} == {
        "a": [b"0", b"2", b"3", b"4", b"5"],
        "b": [b"1", b"2", b"5"],
    }
    check(node)


def test_what_is_for_somebody_else_as_well_is_not_only_kept(kept: list[bool]) -> None:
    """One who is there, one who keeps nothing, QoS 0, or a full disk: each takes the other way."""
    disk = Disk()
    node = Node(budget=BudgetSettings(disk_limit=100 * MIB), disk=disk)
    away = durable(node, "away")
    away.subscribe("t/#", qos=1)
    away.subscribe("u/#", qos=0)
    away.lose()
    there, passing = durable(node, "there"), node.connect("passing")
    there.subscribe("t/there", qos=1)
    passing.subscribe("t/passing", qos=1)
    writer = node.connect("writer")
    send(writer, "t/1", "t/there")
    send(writer, "t/1", "t/passing")
    send(writer, "t/1", "u/1")
    assert not any(kept)
    assert (there.payloads(), passing.payloads()) == ([b"1"], [b"1"])
    writer.take(Ack)
    disk.used = 100 * MIB
    node.broker.publishing.budget.measure()
    send(writer, "t/1", "t/2")
    assert {one.reason for one in writer.take(Ack)} == {ReasonCode.QUOTA_EXCEEDED}
    assert durable(node, "away").payloads() == [b"0", b"1", b"0", b"1", b"0"]
    check(node)
