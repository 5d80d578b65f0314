"""What a message costs that comes alone: functions that are called for it, which are the same on every machine.

A function more is a third of a microsecond more for every message, or a whole one where memory is cold. If one is worth
that, the bound is raised.
"""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Publish, Unsubscribe, encode
from tests.unit.broker.harness import Client, Node, subscribe
from tests.unit.broker.steps import called_by


def called_for(node: Node, feed: bytes, writer: Client) -> list[str]:
    """What functions of the broker run until the turn is over in which this comes."""

    def turn() -> None:
        writer.wire.feed(feed)
        node.turn()

    return called_by(turn)


@pytest.mark.compiled
@pytest.mark.parametrize(("qos", "most"), [(0, 19), (1, 37)])
def test_it_takes_few_steps(qos: int, most: int) -> None:
    node = Node()
    reader = node.connect("reader")
    reader.subscribe("t/#", qos=qos)
    writer = node.connect("writer")
    called: list[str] = []
    for packet_id in range(1, 4):
        data = encode(Publish(b"t/1", b"x" * 64, qos, packet_id=packet_id if qos else 0), writer.version)
        called = called_for(node, data, writer)
        assert reader.wire.take()
        assert bool(writer.wire.take()) == bool(qos)
    assert len(called) <= most, "\n".join(called)


def test_nothing_is_weighed_where_nothing_waits() -> None:
    node = Node()
    writer = node.connect("writer")
    weighed: list[None] = []
    node.broker.turn.at_wait = (lambda: weighed.append(None),)
    writer.publish("t", b"x")
    assert not weighed
    node.hold()
    writer.publish("t", b"x", retain=True)
    assert weighed
    node.release()


@pytest.mark.parametrize("retained", [False, True], ids=["nothing", "retained"])
@pytest.mark.parametrize("way", ["asked", "again", "left"])
def test_a_filter_costs_the_same_however_many_come_with_it(way: str, *, retained: bool) -> None:
    """Those of a dashboard, or of somebody who wishes us ill: a SUBSCRIBE of 10,000 filters held a node up for seconds.
    With retained messages, to a client that does not read, so that they wait.
    """
    steps = []
    for count in (100, 1_000):
        node = Node()
        client = node.connect("c", receive_maximum=1)
        filters = [f"t/{number}" for number in range(count)]
        if retained:
            writer = node.connect("writer")
            for name in filters:
                writer.publish(name, b"x", qos=1, retain=True)
        asking = encode(subscribe(1, *filters, qos=1), client.version)
        if way != "asked":
            client.wire.feed(asking)
            node.turn()
        if way == "left":
            asking = encode(Unsubscribe(2, tuple(filters)), client.version)
        steps.append(len(called_for(node, asking, client)) / count)
    assert steps[1] < 1.1 * steps[0]


@pytest.mark.parametrize("filter", ["t/{}", "t/{}/+"], ids=["topics", "wildcards"])
def test_a_message_costs_the_same_however_many_filters_its_durable_client_has(filter: str) -> None:
    """Who comes back with 8,000 topics was asked about all of them for each."""
    steps = []
    for count in (50, 500):
        node = Node()
        reader = node.connect("reader", expiry=60)
        reader.subscribe(*(filter.format(number) for number in range(count)), qos=1)
        reader.lose()
        writer = node.connect("writer")
        for number in range(count):
            writer.publish(f"t/{number}" if filter == "t/{}" else f"t/{number}/x", b"x", qos=1)
        came: list[bytes] = []

        def come_back(node: Node = node, came: list[bytes] = came) -> None:
            came += node.connect("reader", clean=False, expiry=60, receive_maximum=10).drain()

        steps.append(len(called_by(come_back)) / count)
        assert len(came) == count
    assert steps[1] < 1.1 * steps[0]
