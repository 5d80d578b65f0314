"""What is over leaves no cycle behind: the collector looks at what is old when memory has doubled, and all wait for it.

Each test counts the objects of its kinds that there are, with the collector off.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from iot_mqtt.broker.claims import ClaimCursor
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.shared_groups.cursor import Lease
from iot_mqtt.codec import PacketType
from iot_mqtt.session import Flight, Segment
from tests.unit.broker.harness import Node
from tests.unit.broker.logreaders import durable, numbers, publish
from tests.unit.broker.neighbours import Neighbour

#: What a durable client leaves behind, if anything.
KINDS = (Flight, Segment, Lease, KeptSession, ClaimCursor)
Left = Callable[[], list[str]]


@pytest.fixture
def left() -> Iterator[Left]:
    """Names what there is now that was not there when the test began, kept by itself or by somebody."""
    gc.collect()
    before = {id(one) for one in gc.get_objects() if isinstance(one, KINDS)}
    gc.disable()
    try:
        yield lambda: [
            type(one).__name__ for one in gc.get_objects() if isinstance(one, KINDS) and id(one) not in before
        ]
    finally:
        gc.enable()


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_durable_delivery_that_is_over(left: Left, qos: int, *, together: bool) -> None:
    """It was written that it was under way, and then that it is not; with some of its batch, and with the last."""
    node = Node()
    reader = durable(node, window=8)
    reader.subscribe("t", qos=2)
    there = left()
    publish(node, 0, 40, qos=qos, together=together)
    node.advance(5)
    assert reader.drain() == numbers(0, 40)
    node.advance(5)
    assert left() == there


def test_what_was_under_way_when_the_node_stopped(left: Left) -> None:
    """Restored, sent once more, confirmed."""
    node = Node()
    reader = durable(node, window=8)
    reader.subscribe("t", qos=2)
    publish(node, 0, 20, qos=2)
    node.restart()
    # The broker that was before, as the next life of a node collects it.
    del reader
    gc.collect()
    assert left().count("Flight") > 0
    assert set(durable(node, window=8).drain()) == set(numbers(0, 20))
    node.advance(5)
    assert {"Flight", "Segment"}.isdisjoint(left())


@pytest.mark.parametrize("away", ["moved", "ended"])
def test_a_durable_session_that_is_gone(left: Left, away: str) -> None:
    """With messages under way and waiting, of this node's log and of another's: to another node, or for good."""
    node = Node(number=1)
    other = Neighbour(node)
    reader = durable(node, window=4)
    reader.subscribe("t", "$share/g/t", "$replay/0/t", qos=2)
    publish(node, 0, 10, qos=2)
    other.publish(*numbers(10, 20), qos=2)
    reader.messages()
    reader.ack(PacketType.PUBREC, 1)
    if away == "moved":
        reader.lose()
        node.broker.lifecycle.moving.hand_over(node.kept_session("reader"))
    else:
        node.connect("reader", clean=True).disconnect()
    node.clients.clear()
    del reader
    node.advance(5)
    assert left() == []
