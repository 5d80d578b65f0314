"""What a client finds when it is back is taken and sent together where it is alike, and no client can tell."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from iot_mqtt.broker.connections import client_writer
from iot_mqtt.broker.readers import cursors
from iot_mqtt.broker.sending import writing
from iot_mqtt.broker.sending.taking import Taking
from iot_mqtt.broker.sending.writing import Writing
from iot_mqtt.broker.settings import LogUse
from iot_mqtt.codec import PacketType, Publish
from iot_mqtt.pipeline import OutboxSettings
from iot_mqtt.ports.grid import CacheName
from tests.seeds import seeds_of
from tests.unit.broker.harness import V5, V311, Client, Node
from tests.unit.broker.logreaders import check, durable, numbers

TOPICS = ("a/1", "a/2", "b", "both", "mine")


def fill(node: Node, random: Random, count: int) -> None:
    """Messages of all kinds for a reader that is away."""
    writer, other = node.connect("writer"), node.connect("other", V311)
    for number in range(count):
        options: dict[str, Any] = {}
        kind = random.random()
        if kind < 0.1:
            options = {"message_expiry_interval": 30}
        elif kind < 0.2:
            options = {"content_type": "c"}
        client = other if not options and kind > 0.8 else writer
        qos = random.choice((0, 1, 1, 1, 1, 1, 1, 2))
        payloads = [b"%d.%d" % (number, part) for part in range(random.choice((1, 1, 1, 2, 5)))]
        client.publish(random.choice(TOPICS), *payloads, qos=qos, retain=kind > 0.95, **options)
        client.drain()


def story(seed: int, window: int | None, limit: int | None) -> tuple[list[Publish], dict[str, int]]:
    """All that the reader gets, and what it does not."""
    random = Random(seed)
    node = Node(log_use=LogUse(batch_size=random.choice((3, 100)), progress_delay=0.1))
    options: dict[str, Any] = {} if limit is None else {"maximum_packet_size": limit}
    reader = durable(node, window=window, **options)
    reader.subscribe("a/+", qos=1, identifier=3)
    reader.subscribe("b", qos=2)
    reader.subscribe("both", qos=1)
    reader.subscribe("bo/#", "both/#", qos=1, retain_as_published=True)
    reader.subscribe("mine", qos=1, no_local=True)
    got: list[Publish] = []
    for _ in range(3):
        reader.lose()
        fill(node, random, 30)
        if random.random() < 0.5:
            node.restart()
        reader = durable(node, window=window, **options)
        while messages := reader.messages():
            got += messages
            for one in messages:
                reader.ack({1: PacketType.PUBACK, 2: PacketType.PUBREC}[one.qos], one.packet_id)
                if one.qos == 2:
                    reader.ack(PacketType.PUBCOMP, one.packet_id)
        check(node)
    assert node.waiting == 0
    return got, node.dropped()


@pytest.mark.interpreted
@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("limit", [None, 60])
@pytest.mark.parametrize("seed", seeds_of("alike or not", 3))
def test_it_is_the_same_one_by_one(
    monkeypatch: pytest.MonkeyPatch, window: int | None, limit: int | None, seed: int
) -> None:
    """The same packets in the same order, with the same ids."""
    together = story(seed, window, limit)
    monkeypatch.setattr(cursors, "alike", lambda *_: (0, None))
    monkeypatch.setattr(Writing, "send_alike", lambda *_: False)
    assert together == story(seed, window, limit)


def waiting_for(node: Node, count: int) -> Client:
    """A durable reader that is back, with so many messages that came one by one."""
    leave(node, count)
    return durable(node)


def leave(node: Node, count: int) -> None:
    """So many messages for a durable reader that is away."""
    reader = durable(node)
    reader.subscribe("t/#", qos=1)
    reader.lose()
    node.advance(1)
    writer = node.connect("writer")
    for number in range(count):
        writer.publish(f"t/{number % 7}", b"%d" % number, qos=1)


def test_they_are_taken_and_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of one read, of whatever topics."""
    counts = []
    take = Taking.take_alike

    def counted(taking: Any, session: Any, runs: Any, identifiers: Any, cursor: Any) -> int:
        counts.append(len(runs))
        return take(taking, session, runs, identifiers, cursor)

    monkeypatch.setattr(Taking, "take_alike", counted)
    node = Node()
    reader = waiting_for(node, 60)
    assert reader.payloads() == numbers(0, 60)
    assert counts == [60]
    check(node)


def test_who_comes_back_has_nothing_written_of_what_is_soon_over() -> None:
    """From where on, and from which id on, is written before anything is sent: that does for a crash."""
    node = Node(log_use=LogUse(progress_delay=0.1))
    reader = waiting_for(node, 20)
    messages = reader.messages()
    assert len(messages) == 20
    assert node.records(CacheName.SEGMENTS) == 0
    reader.ack(PacketType.PUBACK, *(one.packet_id for one in messages[:5]))
    node.restart()
    again = durable(node).messages()
    assert [(one.packet_id, one.payload) for one in again] == [(one.packet_id, one.payload) for one in messages]
    assert all(one.dup for one in again)
    check(node)


def test_nothing_is_sent_before_that_is_safe() -> None:
    """Else a crash would give their ids to others."""
    node = Node(log_use=LogUse(progress_delay=0.1))
    waiting_for(node, 3).lose()
    node.advance(1)
    node.hold()
    reader = durable(node)
    assert not reader.messages()
    node.release()
    assert reader.payloads() == numbers(0, 3)


def test_a_window_that_is_too_small_for_all_is_filled() -> None:
    """The next come when there is room."""
    node = Node()
    reader = durable(node, window=10)
    reader.subscribe("t", qos=1)
    reader.lose()
    writer = node.connect("writer", V5)
    for number in range(25):
        writer.publish("t", b"%d" % number, qos=1)
    reader = durable(node, window=10)
    first = reader.messages()
    assert len(first) == 10
    reader.ack(PacketType.PUBACK, *(one.packet_id for one in first))
    assert reader.drain() == numbers(10, 25)
    check(node)


def test_more_than_is_written_at_once_is_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order; what had left before the connection was lost comes again with DUP, the rest without."""
    monkeypatch.setattr(writing, "WRITE_BYTES", 50)
    monkeypatch.setattr(client_writer, "EAGER_BYTES", 40)
    small = OutboxSettings(high_water=100, low_water=10, hard_limit=1_000_000)
    node = Node(log_use=LogUse(progress_delay=0.1), outbox=small)
    leave(node, 60)
    node.hold()
    reader = durable(node)
    reader.wire.link.capacity = 0
    node.release()
    session = node.session("reader")
    assert 0 < session.unsent < 60
    left = 60 - session.unsent
    reader.lose()
    again = durable(node).messages()
    assert [one.payload for one in again] == numbers(0, 60)
    assert [one.packet_id for one in again] == [one.packet_id for one in sorted(again, key=lambda one: one.packet_id)]
    assert [one.dup for one in again] == [True] * left + [False] * (60 - left)
    check(node)


@pytest.mark.parametrize("sent", [True, False])
def test_what_is_under_way_is_known_one_by_one_when_it_is_written(sent: bool) -> None:
    """Some of it was confirmed: what is written is the rest, under the ids that it has."""
    node = Node(log_use=LogUse(progress_delay=0.1))
    reader = waiting_for(node, 40)
    messages = reader.messages()
    reader.ack(PacketType.PUBACK, *(one.packet_id for one in messages[1:20:2]))
    if sent:
        node.advance(1)
        assert node.records(CacheName.SEGMENTS)
    reader.ack(PacketType.PUBACK, *(one.packet_id for one in messages[:20:2]))
    reader.lose()
    again = durable(node)
    got = again.messages()
    assert [(one.packet_id, one.payload, one.dup) for one in got] == [
        (one.packet_id, one.payload, True) for one in messages[20:]
    ]
    again.ack(PacketType.PUBACK, *(one.packet_id for one in got))
    node.advance(1)
    assert not node.records(CacheName.SEGMENTS)
    check(node)


def test_one_that_is_too_large_for_the_client_is_dropped_and_the_others_come() -> None:
    """Also where they were taken together."""
    node = Node()
    reader = durable(node, maximum_packet_size=40)
    reader.subscribe("t", qos=1)
    reader.lose()
    writer = node.connect("writer")
    for number in range(20):
        writer.publish("t", b"%d" % number + b"." * (100 if number == 7 else 0), qos=1)
    assert durable(node, maximum_packet_size=40).payloads() == [b"%d" % n for n in range(20) if n != 7]
    assert node.dropped() == {"too_large": 1}
    check(node)
