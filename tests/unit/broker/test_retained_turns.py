"""However much there is to look through for new subscriptions, a turn takes a part of it, for all sessions together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from iot_mqtt.codec import Suback, encode
from iot_mqtt.topics import Page, RetainedIndex, retained
from iot_mqtt.topics.seeking import next_candidate
from tests.unit.broker.harness import V5, Client, Node, subscribe

#: What a turn may take: twice some milliseconds, before its end and at its end.
MOST_LOOKS = 9_000
MOST_MESSAGES = 5_000
MOST_PAGES = 2_000
DEVICES = 1_500


class Looks:
    """How many topics were held against a filter."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, levels: Sequence[bytes], topic: bytes) -> bytes | None:
        self.count += 1
        return NEXT_CANDIDATE(levels, topic)


NEXT_CANDIDATE = next_candidate


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    looks = Looks()
    monkeypatch.setattr(retained, "next_candidate", looks)
    return looks


@pytest.fixture
def node() -> Node:
    """With many retained messages."""
    node = Node()
    writer = node.connect("writer")
    for device in range(DEVICES):
        writer.publish(f"r/{device:04}/a", b"x", retain=True)
    return node


def send(client: Client, *filters: str, qos: int = 0) -> None:
    """SUBSCRIBE; the turn does not end."""
    client.wire.feed(encode(subscribe(client.next_id(), *filters, qos=qos), V5))


def passing(node: Node, looks: Looks) -> Iterator[None]:
    """Turn after turn, none of which takes more than its part."""
    matched = node.counters.messages_matched
    going_on = True
    while going_on:
        going_on = node.one_turn()
        assert looks.count < MOST_LOOKS
        assert node.counters.messages_matched - matched < MOST_MESSAGES
        looks.count, matched = 0, node.counters.messages_matched
        yield


def test_what_many_filters_of_one_packet_ask_for_is_looked_for_in_many_turns(node: Node, looks: Looks) -> None:
    """They find nothing. They are answered before, and others do not wait until all has been looked for."""
    heavy, light = node.connect("heavy"), node.connect("light")
    send(heavy, *(f"+/+/x{number}" for number in range(20)))
    send(light, "r/0007/a")
    turns = passing(node, looks)
    next(turns), next(turns)
    assert heavy.take(Suback)
    assert light.payloads() == [b"x"]
    assert len(list(turns)) > 3
    assert node.session("heavy").readers is None


def test_a_filter_for_which_there_is_nothing_to_look_at_takes_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.connect("writer").publish("r", b"x", retain=True)
    scan, asked = RetainedIndex.scan, [0, 0]

    def counted(index: RetainedIndex, *args: Any) -> Page:
        asked[0] += 1
        return scan(index, *args)

    monkeypatch.setattr(RetainedIndex, "scan", counted)
    client = node.connect("c")
    send(client, *(f"+/x{number}" for number in range(5_000)))
    going_on = True
    while going_on:
        going_on = node.one_turn()
        assert asked[0] < MOST_PAGES
        asked[1] += asked[0]
        asked[0] = 0
    assert asked[1] >= 5_000
    assert node.session("c").readers is None


def test_nothing_is_looked_through_for_filters_that_no_topic_begins_like(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is retained, or nothing of that beginning, no reading begins."""
    node = Node()
    scans: list[object] = []
    monkeypatch.setattr(RetainedIndex, "scan", lambda index, *args: scans.append(args))
    client = node.connect("c")
    send(client, "+/x", "a/b/+", "#")
    while node.one_turn():
        pass
    node.connect("writer").publish("a/c/d", b"x", retain=True)
    send(client, "a/b/#", "a/b/+", "a/cd/+/e", "b/#")
    while node.one_turn():
        pass
    assert scans == []
    assert node.session("c").readers is None


def test_all_sessions_that_subscribe_at_once_share_a_turn(node: Node, looks: Looks) -> None:
    """Each gets all of it in the end."""
    clients = [node.connect(f"c{number}") for number in range(8)]
    for client in clients:
        send(client, "+/+/x", "r/#", qos=1)
    assert len(list(passing(node, looks))) > 4
    assert [len(client.drain()) for client in clients] == [DEVICES] * 8


def test_who_leaves_while_it_waits_is_looked_for_no_more(node: Node, looks: Looks) -> None:
    heavy = node.connect("heavy")
    send(heavy, *(f"+/+/x{number}" for number in range(20)))
    node.one_turn()
    heavy.wire.peer_closes()
    looks.count = 0
    node.turn()
    assert looks.count == 0


def test_what_a_kept_session_has_not_come_to_is_kept(node: Node) -> None:
    """A restart meanwhile takes nothing of it."""
    client = node.connect("kept", clean=False, expiry=60)
    send(client, *(f"+/+/x{number}" for number in range(20)), "r/0007/+", qos=1)
    node.one_turn()
    node.restart()
    assert node.connect("kept", clean=False, expiry=60).drain() == [b"x"]
