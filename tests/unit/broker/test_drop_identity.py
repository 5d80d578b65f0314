"""Nothing vanishes: what was matched is delivered, waits, or was dropped for a reason that is counted."""

from __future__ import annotations

import random
from typing import Any

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import ConnectWill, PacketType, Properties, Publish
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import OutboxSettings
from tests.seeds import seeds_of
from tests.unit.broker.harness import V311, Client, Node, subscribe

SETTINGS = MqttSettings(max_queued_messages=4, max_retained_messages=3, max_inflight=3)
OUTBOX = OutboxSettings(high_water=400, low_water=100, hard_limit=1_000_000)


def balance(node: Node) -> None:
    """The identity. A message that was not retained was delivered all the same, so that reason is no part of it."""
    counters = node.counters
    dropped = sum(count for reason, count in node.dropped().items() if reason != "retained_quota")
    waiting = node.view.info().waiting
    assert counters.messages_matched + counters.messages_restored == counters.messages_delivered + waiting + dropped


def test_a_scripted_mixture_with_every_reason() -> None:
    """The balance holds after every step, and each drop has the reason that the step is about."""
    node = Node(SETTINGS, outbox=OUTBOX, durable=False)
    writer = node.connect("writer")
    away = node.connect("away", clean=False, expiry=100, receive_maximum=2)
    away.subscribe("t", qos=2)
    small = node.connect("small", maximum_packet_size=40)
    small.subscribe("t", qos=1)
    old = node.connect("old", V311)
    old.subscribe("t", qos=0)
    group = [node.connect(f"m{number}") for number in range(2)]
    for member in group:
        member.subscribe("$share/g/t", qos=1)

    def step(reason: str | None, count: int = 0) -> None:
        balance(node)
        expected = dict(before)
        if reason is not None:
            expected[reason] = expected.get(reason, 0) + count
        assert node.dropped() == expected
        before.update(node.dropped())

    before: dict[str, int] = {}
    for qos in (0, 1, 2):
        writer.publish("t", b"1", b"2", qos=qos)
        step(None)
    for client in (away, small, old, *group):
        client.drain()
        step(None)

    writer.publish("t", b"x" * 100, b"x" * 100, qos=1)
    step("too_large", 2)
    (one, two) = away.messages()
    away.ack(PacketType.PUBACK, one.packet_id)
    away.ack(PacketType.PUBACK, two.packet_id, reason=ReasonCode.UNSPECIFIED_ERROR)
    step("rejected", 1)
    for client in (old, *group):
        client.drain()

    old.wire.link.capacity = 0
    writer.publish("t", *([b"x" * 30] * 20))
    step(None)
    writer.publish("t", b"1", b"2")
    step("outbox_full", 2)
    old.wire.link.drain()

    away.lose()
    writer.publish("t", b"1", b"2")
    step("offline_qos0", 2)
    for number in range(6):
        writer.publish("t", b"%d" % number, qos=1, message_expiry_interval=10)
        small.drain()
        for member in group:
            member.drain()
    step("queue_full", 2)
    node.advance(11)
    away = node.connect("away", clean=False, expiry=100, receive_maximum=2)
    step("expired", 4)

    writer.publish("t", b"1", b"2", b"3", qos=2)
    group[0].lose()
    step(None)
    group[1].lose()
    step("session_ended", 3)
    writer.publish("t", b"nobody left in the group", qos=1)
    step(None)

    writer.publish("r/1", b"1", retain=True)
    for number in range(2, 5):
        writer.publish(f"r/{number}", b"1", qos=int(number < 4), retain=True)
    step("retained_quota", 1)
    small.subscribe("r/#", qos=1)
    step(None)
    small.drain()
    step(None)
    node.connect("dying", will=ConnectWill(b"t", b"will", 1, False, Properties())).lose()
    step(None)
    away.lose()
    node.advance(101)
    balance(node)
    for client in (small, old):
        client.drain()
        client.lose()
    balance(node)
    assert node.waiting == 0
    reasons = "too_large rejected outbox_full offline_qos0 queue_full expired session_ended retained_quota"
    assert set(node.dropped()) == set(reasons.split())


@pytest.mark.parametrize("seed", seeds_of("drop identity", 12))
def test_a_random_mixture(seed: int) -> None:
    """Any order of connecting, publishing, answering, losing, waiting, blocking and a hanging disk."""
    dice = random.Random(seed)
    node = Node(SETTINGS, outbox=OUTBOX)
    clients: dict[str, Client] = {}

    def connect(name: str) -> None:
        durable = dice.random() < 0.6
        clients[name] = node.connect(
            name,
            clean=dice.random() < 0.3,
            expiry=20 if durable else None,
            receive_maximum=dice.choice([1, 2, 5]),
            maximum_packet_size=dice.choice([None, None, 60]),
            topic_alias_maximum=dice.choice([None, 2]),
        )

    def act(name: str) -> None:
        client = clients.get(name)
        if client is None or client.closed:
            connect(name)
            return
        deed = dice.randrange(9)
        if deed == 0:
            filter = dice.choice(["t/1", "t/+", "#", "$share/g/t/+", "$share/h/t/1"])
            client.send(subscribe(client.next_id(), filter, qos=dice.randrange(3)))
        elif deed <= 3:
            expiry: dict[str, Any] = {"message_expiry_interval": dice.choice([1, 30])} if dice.random() < 0.3 else {}
            payloads = [b"x" * dice.choice([1, 80])] * dice.choice([1, 1, 4])
            client.publish(
                f"t/{dice.randrange(2)}", *payloads, qos=dice.randrange(2), retain=dice.random() < 0.2, **expiry
            )
        elif deed == 4:
            clients.pop(name).lose()
        elif deed == 5:
            clients.pop(name).disconnect()
        elif deed == 6:
            client.wire.link.drain(dice.choice([None, 0, 100]))
            node.turn()
        else:
            client.drain()

    for _ in range(400):
        trouble = dice.randrange(30)
        if trouble == 0:
            node.hold()
        elif trouble <= 3:
            node.release()
        elif trouble == 4:
            node.advance(dice.choice([2, 25]))
        else:
            act(dice.choice("abcde"))
        balance(node)
    node.release()
    assert node.counters.messages_matched > 10
    for client in clients.values():
        if not client.closed:
            client.wire.link.drain()
            node.turn()
            client.drain()
            client.lose()
    node.advance(60)
    balance(node)
    assert node.waiting == 0
    assert not any(session.durable for session in node.broker.sessions)


def test_messages_are_counted_for_session_and_node_alike() -> None:
    """Delivered and dropped of all sessions add up to those of the node."""
    node = Node(SETTINGS)
    readers = [node.connect(f"r{number}", expiry=60, maximum_packet_size=60) for number in range(3)]
    for qos, reader in enumerate(readers):
        reader.subscribe("t", qos=qos)
    writer = node.connect("writer")
    writer.publish("t", b"1", b"x" * 100, b"2", b"3", b"4", b"5", qos=2)
    for reader in readers:
        reader.drain()
    sessions = [node.session(f"r{number}") for number in range(3)]
    assert sum(session.delivered for session in sessions) == node.counters.messages_delivered
    assert node.dropped() == {"too_large": 3}
    assert [session.dropped for session in sessions] == [{"too_large": 1}] * 3
    assert [message for reader in readers for message in reader.take(Publish)] == []


@pytest.mark.parametrize("expiry", [0, 60], ids=["clean", "durable"])
def test_acknowledgements_in_front_of_a_wrong_one_count(expiry: int) -> None:
    """PUBACK for a QoS 2 exchange ends the connection; what was acknowledged before it is delivered all the same."""
    node = Node()
    reader = node.connect("r", clean=False, expiry=expiry)
    reader.subscribe("t", qos=2)
    writer = node.connect("writer")
    writer.publish("t", b"1", qos=1)
    writer.publish("t", b"2", qos=2)
    one, two = reader.messages()
    reader.ack(PacketType.PUBACK, one.packet_id, two.packet_id)
    assert reader.closed
    assert node.counters.messages_delivered == 1
    balance(node)
    assert node.connect("r", clean=False, expiry=expiry).payloads() == ([b"2"] if expiry else [])
