"""Who reads retained messages slowly: it gets all of them, whatever happens meanwhile, and each of them once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iot_mqtt.broker.session import Session
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import PacketType, Suback
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import Message
from tests.unit.broker.harness import Client, Node, subscribe

TOPICS = [f"r/{number:02}" for number in range(12)]
KEPT = [topic.encode() for topic in TOPICS]


def filled(settings: MqttSettings | None = None, qos: int = 1) -> tuple[Node, Client]:
    """A node with some retained messages, and who publishes there."""
    node = Node(settings)
    writer = node.connect("writer")
    for topic in TOPICS:
        writer.publish(topic, topic.encode(), qos=qos, retain=True)
    return node, writer


def durable(node: Node, window: int = 3) -> Client:
    return node.connect("reader", clean=False, expiry=1000, receive_maximum=window)


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("filter", ["r/#", "r/+"])
@pytest.mark.parametrize("read", [0, 1, 3])
def test_a_restart_takes_nothing_of_what_is_to_be_read(qos: int, filter: str, read: int) -> None:
    """SUBACK was sent, and the client will not ask again: its session is there."""
    node, _ = filled(qos=qos)
    reader = durable(node)
    reader.subscribe(filter, qos=qos)
    got = []
    for message in reader.messages()[:read]:
        got.append(message.payload)
        reader.ack(PacketType.PUBACK if qos == 1 else PacketType.PUBREC, message.packet_id)
    node.restart()
    reader = durable(node)
    assert reader.connack is not None and reader.connack.session_present
    rest = reader.drain()
    assert sorted({*got, *rest}) == KEPT
    if qos == 2:
        assert sorted(got + rest) == KEPT
    node.restart()
    assert durable(node).drain() == []


def test_a_restart_takes_nothing_of_topics_that_were_asked_for_one_by_one() -> None:
    node, _ = filled()
    durable(node).subscribe(*TOPICS, qos=1)
    node.restart()
    assert sorted(durable(node).drain()) == KEPT
    node.restart()
    assert durable(node).drain() == []


def test_what_is_to_be_read_is_kept_before_suback() -> None:
    """And what has been read is not."""
    node, _ = filled()
    reader = durable(node)
    node.hold()
    reader.send(subscribe(1, "r/#", qos=1))
    assert reader.take_all() == []
    node.restart(written=True)
    assert sorted(durable(node).drain()) == KEPT
    node.restart()
    assert durable(node).drain() == []


class Slow:
    """Other nodes that take a while to know what is wanted here."""

    def __init__(self, others: Any) -> None:
        self._others = others
        self.waiting: list[Callable[[], None]] = []

    def when_in_force(self, session: Session, call: Callable[[], None]) -> None:
        self.waiting.append(call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._others, name)


def test_what_is_to_be_read_is_kept_before_suback_that_comes_later() -> None:
    """The subscription has been kept for a while. What is published meanwhile comes as it is published."""
    node, writer = filled()
    sessions: Any = node.broker.sessions
    sessions.others = slow = Slow(sessions.others)
    reader = durable(node)
    reader.send(subscribe(1, "r/#", qos=1))
    writer.publish(TOPICS[9], b"new", qos=1, retain=True)
    node.hold()
    for call in slow.waiting:
        call()
    node.turn()
    assert not reader.take(Suback)
    node.release()
    assert reader.take(Suback)
    got = reader.drain()
    assert got.count(b"new") == 1
    assert sorted(got) == sorted([*KEPT[:9], *KEPT[10:], b"new"])


def test_who_goes_on_after_a_restart_reads_what_is_there_then() -> None:
    """A message that was removed meanwhile does not come, nor does one of a filter that was given up."""
    node, writer = filled()
    durable(node).subscribe("r/#", qos=1)
    node.restart()
    writer = node.connect("writer")
    writer.publish(TOPICS[8], b"", qos=1, retain=True)
    reader = durable(node)
    got = reader.drain()
    assert sorted(one for one in got if one) == KEPT[:8] + KEPT[9:]
    reader.subscribe("r/+", qos=1)
    reader.unsubscribe("r/+")
    reader.drain()
    node.restart()
    assert durable(node).drain() == []


def test_who_subscribes_where_nothing_is_retained_has_nothing_to_read() -> None:
    node = Node()
    reader = durable(node)
    reader.subscribe("r/#", "+/x", "y", qos=1)
    assert node.session("reader").readers is None


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("topic", [TOPICS[9], "r/new"])
def test_what_is_published_after_suback_comes_once(kept: bool, qos: int, topic: str) -> None:
    """As it is published, or, of a session that is kept, in its turn from the log; never as a retained one as well."""
    node, writer = filled()
    reader = durable(node) if kept else node.connect("reader", receive_maximum=3)
    reader.subscribe("r/#", qos=2)
    writer.publish(topic, b"one", qos=qos, retain=True)
    writer.publish(topic, b"two", qos=qos, retain=True)
    if qos == 2:
        writer.ack(PacketType.PUBREL, 1)
    got = reader.drain()
    assert [one for one in got if not one.startswith(b"r/")] == [b"one", b"two"]
    assert sorted(one for one in got if one.startswith(b"r/")) == sorted({*KEPT} - {topic.encode()})


def test_who_has_lost_what_was_published_reads_it() -> None:
    """Better twice than not at all."""
    node, writer = filled(MqttSettings(max_queued_messages=2))
    reader = node.connect("reader", receive_maximum=1)
    reader.subscribe("r/#", qos=1)
    for number in range(4):
        writer.publish(TOPICS[9], b"%d" % number, qos=1, retain=True)
    assert node.dropped() == {"queue_full": 2}
    assert reader.drain()[-3:] == [b"3", KEPT[10], KEPT[11]]


def test_at_qos_0_what_is_retained_comes_whatever_has_come() -> None:
    node, writer = filled()
    reader = node.connect("reader", receive_maximum=1)
    reader.subscribe("r/#", qos=1)
    writer.publish(TOPICS[9], b"new", retain=True)
    got = reader.drain()
    assert got.count(b"new") == 2
    assert KEPT[9] not in got


def test_nobody_who_has_read_all_makes_anything_be_remembered() -> None:
    node, writer = filled()
    news = node.broker.publishing.retention.news
    reader = node.connect("reader", receive_maximum=1)
    reader.subscribe("r/#", qos=1)
    writer.publish("r/1", b"x", qos=1, retain=True)
    writer.publish("r/2", b"x", qos=1, retain=True)
    writer.publish("r/2", b"", qos=1, retain=True)
    assert set(news._at) == {b"r/1"}
    reader.drain()
    writer.publish("r/1", b"y", qos=1, retain=True)
    assert not news._at


def test_what_is_over_is_forgotten_although_nobody_asks_for_it() -> None:
    """It takes nobody's room, and is not shown."""
    node = Node(MqttSettings(max_retained_messages=2))
    writer = node.connect("writer")
    for topic in ("t/1", "t/2"):
        writer.publish(topic, b"x", qos=1, retain=True, message_expiry_interval=2)
    node.advance(3)
    assert node.view.retained("t/2") == []
    retention = node.broker.publishing.retention
    assert retention.index.count == 1
    retention.sweep(node.clock.wall())
    node.turn()
    assert retention.index.count == node.records(CacheName.RETAINED) == 0


def test_a_list_passes_over_any_number_whose_time_is_over() -> None:
    """As many pages as there may be of them."""
    node, writer = filled()
    for number in range(1500):
        writer.publish(f"over/{number}", b"x", retain=True, message_expiry_interval=1)
    node.advance(2)
    assert [one.topic for one in node.view.retained("#", None, 1)] == [KEPT[0]]
    assert node.broker.publishing.retention.index.count == len(TOPICS)


def test_the_nodes_own_topics_take_nobodys_room() -> None:
    node = Node(MqttSettings(max_retained_messages=2))
    for number in range(5):
        node.broker.publishing.path.quietly(Message(b"$SYS/%d" % number, b"x", retain=True))
    writer = node.connect("writer")
    writer.publish("t/1", b"x", qos=1, retain=True)
    writer.publish("t/2", b"x", qos=1, retain=True)
    assert node.broker.publishing.retention.index.count == 7
