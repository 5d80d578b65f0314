"""What readers of the log are owed: counted after a start, and written off when retention takes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.broker.driving import breath
from iot_mqtt.broker.readers import census
from iot_mqtt.codec import Ack, Connect, PacketType, Properties, Publish, Request, encode
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.endings import SESSION_EXPIRED
from tests.unit.broker.harness import V5, Node
from tests.unit.broker.logreaders import NO_PAGES, SHORT, check, durable, forget_old, lost, numbers, publish, unreadable


def owed(node: Node, name: str = "reader") -> int | None:
    """What the node says that waits for a session."""
    return node.session(name).backlog


def scattered(node: Node) -> dict[str, int]:
    """Sessions with filters, options and claims of all kinds, and how much is in the log for each."""
    everything = durable(node, "all")
    everything.subscribe("#", qos=2)
    some = durable(node, "some")
    some.subscribe("a/+", "b/1", qos=1)
    zero = durable(node, "zero")
    zero.subscribe("#", qos=0)
    own = durable(node, "writer2")
    own.subscribe(Request("#", 1, no_local=True))
    shared = durable(node, "shared")
    shared.subscribe("$share/g/a/#", qos=1)
    late, early = durable(node, "late"), durable(node, "early", window=1)
    early.subscribe("a/1", qos=1)
    for client in (everything, some, zero, shared):
        client.lose()
    for number in range(1, 4):
        publish(node, 0, 10, f"a/{number}", together=number != 2)
        publish(node, 0, 5, f"b/{number}", qos=2)
        own.publish("a/own", b"x", qos=1)
    late.subscribe("#", qos=1)
    late.lose()
    publish(node, 0, 2, "a/1")
    publish(node, 0, 2, "a/1", qos=0)
    # One of these is under way.
    early.unsubscribe("a/1")
    early.lose()
    own.lose()
    publish(node, 2, 3, "a/1")
    return {
        "all": 30 + 15 + 3 + 3,
        "some": 30 + 5 + 3 + 3,
        "zero": 0,
        "writer2": 1,
        "late": 3,
        "early": 10 + 2 - 1,
    }


def test_counts_are_what_is_delivered_later() -> None:
    """After a restart as before it; then each session gets as many."""
    node = Node()
    expected = scattered(node)
    before = {name: owed(node, name) for name in expected}
    assert before == expected
    (group,) = node.broker.readers.groups
    assert group.backlog == 30 + 3 + 3
    node.restart()
    assert {name: owed(node, name) for name in expected} == expected
    (group,) = node.broker.readers.groups
    assert group.backlog == 36
    for name, count in expected.items():
        under_way = len(node.session(name).outbound)
        assert len(durable(node, name).drain()) == count + under_way, name
    assert len(durable(node, "shared").drain()) == 36
    assert node.waiting == 0
    check(node)


def test_counting_while_publishing_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is appended during the walk is counted once; who comes and goes meanwhile is counted in the end."""
    monkeypatch.setattr(census, "RUNS_A_TURN", 1)
    node = Node()
    for name in ("one", "two"):
        reader = durable(node, name, window=2)
        reader.subscribe("t", qos=1)
        reader.lose()
    member = durable(node, "member", window=2)
    member.subscribe("$share/g/t", qos=1)
    # The member has two of these when the node is killed: they are the first that are given out again.
    publish(node, 0, 10, together=False)
    turns = 0

    def between(call_soon: Callable[[Callable[[], None]], None]) -> Deferred[None]:
        """Something happens in the first turns of the walk."""
        nonlocal turns
        turns += 1
        if turns <= 3:
            step = turns
            call_soon(lambda: meddle(node, step))
        return breath(call_soon)

    monkeypatch.setattr(census, "breath", between)
    node.restart()
    assert turns > 10
    under_way = len(node.session("two").outbound)
    assert under_way
    assert (owed(node, "one"), owed(node, "two")) == (13, 13 - under_way)
    (group,) = node.broker.readers.groups
    assert group.backlog == 13
    before = node.waiting
    assert durable(node, "one").drain()[:10] == numbers(0, 10)
    assert len(durable(node, "two").drain()) == 13
    assert len(durable(node, "member").drain()) == 13
    assert before == 39
    assert node.waiting == 0


def meddle(node: Node, step: int) -> None:
    """Between two turns of the walk: a message; readers come; readers go."""
    node.open().wire.feed(encode(Connect(V5, f"w{step}", True), V5) + encode(Publish(b"t", b"x", 1, packet_id=1), V5))
    if step == 2:
        properties = Properties(session_expiry_interval=600, receive_maximum=2)
        for name in ("two", "member"):
            node.open().wire.feed(encode(Connect(V5, name, False, properties=properties), V5))
    if step == 3:
        for client in node.clients:
            client.wire.peer_closes()


@pytest.mark.parametrize("how", ["goes on at another node", "ends"])
def test_who_is_gone_when_the_count_is_over_is_not_counted(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """What he was owed went with him, or was dropped as far as it was known."""
    monkeypatch.setattr(census, "RUNS_A_TURN", 1)
    node = Node()
    reader = durable(node)
    reader.subscribe("t", qos=1)
    reader.lose()
    publish(node, 0, 10, together=False)

    def leave() -> None:
        session = node.kept_session("reader")
        if how == "ends":
            node.broker.lifecycle.ending.end(session, ReasonCode.SUCCESS, SESSION_EXPIRED)
        else:
            node.broker.lifecycle.moving.hand_over(session)

    turns = 0

    def between(call_soon: Callable[[Callable[[], None]], None]) -> Deferred[None]:
        nonlocal turns
        turns += 1
        if turns == 3:
            call_soon(leave)
        return breath(call_soon)

    monkeypatch.setattr(census, "breath", between)
    node.restart()
    assert turns > 3
    check(node)


def test_a_disk_that_does_not_answer_delays_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then nobody says a number."""
    node = Node(log_settings=NO_PAGES)
    reader = durable(node)
    reader.subscribe("t", qos=1)
    reader.lose()
    publish(node, 0, 5)
    with unreadable(node, monkeypatch) as attempts:
        node.restart()
        assert owed(node) is None
        node.advance(3)
        assert len(attempts) >= 2
    node.advance(2)
    assert owed(node) == 5
    publish(node, 5, 6)
    assert owed(node) == 6


def test_what_was_returned_to_a_group_is_counted_once() -> None:
    """What members had under way at QoS 1 is the group's again after a restart."""
    node = Node()
    member = durable(node, "m", window=3)
    member.subscribe("$share/g/t", qos=1)
    publish(node, 0, 3)
    node.restart()
    (group,) = node.broker.readers.groups
    assert group.backlog == 3
    node.restart()
    before = node.waiting
    assert before == 3
    assert durable(node, "m").drain() == numbers(0, 3)
    check(node)


def test_retention_is_written_off_by_session() -> None:
    """Each session's loss is counted when the generation goes, and no message twice."""
    node = Node(log_settings=SHORT)
    for name, filter in (("all", "#"), ("half", "a"), ("none", "c")):
        reader = durable(node, name)
        reader.subscribe(filter, qos=1)
        reader.lose()
    member = durable(node, "member")
    member.subscribe("$share/g/b", qos=1)
    member.lose()
    publish(node, 0, 4, "a")
    publish(node, 0, 3, "b")
    forget_old(node)
    dropped = {name: dict(node.session(name).dropped or {}) for name in ("all", "half", "none")}
    # One of all was published somewhere else.
    assert dropped == {"all": {Drop.RETENTION: 8}, "half": {Drop.RETENTION: 4}, "none": {}}
    assert lost(node) == 15
    publish(node, 4, 5, "a")
    check(node)
    assert durable(node, "all").drain() == numbers(4, 5)
    assert durable(node, "half").drain() == numbers(4, 5)
    assert durable(node, "member").drain() == []
    assert lost(node) == 15
    check(node)


def test_what_retention_takes_from_a_reader_in_mid_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that reads while it is counted finds out by itself, at the end of the log."""
    node = Node(log_settings=SHORT)
    reader = durable(node, window=2)
    reader.subscribe("t", qos=1)
    publish(node, 0, 9)
    assert reader.payloads() == numbers(0, 2)
    monkeypatch.setattr(census, "RUNS_A_TURN", 1)

    def between(call_soon: Callable[[Callable[[], None]], None]) -> Deferred[None]:
        call_soon(lambda: reader.wire.feed(encode(Ack(PacketType.PUBACK, 1), V5)))
        return breath(call_soon)

    monkeypatch.setattr(census, "breath", between)
    forget_old(node)
    got = reader.payloads()
    assert got == numbers(2, 3), "it was to read during the walk"
    assert lost(node) == 0
    reader.ack(PacketType.PUBACK, 2, 3)
    publish(node, 10, 11)
    assert reader.drain() == numbers(10, 11)
    assert lost(node) == 6
    check(node)
