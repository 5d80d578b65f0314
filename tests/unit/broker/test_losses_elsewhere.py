"""Retention on one node takes what sessions of another node are owed: each loss is counted where its session is."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

import pytest

from iot_mqtt.broker.cluster.shared_losses import SharedLosses
from iot_mqtt.broker.losses import Cause
from iot_mqtt.codec import PacketType
from iot_mqtt.grid.log import LogSettings
from tests.unit.broker.harness import Node, run
from tests.unit.broker.neighbours import Neighbour

HOURLY = LogSettings(generation_seconds=3600, retention_seconds=7200)


def pair() -> tuple[Node, Neighbour]:
    """Node 1, and node 2, which it follows."""
    node = Node(number=1, log_settings=HOURLY)
    return node, Neighbour(node)


class Asked:
    """Questions of node 2 to node 1, or the other way round."""

    def __init__(self) -> None:
        self.later: dict[str, Callable[[bytes], Awaitable[bytes]]] = {}
        #: Node 1 does not answer.
        self.silent = False

    async def ask_all(
        self, name: str, body: bytes, within: float, only: Collection[int] | None = None
    ) -> Mapping[int, bytes | str]:
        return {1: "no answer in time" if self.silent else await self.later[name](body)}


def losses(node: Node, asked: Asked | None = None) -> SharedLosses:
    """What a node counts by, and has counted."""
    broker = node.broker
    readers = broker.readers
    return SharedLosses(asked or Asked(), readers.logs, readers.census, broker.counters, readers.upkeep.note_losses)


def absent(node: Node, name: str = "reader", filter: str = "t") -> None:
    """A durable session that is away."""
    reader = node.connect(name, expiry=100_000)
    reader.subscribe(filter, qos=1)
    reader.lose()


def retain(other: Neighbour) -> None:
    """Node 2 drops what is due, and has asked before."""
    asked = Asked()
    losses(other.node, asked)
    for generation in other.log.due(other.node.clock.wall()):
        run(asked.ask_all("log.write_off", generation.id.to_bytes(4, "big"), 1.0))
        run(other.log.drop(generation.id))
    other.store.flush()


def old_and_new(other: Neighbour) -> None:
    """Three messages whose time is over, and two that are new."""
    other.record_unforwarded(b"1", b"2", b"3")
    other.node.advance(3600)
    retain(other)
    other.node.advance(7200)
    other.record_unforwarded(b"4", b"5")


def test_what_another_node_drops_is_counted_for_the_session_that_is_owed_it() -> None:
    """With its reason, for session and node; what is new still comes, and nothing is unexplained."""
    node, other = pair()
    absent(node)
    old_and_new(other)
    retain(other)
    assert node.dropped() == node.session("reader").dropped == {"retention": 3}
    assert node.connect("reader", clean=False, expiry=100_000).drain() == [b"4", b"5"]
    assert node.counters.messages_matched == node.counters.messages_delivered + sum(node.dropped().values())
    assert node.view.info().unexplained == 0


def test_a_loss_is_told_where_the_session_is(caplog: pytest.LogCaptureFixture) -> None:
    """Retention went on at the other node, whose operator sees nothing of it."""
    node, other = pair()
    absent(node)
    old_and_new(other)
    with caplog.at_level(logging.INFO):
        retain(other)
    (line,) = [record for record in caplog.records if "have lost" in record.message]
    assert (line.levelname, vars(line)["lost"]) == ("WARNING", 3)
    node.broker.readers.upkeep.begin()
    assert node.view.info().alarms == (
        "sessions have lost 3 messages: the log's retention was over before they were read",
    )


def test_a_loss_by_order_is_told_as_such() -> None:
    """An operator has dropped it at the other node."""
    node, other = pair()
    absent(node)
    asked, asking = Asked(), Asked()
    losses(node, asked)
    there = losses(Node(number=2, log_settings=HOURLY), asking)
    asking.later = asked.later
    other.record_unforwarded(b"1", b"2", b"3")
    (old,) = other.log.generations()
    run(there.write_off(old.id, Cause.OPERATOR))
    node.broker.readers.upkeep.begin()
    by_order = "an operator dropped them from the log"
    assert node.view.info().alarms == (f"sessions have lost 3 messages: {by_order} before they were read",)


def test_what_was_taken_before_costs_nothing() -> None:
    """Each session loses what it wanted and had not read, and only from where it was."""
    node, other = pair()
    absent(node)
    absent(node, "all", "#")
    absent(node, "neither", "u")
    other.record_unforwarded(b"1", b"2")
    assert node.connect("reader", clean=False, expiry=100_000).drain() == [b"1", b"2"]
    node.clients[-1].lose()
    other.record_unforwarded(b"3")
    node.advance(3600)
    retain(other)
    node.advance(7200)
    retain(other)
    assert node.session("reader").dropped == {"retention": 1}
    assert node.session("all").dropped == {"retention": 3}
    assert not node.session("neither").dropped
    assert node.waiting == node.view.info().unexplained == 0


def test_who_is_asked_twice_counts_once() -> None:
    """The node that drops has failed and tries again; meanwhile nothing of it is read, although it is there."""
    node, other = pair()
    absent(node)
    other.record_unforwarded(b"1", b"2", b"3")
    node.advance(3600)
    retain(other)
    other.record_unforwarded(b"4")
    (old, _) = other.log.generations()
    counted = losses(node)
    for _ in range(2):
        run(counted.write_off(old.id))
        run(node.broker.readers.logs.note_drops())
    assert node.dropped() == {"retention": 3}
    assert node.connect("reader", clean=False, expiry=100_000).drain() == [b"4"]


def test_a_client_that_reads_is_cut_off() -> None:
    """It has what it was sent; what it had no room for is lost, and nothing is counted twice."""
    node, other = pair()
    absent(node)
    other.record_unforwarded(b"1", b"2", b"3")
    node.advance(3600)
    retain(other)
    (old,) = other.log.generations()
    reader = node.connect("reader", clean=False, expiry=100_000, receive_maximum=1)
    (first,) = reader.messages()
    run(losses(node).write_off(old.id))
    reader.ack(PacketType.PUBACK, first.packet_id)
    assert reader.drain() == []
    assert node.dropped() == {"retention": 2}
    assert node.counters.messages_matched == 3
    assert node.view.info().unexplained == 0


def test_the_others_are_asked_before_a_node_drops_of_its_own_log() -> None:
    """Its own sessions are counted, too; of a node that does not answer it is known that nobody has counted."""
    node, _ = pair()
    absent(node)
    asked = Asked()
    node.broker.readers.upkeep.followers.append(losses(node, asked))
    writer = node.connect("writer")
    writer.publish("t", b"1", qos=1)
    generations: list[int] = []

    async def answer(body: bytes) -> bytes:
        generations.append(int.from_bytes(body, "big"))
        assert not node.dropped()
        return b""

    asked.later["log.write_off"] = answer
    node.advance(3600)
    node.broker.readers.upkeep.begin()
    node.advance(7200)
    (old,) = node.log.generations()
    node.broker.readers.upkeep.begin()
    node.turn()
    assert generations == [old.id]
    assert node.dropped() == {"retention": 1}
    assert node.counters.readers_uncounted == 0
    asked.silent = True
    run(losses(node, asked).write_off(old.id))
    assert node.counters.readers_uncounted == 1
