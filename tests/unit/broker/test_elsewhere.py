"""Durable sessions and the logs of other nodes: everything, once, in the order of each log."""

from __future__ import annotations

from random import Random

import pytest

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Ack, PacketType, Publish
from iot_mqtt.codec.runs import run_of
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.log import Reference
from tests.seeds import seeds_of
from tests.unit.broker.harness import Client, Node, run
from tests.unit.broker.logreaders import SHORT, check, durable, lost, numbers, once_recorded, publish
from tests.unit.broker.neighbours import Neighbour, forward

PUBACK, PUBREC, PUBREL, PUBCOMP = PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP
FAR = [b"far%d" % number for number in range(1000)]


def pair(**options: object) -> tuple[Node, Neighbour]:
    """Node 1, and node 2 as it sees it."""
    node = Node(number=1, **options)  # type: ignore[arg-type]
    return node, Neighbour(node)


def far(payloads: list[bytes]) -> list[bytes]:
    """Those that were published at the other node."""
    return [one for one in payloads if one.startswith(b"far")]


def near(payloads: list[bytes]) -> list[bytes]:
    """Those that were published here."""
    return [one for one in payloads if not one.startswith(b"far")]


def test_what_is_published_elsewhere_is_sent_at_once_and_recorded_there_only() -> None:
    """Once the cursor is live it costs what an own message costs, without the page."""
    node, other = pair()
    reader = durable(node)
    reader.subscribe("t", qos=2)
    end = node.log.end
    other.publish(*FAR[:3], qos=2)
    assert reader.drain() == FAR[:3]
    assert node.log.end == end
    assert node.kept_session("reader").cursor_for(2).live  # type: ignore[union-attr]
    check(node)


@pytest.mark.parametrize("qos", [1, 2])
def test_the_order_is_kept_from_live_to_behind_and_back(qos: int) -> None:
    """With a window of two most of it comes from the log; both nodes publish."""
    node, other = pair()
    reader = durable(node, window=2)
    reader.subscribe("t", qos=qos)
    for start in range(0, 60, 6):
        other.publish(*FAR[start : start + 5], qos=qos)
        publish(node, start, start + 5, qos=qos)
        other.publish(FAR[start + 5], qos=qos)
        if start % 12:
            got = reader.drain()
            assert far(got) == FAR[start - 6 : start + 6]
            assert near(got) == numbers(start - 6, start - 1) + numbers(start, start + 5)
            assert all(cursor.live for cursor in node.session("reader").cursors())
    assert node.counters.messages_delivered == 110
    assert node.session("reader").backlog == 0
    check(node)


def test_several_that_are_behind_read_in_turn() -> None:
    """A long backlog in one log does not keep another one waiting."""
    node, other = pair()
    reader = durable(node, window=2)
    reader.subscribe("t", qos=1)
    reader.lose()
    publish(node, 0, 200)
    other.publish(*FAR[:200])
    reader = durable(node, window=2)
    got: list[bytes] = []
    while len(got) < 40:
        messages = reader.messages()
        got += [one.payload for one in messages]
        reader.ack(PUBACK, *(one.packet_id for one in messages))
    assert len(far(got)) >= 10
    assert len(near(got)) >= 10
    got += reader.drain()
    assert (far(got), near(got)) == (FAR[:200], numbers(0, 200))
    check(node)


@pytest.mark.parametrize("written", [False, True])
def test_exactly_once_over_a_restart_with_places_in_two_logs(written: bool) -> None:
    """Some of both logs acknowledged, some under way, some not taken; the positions are kept for both."""
    node, other = pair()
    reader = durable(node, window=6)
    reader.subscribe("t", qos=2)
    other.publish(*FAR[:2], qos=2)
    publish(node, 0, 2, qos=2)
    other.publish(*FAR[2:6], qos=2)
    publish(node, 2, 6, qos=2)
    before = [one.payload for one in reader.messages()]
    assert before == FAR[:2] + numbers(0, 2) + FAR[2:4]
    reader.ack(PUBREC, 1, 3)
    reader.ack(PUBCOMP, 1, 3)
    before += reader.payloads()
    node.hold()
    reader.ack(PUBREC, 2)
    node.restart(written=written)
    other.restarted()
    reader = durable(node, window=6)
    again = [one.payload for one in reader.messages() if one.dup]
    assert again == ([] if written else [FAR[1]]) + [b"1", *FAR[2:6]]
    reader.lose()
    reader = durable(node, window=6)
    rest = reader.drain()
    new = [one for one in rest if one not in before]
    assert (far(before + new), near(before + new)) == (FAR[:6], numbers(0, 6))
    other.publish(*FAR[6:8], qos=2)
    assert reader.drain() == FAR[6:8]


def test_flights_of_another_log_are_restored_and_fetched_from_there() -> None:
    """With DUP and their ids; what is published there meanwhile comes behind."""
    node, other = pair()
    reader = durable(node)
    reader.subscribe("t", qos=1)
    other.publish(*FAR[:2])
    publish(node, 0, 2)
    other.publish(FAR[2])
    reader.ack(PUBACK, 2)
    other.record(FAR[3])
    node.restart()
    reader = durable(node)
    seen = [(one.packet_id, one.dup, one.payload) for one in reader.messages()]
    assert seen == [(1, True, FAR[0]), (3, True, b"0"), (4, True, b"1"), (5, True, FAR[2]), (6, False, FAR[3])]


# What a session claims of a log.


def test_what_was_recorded_before_the_subscription_is_not_delivered() -> None:
    """Neither when the cursor has read up to there nor when it is far behind."""
    node, other = pair()
    other.publish(*FAR[:3])
    reader = durable(node)
    reader.subscribe("t", qos=1)
    reader.lose()
    other.publish(FAR[3])
    reader = durable(node)
    reader.subscribe("u", qos=1)
    reader.lose()
    other.publish(FAR[4], topic="v")
    node.restart()
    reader = durable(node)
    assert reader.drain() == [FAR[3]]
    reader.subscribe("v", qos=1)
    assert reader.drain() == []


@pytest.mark.parametrize("read", [False, True])
def test_where_a_claim_begins_is_kept_for_each_log(read: bool) -> None:
    """A subscription made while the session is behind; what it is not owed is between what it is."""
    node, other = pair()
    reader = durable(node, window=1)
    reader.subscribe("t", qos=1)
    other.publish(*FAR[:2])
    other.publish(FAR[2], topic="u")
    reader.subscribe("u", qos=1)
    other.publish(FAR[3], topic="u")
    if not read:
        # Replaced where nobody reads that log.
        node.follows = ()
        node.restart()
        durable(node, window=1).subscribe("u", qos=2)
        node.follows = (2,)
    node.restart()
    assert durable(node, window=1).drain() == [FAR[0], FAR[1], FAR[3]]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("connected", [False, True])
def test_a_log_that_began_later_is_read_from_its_beginning(restarted: bool, connected: bool) -> None:
    """A subscription from before claims all of it; one from after it was known, what comes then."""
    node = Node(number=1)
    reader = durable(node)
    reader.subscribe("t", qos=1)
    if not connected:
        reader.lose()
    other = Neighbour(node, known=False)
    other.record(*FAR[:2], qos=1)
    other.record(b"not asked for", topic="u")
    if restarted:
        node.restart()
    node.follow(2)
    node.turn()
    if restarted or not connected:
        reader = durable(node)
    reader.subscribe("u", qos=1)
    other.link.clear()
    other.publish(FAR[2])
    other.publish(FAR[3], topic="u")
    assert reader.drain() == FAR[:4]
    node.follows = (2,)
    node.restart()
    assert durable(node).drain() == []


def test_an_ended_subscription_claims_what_was_there_by_then() -> None:
    """[MQTT-3.10.4-3] And a replaced one keeps its options for that, in every log."""
    node, other = pair()
    reader = durable(node)
    reader.subscribe("t", "u", qos=1)
    reader.lose()
    other.publish(FAR[0])
    other.publish(FAR[1], topic="u")
    reader = durable(node, window=1)
    reader.unsubscribe("t")
    reader.subscribe("u", qos=2)
    other.publish(FAR[2])
    other.publish(FAR[3], topic="u", qos=2)
    node.restart()
    other.restarted()
    reader = durable(node)
    got = []
    while messages := reader.messages():
        got += [(one.payload, one.qos) for one in messages]
        reader.ack(PUBACK, *(one.packet_id for one in messages if one.qos == 1))
        reader.ack(PUBREC, *(one.packet_id for one in messages if one.qos == 2))
    assert got == [(FAR[0], 1), (FAR[1], 1), (FAR[3], 2)]


def test_a_place_in_a_log_that_is_not_read_here_is_kept() -> None:
    """Written back whatever else changes, and used when the log can be read."""
    node, other = pair()
    reader = durable(node, window=2)
    reader.subscribe("t", "u", qos=1)
    other.publish(*FAR[:4])
    reader.ack(PUBACK, 1)
    reader.unsubscribe("u")
    node.follows = ()
    node.restart()
    for _ in range(2):
        reader = durable(node, window=4)
        reader.subscribe("v", qos=1)
        reader.subscribe("t", qos=2)
        publish(node, 0, 1, topic="v")
        node.restart()
    reader = durable(node, window=10)
    # What is under way is not sent yet, nor lost.
    assert reader.messages() == []
    other.record(FAR[4])
    node.follow(2)
    node.advance(2)
    assert far(reader.drain()) == [*FAR[1:5]]
    node.follows = (2,)
    node.restart()
    assert durable(node).drain() == []


# The link.


def test_what_the_link_lost_is_read_and_nothing_comes_twice() -> None:
    """Lost at once or some of it, and brought all the same after it was read."""
    node, other = pair()
    reader = durable(node, window=10)
    reader.subscribe("t", qos=2)
    other.publish(FAR[0], qos=2)
    other.record(*FAR[1:4], qos=2)
    (late,) = other.link
    other.lose()
    other.record(FAR[4], qos=2)
    other.deliver()
    assert reader.drain() == FAR[:5]
    forward(node, late.run)
    node.turn()
    assert reader.drain() == []
    other.publish(FAR[5], qos=2)
    assert reader.drain() == [FAR[5]]
    check(node)


def test_what_nobody_announced_is_found_by_looking() -> None:
    """Of a dead node; cursors that are live then miss nothing, and what the link brings late is not taken again."""
    node, other = pair()
    reader = durable(node, window=3)
    reader.subscribe("t", qos=1)
    other.publish(FAR[0])
    other.record(*FAR[1:6])
    other.refresh()
    assert reader.drain() == FAR[:6]
    assert node.session("reader").backlog == 0
    other.deliver()
    assert reader.drain() == []
    other.publish(FAR[6])
    assert reader.drain() == [FAR[6]]
    check(node)


@pytest.mark.parametrize("read", range(6))
def test_a_run_of_which_some_was_read_before_the_link_brought_it(read: int) -> None:
    """The window is the limit."""
    node, other = pair()
    reader = durable(node, window=max(read, 1))
    reader.subscribe("t", qos=1)
    other.record(*FAR[:5])
    if read:
        other.refresh()
    other.deliver()
    assert reader.drain() == FAR[:5]
    check(node)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_position_is_not_kept_behind_what_was_offered(restarted: bool) -> None:
    """Whatever was announced by then: it would be delivered as new by and by."""
    node, other = pair()
    reader = durable(node)
    reader.subscribe("t", qos=2)
    other.record(*FAR[:2], qos=2)
    forward(node, other.link.popleft().run)
    node.turn()
    assert [one.payload for one in reader.messages()] == FAR[:2]
    if restarted:
        node.restart()
    else:
        reader.lose()
    other.deliver()
    assert [(one.payload, one.dup) for one in durable(node).messages()] == [(FAR[0], True), (FAR[1], True)]


def test_a_durable_session_waits_for_a_log_that_is_not_read_yet() -> None:
    """Delivered now and read later would be twice."""
    node = Node(number=1)
    other = Neighbour(node, known=False)
    reader = durable(node)
    reader.subscribe("t", qos=2)
    passing = node.connect("passing")
    passing.subscribe("t", qos=2)
    other.record(FAR[0], qos=2)
    forward(node, other.link.popleft().run)
    node.turn()
    assert (passing.drain(), reader.drain()) == ([FAR[0]], [])
    node.follow(2)
    node.turn()
    assert reader.drain() == [FAR[0]]
    check(node)


def test_what_the_other_node_has_removed_is_counted_where_it_was_offered() -> None:
    """Retention over there; this node hears of it when it reads."""
    node, other = pair(log_settings=SHORT)
    reader = durable(node)
    reader.subscribe("t", qos=1)
    reader.lose()
    other.publish(*FAR[:3])
    assert node.session("reader").backlog == 3
    node.advance(10.5)
    other.record(b"somewhere", topic="else")
    other.log.due(node.clock.wall())
    other.store.flush()
    node.advance(25)
    for generation in other.log.due(node.clock.wall()):
        run(other.log.drop(generation.id))
    other.refresh()
    other.publish(FAR[3])
    reader = durable(node)
    assert reader.drain() == [FAR[3]]
    assert lost(node) == 3
    check(node)


def test_a_session_that_ends_with_its_connection_reads_to_the_end_and_no_further() -> None:
    """It was durable, and is owed what was published by then; after that it is served by value."""
    node, other = pair()
    reader = durable(node, window=2)
    reader.subscribe("t", qos=1)
    reader.lose()
    other.publish(*FAR[:5])
    reader = node.connect("reader", clean=False, receive_maximum=2)
    assert reader.drain() == FAR[:5]
    session = node.kept_session("reader")
    assert (session.cursor, session.elsewhere) == (None, {})
    other.publish(*FAR[5:9])
    assert reader.drain() == FAR[5:9]
    reader.lose()
    reader = durable(node)
    reader.subscribe("t", qos=1)
    other.publish(FAR[9])
    assert reader.drain() == [FAR[9]]
    check(node)


@pytest.mark.parametrize("kind", ["$share/g/t", "$replay/0/t"])
def test_groups_and_replays_go_on(kind: str) -> None:
    """They read this node's log; a replay gets what other nodes forward by value."""
    node, other = pair()
    publish(node, 0, 2)
    reader = durable(node, window=2)
    reader.subscribe("t", kind, qos=1)
    publish(node, 2, 4)
    other.publish(*FAR[:3])
    got = reader.drain()
    times = 2 if kind.startswith("$replay") else 1
    assert set(near(got)) >= set(numbers(2, 4))
    assert sorted(far(got)) == sorted(FAR[:3] * times)
    reader.lose()
    other.publish(*FAR[3:6])
    publish(node, 4, 6)
    node.restart()
    other.restarted()
    got = durable(node, window=2).drain()
    assert sorted(far(got)) == sorted(FAR[3:6] * times)
    assert sorted(near(got)) == sorted(numbers(4, 6) * 2)


def test_what_is_kept_by_value_is_waited_for() -> None:
    """Whoever has a publication delivered is told which commit has what was kept of it."""
    node, _ = pair()
    once_recorded(node, "t")
    reader = durable(node)
    reader.subscribe(f"$replay/{node.log.end}/t", qos=1)
    reader.lose()
    node.hold()
    publication = Publication(run_of(b"t", [b"1"], [1]), b"t", "writer", 0.0)
    publication.remote = True
    outcome = node.broker.publishing.path.fan_out.fan_out(publication, node.broker.routing.routes.match(b"t"), None)
    assert outcome.ticket == node.store.latest > node.store.committed
    node.broker.turn.plan()
    node.release()
    assert node.store.committed >= outcome.ticket
    node.restart()
    assert durable(node).drain() == [b"1"]


def test_references_are_fetched_from_the_log_they_are_in() -> None:
    """In the order asked for; a log that nobody reads is not an empty one."""
    node, other = pair()
    durable(node).subscribe("t", qos=1)
    third = Neighbour(node, 3, known=False)
    publish(node, 0, 2)
    other.record(*FAR[:2])
    third.record(b"third")
    (mine,) = run(node.log.read(["t"], 0, 10, 1000)).runs
    yours, theirs = other.link[0].run, third.link[0].run
    wanted = [yours.reference.part(1, 2), mine.reference, yours.reference.part(0, 1), Reference(2 << 24 | 77, 1, 1, 1)]
    found = run(node.broker.readers.logs.fetch(wanted))
    assert [one and one.run.payloads() for one in found] == [[FAR[1]], numbers(0, 2), [FAR[0]], None]
    with pytest.raises(Unavailable, match="number 3"):
        run(node.broker.readers.logs.fetch([mine.reference, theirs.reference]))


class Memory:
    """A client that takes a QoS 2 message once."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self._unreleased: set[int] = set()

    def answer(self, client: Client, count: int) -> None:
        """Some of what came, in order."""
        for packet in client.read()[:count]:
            if isinstance(packet, Publish):
                if packet.packet_id not in self._unreleased:
                    self._unreleased.add(packet.packet_id)
                    self.got.append(packet.payload)
                answer = Ack(PUBREC, packet.packet_id)
            elif packet.type is PUBREL:
                assert isinstance(packet, Ack)
                self._unreleased.discard(packet.packet_id)
                answer = Ack(PUBCOMP, packet.packet_id)
            else:
                continue
            client.send(answer)
        client.inbox = client.inbox[count:]


@pytest.mark.parametrize("seed", seeds_of("elsewhere", 40))
def test_random_lives(seed: int) -> None:
    """Links that lose, nodes that die, a small window: exactly once and in order, from each of three logs."""
    random = Random(seed)
    node = Node(MqttSettings(session_expiry_interval=10_000_000), number=1)
    others = [Neighbour(node, 2), Neighbour(node, 3)]
    memory = Memory()
    window = random.choice([1, 3, 20])
    client = durable(node, window=window)
    client.subscribe("t", qos=2)
    count = 0
    sent: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
    for _ in range(120):
        other = random.choice(others)
        action = random.randrange(12)
        if action < 3:
            payloads = [b"%d:%d" % (other.number, count + offset) for offset in range(random.choice([1, 1, 4]))]
            count += len(payloads)
            sent[other.number] += payloads
            other.record(*payloads, qos=2)
            if random.random() < 0.5:
                other.deliver()
        elif action == 3:
            payloads = [b"1:%d" % (count + offset) for offset in range(random.choice([1, 3]))]
            count += len(payloads)
            if node.connect("writer").publish("t", *payloads, qos=2):
                sent[1] += payloads
        elif action == 4:
            other.deliver(random.choice([1, 2, None]))
        elif action == 5:
            other.lose()
        elif action == 6:
            other.refresh()
        elif action in (7, 8, 9):
            memory.answer(client, random.choice([1, 2, 100]))
        elif action == 10:
            client.lose()
            if random.random() < 0.5:
                publish(node, 0, 1, topic="other")
                other.deliver()
            client = durable(node, window=window)
        elif random.random() < 0.4:
            node.restart(written=random.random() < 0.5)
            for one in others:
                one.restarted()
            client = durable(node, window=window)
    for other in others:
        other.deliver()
    while client.read():
        memory.answer(client, 100)
    for number, payloads in sent.items():
        assert [one for one in memory.got if one.startswith(b"%d:" % number)] == payloads
    assert node.waiting == 0
