"""What is sent again comes from the log: late, not at all, or when the disk answers."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.sending import refetching
from iot_mqtt.codec import PacketType
from iot_mqtt.ports.grid import CacheName
from tests.unit.broker.harness import Node
from tests.unit.broker.logreaders import (
    NO_PAGES,
    SHORT,
    check,
    durable,
    forget_old,
    lost,
    numbers,
    publish,
    unreadable,
)

AGAIN = pytest.mark.parametrize("restarted", [False, True], ids=["reconnect", "restart"])


@AGAIN
def test_a_disk_that_does_not_answer_delays(restarted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, with DUP, and what is new behind it."""
    node = Node(log_settings=NO_PAGES)
    reader = durable(node, window=3)
    reader.subscribe("t", qos=1)
    publish(node, 0, 4)
    if restarted:
        node.restart()
    else:
        reader.lose()
    with unreadable(node, monkeypatch) as attempts:
        reader = durable(node, window=3)
        node.advance(3)
        assert len(attempts) >= 2
        assert reader.messages() == []
        # Another connection asks anew, and what the old one asked for is of no use to anybody.
        reader = durable(node, window=4)
    node.advance(2)
    got = reader.messages()
    assert [(one.payload, one.dup) for one in got] == [(b"0", True), (b"1", True), (b"2", True), (b"3", False)]


@AGAIN
@pytest.mark.parametrize("qos", [1, 2])
def test_what_retention_has_removed_is_given_up(restarted: bool, qos: int) -> None:
    """Counted, its ids free, and what is new comes."""
    node = Node(log_settings=SHORT)
    reader = durable(node, window=3)
    reader.subscribe("t", qos=qos)
    publish(node, 0, 5, qos=qos)
    reader.lose()
    forget_old(node)
    publish(node, 5, 7, qos=qos)
    before = 0
    if restarted:
        node.restart()
        before = node.waiting
        assert before == 5
    else:
        assert lost(node) == 2, "what was not under way is written off at once"
    reader = durable(node, window=3)
    assert reader.drain() == numbers(5, 7)
    assert lost(node) == (3 if restarted else 5)
    assert node.records(CacheName.SEGMENTS) == 0
    check(node)


def test_more_pieces_than_are_fetched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that comes back adds so many to memory and no more."""
    monkeypatch.setattr(refetching, "PIECES", 3)
    node = Node()
    reader = durable(node)
    reader.subscribe("#", qos=1)
    publish(node, 0, 20, together=False)
    reader.lose()
    reader = durable(node)
    assert reader.payloads() == numbers(0, 20)
    reader.ack(PacketType.PUBACK, *range(1, 21))
    assert node.waiting == 0


@AGAIN
@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_acknowledged_before_it_is_sent_again_is_not(
    restarted: bool, qos: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may remember what came over its last connection; its id may be another message's by then."""
    node = Node(log_settings=NO_PAGES)
    reader = durable(node)
    reader.subscribe("t", qos=qos)
    publish(node, 0, 5, qos=qos)
    if restarted:
        node.restart()
    else:
        reader.lose()
    with unreadable(node, monkeypatch):
        reader = durable(node)
        reader.ack(PacketType.PUBACK if qos == 1 else PacketType.PUBREC, 2, 3, 5)
    node.advance(2)
    assert [(one.packet_id, one.dup) for one in reader.messages()] == [(1, True), (4, True)]
    assert node.counters.messages_resent == 2
