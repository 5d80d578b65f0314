"""While it is not known what a node on the list wants, whatever is acknowledged is recorded."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.cluster.unheard import KeptForUnheard
from iot_mqtt.broker.publishing.batches import class_of
from iot_mqtt.codec import PacketType, Publish
from iot_mqtt.topics import MIXED
from tests.unit.broker.harness import Node, run
from tests.unit.broker.logreaders import durable


def among_others() -> tuple[Node, KeptForUnheard]:
    """A node whose sessions want nothing."""
    node = Node(number=1)
    broker = node.broker
    step = KeptForUnheard(broker.routing.steps, broker.publishing.recording, node.store)
    broker.routing.steps.add(step)
    return node, step


def recorded(node: Node) -> list[str]:
    """The topic of each message in the log."""
    runs = run(node.log.read(["#", "$plant/#"], 0, 100, 1 << 20)).runs
    return [one.topic.decode() for one in runs for _ in range(one.run.count)]


@pytest.mark.parametrize("topic", ["t", "$plant/t"])
@pytest.mark.parametrize("retain", [False, True])
def test_what_nobody_is_known_to_want_is_recorded_before_it_is_acknowledged(topic: str, retain: bool) -> None:
    node, step = among_others()
    publisher = node.connect("p")
    step.doubt(True)
    node.hold()
    publisher.publish(topic, b"x", qos=1, retain=retain)
    node.turn()
    assert not publisher.acks(PacketType.PUBACK)
    node.release()
    node.turn()
    assert len(publisher.acks(PacketType.PUBACK)) == 1
    assert recorded(node) == [topic]


@pytest.mark.parametrize("readers", [(), ("live",), ("kept",), ("live", "kept")], ids=str)
def test_a_row_of_different_topics_is_recorded_whole(readers: tuple[str, ...]) -> None:
    node, step = among_others()
    for name in readers:
        reader = durable(node, name) if name == "kept" else node.connect(name)
        reader.subscribe("t/0" if name == "kept" else "t/#", qos=1)
    publisher = node.connect("p")
    step.doubt(True)
    packets = [Publish(b"t/%d" % number, b"x", 1 + (number == 3), packet_id=number + 1) for number in range(6)]
    publisher.send(*packets)
    node.turn()
    assert recorded(node) == [f"t/{number}" for number in range(6)]


def test_what_is_recorded_for_somebody_is_recorded_once() -> None:
    node, step = among_others()
    reader = durable(node)
    reader.subscribe("t", qos=1)
    publisher = node.connect("p")
    step.doubt(True)
    publisher.publish("t", b"x", qos=1)
    node.turn()
    assert recorded(node) == ["t"]
    assert reader.payloads() == [b"x"]


def test_qos_0_is_not_recorded_and_keeps_its_fast_path() -> None:
    node, step = among_others()
    reader = node.connect("r")
    reader.subscribe("t", qos=1)
    step.doubt(True)
    node.connect("p").publish("t", b"x")
    node.turn()
    assert recorded(node) == []
    assert reader.payloads() == [b"x"]
    match = node.broker.routing.routes.match(b"t")
    assert class_of(b"t", match) is match
    assert match.above is MIXED


def test_when_all_are_heard_nothing_is_recorded_that_nobody_wants() -> None:
    node, step = among_others()
    publisher = node.connect("p")
    step.doubt(True)
    step.doubt(False)
    assert len(publisher.publish("t", b"x", qos=1)) == 1
    assert recorded(node) == []
    assert node.broker.routing.routes.match(b"t").steps == ()
