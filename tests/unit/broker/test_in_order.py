"""A publisher goes on at another node: who is behind in both logs gets what it sent in its order."""

from __future__ import annotations

from random import Random
from sys import maxsize
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.broker.readers import in_order
from iot_mqtt.broker.readers.in_order import PATIENCE, OrderedCursor
from iot_mqtt.broker.readers.reading import Unlinked
from iot_mqtt.codec import PacketType
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.cluster import Interest
from iot_mqtt.topics import Effort
from tests.seeds import seeds_of
from tests.unit.broker.harness import Client, Node
from tests.unit.broker.logreaders import check, durable, lost, numbers, publish
from tests.unit.broker.neighbours import Neighbour
from tests.unit.broker.test_traces import Link

FAR = [b"far%d" % number for number in range(1000)]


def trio() -> tuple[Node, Neighbour, Neighbour, Client]:
    """Node 1, nodes 2 and 3 as it sees them, and a subscriber whose client is away."""
    node = Node(number=1)
    others = Neighbour(node, 2), Neighbour(node, 3)
    for other in others:
        other.publisher = "writer"
    reader = durable(node)
    reader.subscribe("t", qos=1)
    reader.lose()
    return node, *others, reader


@pytest.mark.parametrize("window", [1, 3, 100])
@pytest.mark.parametrize("seed", seeds_of("in-order", 5))
def test_what_moves_between_logs_comes_in_the_order_of_its_time(seed: int, window: int) -> None:
    node, second, third, _ = trio()
    chance = Random(seed)
    sent: list[bytes] = []
    for number in range(60):
        node.advance(0.1)
        place = chance.choice((node, second, third))
        if isinstance(place, Neighbour):
            sent.append(FAR[number])
            place.publish(FAR[number])
        else:
            sent.append(b"%d" % number)
            publish(node, number, number + 1)
    reader = durable(node, window=window)
    assert reader.drain() == sent
    assert all(cursor.live for cursor in node.session("reader").cursors())
    check(node)


def test_a_log_that_cannot_be_read_holds_up_nobody() -> None:
    node, second, _, _ = trio()
    second.publish(FAR[0])
    node.advance(1)
    publish(node, 0, 3)

    async def fails(*_: object) -> None:
        raise Unavailable("no server has it")

    works = second.reader.read
    second.reader.read = fails  # type: ignore[method-assign, assignment]
    reader = durable(node)
    assert reader.drain() == [b"0", b"1", b"2"]
    second.reader.read = works  # type: ignore[method-assign]
    node.advance(10)
    assert reader.drain() == [FAR[0]]
    check(node)


def hold(neighbour: Neighbour) -> Deferred[None]:
    """Its log gives no answer until this is called back."""
    answer: Deferred[None] = Deferred()
    works = neighbour.reader.read

    async def hangs(*arguments: Any) -> Any:
        await answer
        return await works(*arguments)

    neighbour.reader.read = hangs  # type: ignore[method-assign, assignment]
    return answer


def test_a_log_that_gives_no_answer_holds_up_nobody_for_long() -> None:
    """Neither an error nor an end: the others wait, and go on when their patience is over."""
    node, second, _, _ = trio()
    second.publish(FAR[0])
    node.advance(1)
    publish(node, 0, 3)
    answer = hold(second)
    reader = durable(node)
    node.advance(PATIENCE * 0.9)
    assert reader.drain() == []
    node.advance(PATIENCE * 1.2)
    assert reader.drain() == [b"0", b"1", b"2"]
    publish(node, 3, 4)
    assert reader.drain() == [b"3"], "only the first had to wait"
    assert node.counters.readers_hurried == 1
    answer.callback(None)
    node.turn()
    assert reader.drain() == [FAR[0]]
    check(node)


class Bringing(Link):
    """A link that says how far the log is."""

    def __init__(self, source: Node, target: Node) -> None:
        super().__init__(source, target)
        self.logs = target.broker.readers.logs

    def announce(self, peer: int, end: int) -> None:
        self.logs.others[peer].announce(end)


@pytest.mark.interpreted
@pytest.mark.parametrize("effort", [0, maxsize], ids=["one by one", "together"])
def test_what_a_link_brings_comes_behind_what_arrived_before(effort: int) -> None:
    """However it was served where it was published: to a topic that is looked up there first, alone."""
    there = Node(number=1)
    node = Node(number=2, grid=there.grid, follows=(1,), at_home=lambda _: False)
    link = Bringing(there, node)
    link.routes.wants(2, [Interest("t", live=True, kept=True)])
    there.broker.routing.routes.bound(Effort(effort))
    reader = durable(node)
    reader.subscribe("t", qos=1)
    reader.lose()
    publish(node, 0, 8, together=False)
    reader = durable(node, window=4)
    works, answer = node.broker.log.read, Deferred[None]()

    async def hangs(*arguments: Any) -> Any:
        await answer
        return await works(*arguments)

    node.broker.log.read = hangs  # type: ignore[method-assign, assignment]
    assert reader.drain() == numbers(0, 4)
    for one in (there, node):
        one.advance(1)
    publish(there, 8, 10)
    link.bring(there.store.committed)
    node.turn()
    assert reader.drain() == []
    answer.callback(None)
    node.turn()
    assert reader.drain() == numbers(4, 10)


def test_what_was_read_ahead_goes_with_its_generation() -> None:
    """It is counted as lost, and so it is not sent."""
    node, second, _, _ = trio()
    second.publish(FAR[0])
    node.advance(1)
    publish(node, 0, 3)
    answer = hold(second)
    reader = durable(node)
    cursors = node.session("reader").cursors()
    assert any(one.ahead is not None for one in cursors if isinstance(one, OrderedCursor))
    log = node.broker.log
    log.due(node.clock.wall() + 1e6)
    node.turn()
    dropping = Deferred.fromCoroutine(node.broker.readers.upkeep.drop(log.generations()[0].id))
    node.turn()
    assert dropping.result is True
    answer.callback(None)
    node.turn()
    assert reader.drain() == [FAR[0]]
    assert lost(node) == 3
    check(node)


def test_a_client_that_is_slow_is_waited_for() -> None:
    """Patience is about logs: what its window holds back is still sent in its order."""
    node, second, _, _ = trio()
    for number in range(4):
        second.publish(FAR[number])
        node.advance(0.1)
    publish(node, 0, 2)
    reader = durable(node, window=1)
    got = []
    while came := reader.messages():
        got += [message.payload for message in came]
        node.advance(PATIENCE * 3)
        reader.ack(PacketType.PUBACK, *(message.packet_id for message in came))
    assert got == [*FAR[:4], b"0", b"1"]
    assert node.counters.readers_hurried == 0


def test_what_waits_for_others_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound it is read again, in the same order."""
    monkeypatch.setattr(in_order, "AHEAD_BYTES", 100)
    node, second, _, _ = trio()
    sent = []
    for number in range(40):
        sent += [FAR[number], b"%d" % number]
        second.publish(FAR[number])
        node.advance(0.1)
        publish(node, number, number + 1)
        node.advance(0.1)
    reader = durable(node, window=8)
    cursors = [cursor for cursor in node.session("reader").cursors() if isinstance(cursor, OrderedCursor)]
    kept = [sum(len(run.run.wire) for run in cursor.ahead.runs) for cursor in cursors if cursor.ahead is not None]
    assert kept, "nothing waits: the test shows nothing"
    assert max(kept) <= 100
    assert reader.drain() == sent


def test_logs_whose_publishers_differ_are_read_in_long_rows() -> None:
    """Nobody has moved: reads are as few as there are logs, and their ends."""
    node, second, _, _ = trio()
    second.publisher = "another"
    for number in range(40):
        second.publish(FAR[number])
        node.advance(0.1)
        publish(node, number, number + 1)
    reads = [0]
    works = second.reader.read

    async def counted(*arguments: Any) -> Any:
        reads[0] += 1
        return await works(*arguments)

    second.reader.read = counted  # type: ignore[method-assign, assignment]
    assert len(durable(node).drain()) == 80
    assert reads[0] <= 3


def test_what_a_cut_link_has_not_brought_comes_behind_what_is_newer() -> None:
    """Not promised: nobody here knows that there is something to wait for. It comes when it is found."""
    node, second, _, _ = trio()
    reader = durable(node)
    second.record(FAR[0])
    second.lose()
    node.advance(1)
    publish(node, 0, 1)
    assert reader.drain() == [b"0"]
    second.refresh()
    assert reader.drain() == [FAR[0]]
    check(node)


@pytest.mark.parametrize("skew", [0.0, 5.0])
def test_clocks_have_to_agree_to_the_time_that_a_client_takes_to_move(skew: float) -> None:
    """Not promised where they do not; nothing is lost by that."""
    node, second, _, _ = trio()
    second.skew = skew
    second.publish(FAR[0])
    node.advance(1)
    publish(node, 0, 1)
    assert durable(node).drain() == ([b"0", FAR[0]] if skew else [FAR[0], b"0"])
    check(node)


class Unsure(Unlinked):
    """Links with nodes, of which all but one act on what is wanted here."""

    def __init__(self, other: int) -> None:
        self.other = other

    def rests(self, cursor: object, writer: int) -> bool:
        return writer != self.other


def test_what_a_link_brings_to_a_reader_that_rests_is_waited_for() -> None:
    """It had all there was of that log, and cannot rely on being offered the rest: now it knows of more."""
    node, second, third, _ = trio()
    node.broker.readers.reading.links = links = Unsure(2)
    reader = durable(node)
    node.advance(1)
    answer = hold(second)
    second.publish(FAR[0])
    node.advance(0.1)
    third.publish(FAR[1])
    assert reader.drain() == []
    links.other = 0
    answer.callback(None)
    node.turn()
    assert reader.drain() == FAR[:2]
    third.publish(FAR[2])
    assert reader.drain() == [FAR[2]]
    check(node)


def test_a_reader_that_rests_looks_again_when_its_log_has_grown_before_others_go_on() -> None:
    """It had all there was of that log, and its link was cut then."""
    node, second, third, _ = trio()
    node.broker.readers.reading.links = links = Unsure(2)
    reader = durable(node)
    node.advance(1)
    second.record(FAR[0])
    second.lose()
    answer = hold(second)
    second.refresh()
    node.advance(0.1)
    third.publish(FAR[1])
    assert reader.drain() == []
    links.other = 0
    answer.callback(None)
    node.turn()
    assert reader.drain() == FAR[:2]
    check(node)


class Ending(Unlinked):
    """Links with nodes, of which one is gone."""

    def __init__(self) -> None:
        self.writer = 0

    def rests(self, cursor: object, writer: int) -> bool:
        return not self.is_ending(writer)

    def is_ending(self, writer: int) -> bool:
        return writer == self.writer


def test_the_end_of_the_log_of_a_node_that_is_gone_is_waited_for() -> None:
    """What it had recorded last its link has not brought; its publisher goes on with another node."""
    node, second, third, _ = trio()
    node.broker.readers.reading.links = links = Ending()
    reader = durable(node)
    node.advance(1)
    second.record(FAR[0])
    second.lose()
    links.writer = 2
    node.broker.readers.elsewhere.stream_broken(2)
    node.advance(0.1)
    third.publish(FAR[1])
    assert reader.drain() == []
    links.writer = 0
    second.refresh()
    assert reader.drain() == FAR[:2]
    assert node.counters.readers_hurried == 0
    check(node)


def test_a_log_that_grew_while_the_client_was_away_is_read_before_others_go_on() -> None:
    """Whatever was known of it when the client left."""
    node, second, third, _ = trio()
    reader = durable(node)
    node.advance(1)
    reader.lose()
    for number in range(6):
        (second if number % 2 else third).publish(FAR[number])
        node.advance(0.1)
    assert durable(node).drain() == FAR[:6]


def test_a_clock_that_was_set_back_makes_nobody_wait_for_whom_he_has_no_order_with() -> None:
    """The last message of what is read may have arrived before the first one, by the clock."""
    node, second, third, _ = trio()
    second.publisher, third.publisher = "one", "two"
    second.skew = 2.0
    second.publish(FAR[0])
    second.skew = -0.3
    second.publish(FAR[1])
    third.publish(FAR[2])
    node.advance(0.1)
    third.publish(FAR[3])
    assert sorted(durable(node).drain()) == FAR[:4]
    assert node.counters.readers_hurried == 0
    check(node)
