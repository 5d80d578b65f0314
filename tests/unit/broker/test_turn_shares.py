"""A client that sends more than a turn is good for has the rest served in later turns, and others in between."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.connections.turn_shares import SHARE
from iot_mqtt.codec import Ack, PacketType, Pingreq, Publish, encode
from tests.unit.broker.harness import V5, Client, Node

#: Seconds from one look at the clock to the next.
COST = SHARE / 2


@pytest.fixture
def node() -> Node:
    """Its time goes on while packets are served."""
    node = Node()
    now = [0.0]

    def monotonic() -> float:
        now[0] += COST
        return now[0]

    node.broker.inbound.dispatch._shares.monotonic = monotonic
    return node


def send(client: Client, count: int) -> None:
    """So many packets that are answered, in one read."""
    client.wire.feed(encode(Pingreq(), V5) * count)


def answers(client: Client) -> int:
    return len(client.acks(PacketType.PINGRESP))


def test_who_sends_much_does_not_keep_others_waiting(node: Node) -> None:
    """A few packets are served, and nothing more is read; another's come first then."""
    heavy, healthy = node.connect("heavy"), node.connect("healthy")
    send(heavy, 100)
    assert not heavy.wire.channel.reading
    send(healthy, 1)
    node.one_turn()
    assert answers(healthy) == 1
    assert 0 < answers(heavy) < 40
    node.turn()
    assert heavy.wire.channel.reading
    assert node.counters.publishers_paused["turn"] > 2


def test_all_of_it_is_served_in_order(node: Node) -> None:
    """Also what is taken out of batches by that."""
    heavy, reader = node.connect("heavy"), node.connect("reader")
    reader.subscribe("t/#", qos=1)
    publishes = [Publish(b"t/%d" % (n % 50), b"%d" % n, n % 2, packet_id=n if n % 2 else 0) for n in range(200)]
    heavy.send(*publishes)
    assert reader.payloads() == [b"%d" % n for n in range(200)]
    assert len(heavy.acks(PacketType.PUBACK)) == 100
    assert node.counters.publishers_paused["turn"] > 0


def test_those_who_wait_take_turns(node: Node) -> None:
    """Nobody overtakes: whoever has waited longest is served first."""
    clients = [node.connect(f"heavy {n}") for n in range(5)]
    for client in clients:
        send(client, 200)
    served = [0] * len(clients)
    for _ in range(30):
        node.one_turn()
        served = [before + answers(client) for before, client in zip(served, clients, strict=True)]
    assert min(served) > 20
    assert max(served) - min(served) < 40
    node.turn()
    assert [before + answers(client) for before, client in zip(served, clients, strict=True)] == [200] * 5


def test_who_leaves_meanwhile_is_forgotten(node: Node) -> None:
    """What is left of its packets is not served."""
    heavy = node.connect("heavy")
    send(heavy, 100)
    assert node.broker.publishing.budget.paused_count == 1
    heavy.lose()
    assert node.broker.publishing.budget.paused_count == 0
    assert node.counters.packets_received["PINGREQ"] < 40


def test_a_few_packets_need_no_look_at_the_clock(node: Node) -> None:
    """However long they take."""
    client = node.connect("c")
    for _ in range(50):
        send(client, 8)
    node.turn()
    assert answers(client) == 400
    assert not node.counters.publishers_paused


def test_a_batch_of_overlapping_filters_is_served_some_at_a_time(node: Node) -> None:
    """Its packets take long one by one; none is lost, and what comes behind them waits."""
    heavy, reader = node.connect("heavy"), node.connect("reader")
    reader.subscribe("t/#", "t/+")
    for _ in range(2):  # its topics are known the second time
        heavy.wire.feed(
            b"".join(encode(Publish(b"t/%d" % n, b"%d" % n), V5) for n in range(200)) + encode(Pingreq(), V5)
        )
        assert not heavy.wire.channel.reading
        assert 0 < node.counters.messages_received % 200 < 40
        node.turn()
        assert reader.payloads() == [b"%d" % n for n in range(200)]
        assert answers(heavy) == 1


@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledgements_of_such_a_batch_keep_their_order(node: Node, qos: int) -> None:
    heavy, reader = node.connect("heavy"), node.connect("reader")
    reader.subscribe("t/#", "t/+", qos=0)
    heavy.wire.feed(b"".join(encode(Publish(b"t/%d" % n, b"%d" % n, qos, packet_id=n + 1), V5) for n in range(200)))
    assert not heavy.wire.channel.reading
    node.turn()
    assert reader.payloads() == [b"%d" % n for n in range(200)]
    kind = PacketType.PUBACK if qos == 1 else PacketType.PUBREC
    assert [ack.packet_id for ack in heavy.take(Ack) if ack.type is kind] == list(range(1, 201))
