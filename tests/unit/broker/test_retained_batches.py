"""Retained messages that come together: what is kept of them is what would be kept of each."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from iot_mqtt.broker.publishing.recording import KeptForReplays
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.broker.settings import BudgetSettings, MqttSettings
from iot_mqtt.codec import NO_PROPERTIES, Ack, Decoder, Packet, Properties, Publish
from iot_mqtt.ports.counters import Drop
from tests.seeds import seeds_of
from tests.unit.broker.harness import V5, V311, Client, Node, subscribe

TOPICS = [f"{kind}/{number}".encode() for kind in ("a", "b/c", "$d") for number in range(5)]


def packets(client: Client, rng: Random) -> list[Packet]:
    """Most with RETAIN, some without payload, many of them to the same topics."""
    found: list[Packet] = []
    qos, plain = rng.randrange(3), rng.random() < 0.5
    for _ in range(rng.randrange(1, 12)):
        payload = b"" if not plain and rng.random() < 0.2 else rng.randbytes(rng.randrange(1, 200))
        carried = rng.choice((Properties(message_expiry_interval=50, content_type="x"), NO_PROPERTIES))
        found.append(
            Publish(
                rng.choice(TOPICS[:10] if plain else TOPICS),
                payload,
                qos,
                plain or rng.random() < 0.9,
                False,
                client.next_id() if qos else 0,
                carried if client.version is V5 else NO_PROPERTIES,
            )
        )
    return found


def kept(node: Node) -> list[Any]:
    """What is retained, and what it adds up to."""
    index = node.broker.publishing.retention.index
    return [
        [index.get(topic) for topic in TOPICS],
        (index.count, index.bytes, index.system_count, index.system_bytes),
        [message.topic for message in index.page("#", None, 100)],
    ]


def story(seed: int, *, batches: bool, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was kept, sent and counted, step by step."""
    rng = Random(seed)
    with monkeypatch.context() as patch:
        if not batches:
            patch.setattr(Decoder, "routes", property(lambda _: None, lambda _, _routes: None))
        tight = rng.random() < 0.7
        # At QoS 0 those of one receiver go before those of another, which tells when there is not room for all.
        filters = ("x/#",) if tight else ("a/#", "b/+/1", "#")
        node = Node(
            MqttSettings(max_retained_messages=rng.choice((3, 12)), max_retained_bytes=rng.choice((300, 2000)))
            if tight
            else MqttSettings(),
            budget=BudgetSettings(uncommitted_bytes=rng.choice((2000, 1_000_000))),
        )
        writer = node.connect("writer", rng.choice((V5, V311)))
        reader = node.connect("reader")
        seen: list[Any] = []
        for _ in range(15):
            if rng.random() < 0.1:
                reader.subscribe(rng.choice(filters), qos=1, retain_as_published=rng.random() < 0.3)
            sent = packets(writer, rng)
            if rng.random() < 0.1:
                sent.insert(rng.randrange(len(sent)), subscribe(writer.next_id(), filters[0]))
            writer.send(*sent)
            node.clock.advance(rng.choice((0, 1, 60)))
            # Between its own messages acknowledgements have no place.
            answers = sorted(map(repr, writer.take_all()), key=lambda one: one.startswith("Publish"))
            seen.append([kept(node), reader.drain(), answers])
        seen.append((node.dropped(), dict(node.counters.messages_refused)))
        node.restart()
        seen.append(kept(node))
        return seen


@pytest.mark.parametrize("seed", seeds_of("retained batches", 120))
def test_a_batch_keeps_what_its_messages_would(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes, within quotas and beyond them, and after a restart."""
    one_by_one = story(seed, batches=False, monkeypatch=monkeypatch)
    assert story(seed, batches=True, monkeypatch=monkeypatch) == one_by_one


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each batch, whether it was kept in one go."""
    found: list[bool] = []
    retain_batch = Retention.retain_batch

    def noted(self: Retention, *given: Any) -> bool:
        found.append(retain_batch(self, *given))
        return found[-1]

    monkeypatch.setattr(Retention, "retain_batch", noted)
    return found


def retained(client: Client, *pairs: tuple[bytes, bytes], qos: int = 1) -> list[Publish]:
    """Packets with RETAIN."""
    return [Publish(topic, payload, qos, True, False, qos and client.next_id()) for topic, payload in pairs]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_they_are_kept_in_one_go_and_acknowledged_behind_the_commit(whole: list[bool], qos: int) -> None:
    """Also where somebody gets them at once; who subscribes in the same read finds them."""
    node = Node()
    writer, reader = node.connect("writer"), node.connect("reader", V311)
    reader.subscribe("t/#", qos=2)
    node.hold()
    pairs = [(b"t/%d" % number, b"%d" % number) for number in range(5)]
    writer.send(*retained(writer, *pairs, qos=qos), subscribe(writer.next_id(), "t/3"))
    assert whole == [True]
    assert [one.payload for one in reader.take_all() if isinstance(one, Publish)] == [payload for _, payload in pairs]
    first = writer.take_all()
    assert [one.payload for one in first if isinstance(one, Publish)] == [b"3"]
    assert not [one for one in first if isinstance(one, Ack)]
    node.release()
    assert [one.packet_id for one in writer.take_all() if isinstance(one, Ack)] == ([1, 2, 3, 4, 5] if qos else [])
    node.restart()
    again = node.connect("again")
    again.subscribe("t/#")
    assert again.drain() == [payload for _, payload in pairs]


def test_a_full_quota_is_counted_for_each(whole: list[bool]) -> None:
    """Those for which there is room are kept."""
    node = Node(MqttSettings(max_retained_messages=3))
    writer = node.connect("writer")
    writer.send(*retained(writer, *[(b"t/%d" % number, b"x") for number in range(5)]))
    assert whole == []
    assert node.broker.publishing.retention.index.count == 3
    assert node.counters.messages_refused[Drop.RETAINED_QUOTA] == 2


def test_a_receiver_that_is_to_see_the_flag_gets_it(whole: list[bool]) -> None:
    """Retain as published: then each is handed on by itself."""
    node = Node()
    writer, reader = node.connect("writer"), node.connect("reader")
    reader.subscribe("t/#", retain_as_published=True)
    writer.send(*retained(writer, (b"t/1", b"1"), (b"t/2", b"2")))
    assert [one.retain for one in reader.take_all() if isinstance(one, Publish)] == [True, True]
    assert whole == []


def test_what_is_recorded_is_known_by_the_beginning_of_its_topic() -> None:
    """A step says what topics begin with that concern it; with a wildcard in front that is anything."""
    node = Node()
    steps, publishing = node.broker.routing.steps, node.broker.publishing
    for filter, topic, other in [("a/+/x", b"a/b/x", b"b/b/x"), ("c/#", b"c", b"d/c"), ("+/z", b"y/z", b"y/y")]:
        step = KeptForReplays((filter,), publishing.recording, publishing.budget, node.counters, node.broker.turn)
        steps.add(step)
        assert step in steps.of(topic)
        assert step not in steps.of(other)
        assert topic.startswith(step.prefixes)
