"""A session moves to another node, or comes back from the store by itself, with everything that is kept for it."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.publication import publication_of
from iot_mqtt.codec import Ack, ConnectWill, PacketType, Properties, Publish
from iot_mqtt.errors import ReasonCode
from iot_mqtt.grid.records.progress import decode_progress
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.session import Delivery, Flight
from iot_mqtt.values import Message
from tests.unit.broker.harness import OF_SESSIONS, Client, Node, run
from tests.unit.broker.logreaders import durable, numbers, publish
from tests.unit.broker.neighbours import Neighbour

PUBACK, PUBREC, PUBREL, PUBCOMP = PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP
FAR = [b"far%d" % number for number in range(100)]
PROGRESS = (CacheName.PROGRESS, b"reader")
WILL = ConnectWill(b"gone", b"will", 1, False, Properties(will_delay_interval=100))


def entry(value: object, packet_id: int = 0) -> object:
    """What is under way, as a value."""
    if isinstance(value, Flight):
        offset = value.ids.index(packet_id)
        return value.reference.part(offset, offset + 1), value.qos, value.identifiers
    if isinstance(value, Delivery):
        return value.message.payload, value.qos, value.sequence
    return value


def state(session: KeptSession) -> dict[str, Any]:
    """Everything about a session that must outlive its node."""
    return {
        "session": session.stored(),
        "subscriptions": session.subscriptions,
        "places": {one.log.writer: (one.position, one.since, one.past) for one in session.plain_cursors()},
        "replays": {name: (one.position, one.stored(0).sought) for name, one in (session.replays or {}).items()},
        "outbound": [(number, entry(value, number)) for number, value in session.outbound.entries.items()],
        "queue": [entry(one) for one in session.queue],
        "received": session.inbound.received,
        "sequence": session.sequence,
        "will": session.will,
        "timers": (session.expiry_timer is not None, session.will_timer is not None),
    }


def records(node: Node) -> dict[tuple[CacheName, bytes], bytes]:
    """What the grid holds of sessions."""
    return {(cache, key): value for cache in OF_SESSIONS for key, value in node.grid._values[cache].items()}


def rich(node: Node, other: Neighbour) -> Client:
    """A session with something of every kind: retained by value, flights of two logs, what waits in both, and more."""
    node.connect("keeper").publish("kept/1", b"retained", qos=2, retain=True)
    reader = durable(node, window=4, will=WILL)
    reader.subscribe("kept/+", "t", qos=2, identifier=7)
    reader.subscribe("old", "$replay/0/r", qos=1)
    reader.send(Publish(b"nowhere", b"", 2, packet_id=9))
    publish(node, 0, 2, qos=2)
    other.publish(*FAR[:3], qos=2)
    publish(node, 2, 4, qos=2)
    reader.ack(PUBREC, 1, 2)
    other.publish(FAR[3], topic="old")
    reader.unsubscribe("old")
    return reader


def alone(number: int = 1) -> tuple[Node, Neighbour]:
    """A node, and another one that publishes."""
    node = Node(number=number)
    return node, Neighbour(node)


def move(session: KeptSession, node: Node) -> None:
    """Its node lets go of it."""
    node.broker.lifecycle.moving.hand_over(session)
    node.turn()
    assert node.store.latest == node.store.committed


def test_one_session_comes_back_as_all_do_at_a_start() -> None:
    """Handed over and loaded again, it is what it was; a start makes the same of the same records."""
    node, other = alone()
    rich(node, other).lose()
    session = node.kept_session("reader")
    before, kept = state(session), records(node)
    assert before["queue"] or before["outbound"]
    assert set(before["places"]) == {1, 2}
    move(session, node)
    moved = records(node)
    said = decode_progress(moved.pop(PROGRESS))
    assert said == decode_progress(kept.pop(PROGRESS))._replace(counted=said.counted)
    assert {one.writer for one in said.counted or ()} == {1, 2}
    assert moved == kept
    assert node.broker.sessions.get("reader") is None
    assert not node.broker.routing.routes.match(b"t").plain
    restored = run(node.broker.lifecycle.loading.load_session("reader"))
    assert isinstance(restored, KeptSession)
    assert restored is node.session("reader")
    assert state(restored) == before
    assert run(node.broker.lifecycle.loading.load_session("reader")) is restored
    node.restart()
    assert state(node.kept_session("reader")) == before
    reader = durable(node, window=4)
    got = reader.drain()
    assert [one for one in got if one.startswith(b"far")] == [*FAR[:3], FAR[3]]
    assert [one for one in got if not one.startswith(b"far")] == numbers(0, 4)[-len(got) + 4 :]


def test_a_session_that_was_handed_over_does_not_end_here() -> None:
    """Neither its expiry nor its will is this node's affair any more."""
    node, other = alone()
    rich(node, other).lose()
    move(node.kept_session("reader"), node)
    kept = records(node)
    node.advance(10_000)
    assert records(node) == kept


def test_what_was_staged_in_the_same_turn_is_kept() -> None:
    """The connection is closed and the session handed over at once; the next batch has all of it."""
    node, other = alone()
    reader = durable(node, window=3)
    reader.subscribe("t", qos=1)
    node.hold()
    node.connect("writer").publish("t", *numbers(0, 5), qos=1)
    session = node.kept_session("reader")
    assert session.connection is not None
    session.connection.disconnect(ReasonCode.SESSION_TAKEN_OVER)
    node.broker.lifecycle.moving.hand_over(session)
    node.release()
    other.publish(FAR[0])
    restored = run(node.broker.lifecycle.loading.load_session("reader"))
    assert isinstance(restored, KeptSession)
    assert restored is not None
    assert len(restored.outbound) == 3
    assert sorted(durable(node).drain()) == [*numbers(0, 5), FAR[0]]
    assert node.session("reader").backlog == 0


def test_it_goes_on_at_another_node_and_comes_back() -> None:
    """Both nodes publish all the time; every message once, in the order of each node."""
    first = Node(number=1)
    second = Node(number=2, grid=first.grid, at_home=lambda _: False)
    first.follow(2)
    second.follow(1)
    reader = durable(first, window=3)
    reader.subscribe("t", qos=2)
    got: list[bytes] = []
    here, there = first, second
    for lap in range(6):
        for node in (here, there):
            for offset in range(5):
                _record(node, b"%d:%d" % (node.number, 5 * lap + offset))
        _announce(here, there)
        if lap % 2:
            got += _take(reader, 4)
        reader.lose()
        move(here.kept_session("reader"), here)
        here, there = there, here
        _announce(here, there)
        assert run(here.broker.lifecycle.loading.load_session("reader")) is not None
        reader = durable(here, window=3)
        got += _take(reader, 6)
    got += _take(reader, 1000)
    for number in (1, 2):
        assert [one for one in got if one.startswith(b"%d:" % number)] == [b"%d:%d" % (number, n) for n in range(30)]


def _announce(here: Node, there: Node) -> None:
    """How far the other node is; the link has brought nothing of it."""
    here.broker.readers.elsewhere.stream_broken(there.number)
    here.broker.readers.logs.others[there.number].announce(there.log.committed_end)
    here.turn()


def _record(node: Node, payload: bytes) -> None:
    """Publish at a node; it is recorded because somebody durable wants it, there or elsewhere."""
    publication = publication_of(Message(b"t", payload, 2), node.clock.wall())
    node.broker.publishing.path.fan_out.fan_out(publication, node.broker.routing.routes.match(b"t"), None)
    node.broker.publishing.recording.record(publication)
    node.broker.turn.plan()
    node.turn()


def _take(client: Client, count: int) -> list[bytes]:
    """So many messages, with both halves of their exchanges."""
    got = []
    while count > 0:
        message = next((packet for packet in client.read() if isinstance(packet, Publish)), None)
        if message is None:
            break
        client.inbox.remove(message)
        got.append(message.payload)
        count -= 1
        client.send(Ack(PUBREC, message.packet_id))
        client.send(Ack(PUBCOMP, message.packet_id))
    return got


def test_only_what_is_wanted_is_loaded_and_nothing_else_is_touched() -> None:
    """Other clients are at home elsewhere, with or without a session; later they may be wanted too."""
    node, other = alone()
    rich(node, other).lose()
    for name in ("mine", "gone"):
        client = durable(node, name)
        client.subscribe("t", qos=1)
        publish(node, 0, 1)
        client.lose()
    node.store.remove_session("gone")
    node.store.flush()
    kept = records(node)
    node.at_home = {"mine"}.__contains__
    node.restart()
    assert [session.client_id for session in node.broker.sessions] == ["mine"]
    assert records(node) == kept
    run_turns(node, {"reader", "mine"}.__contains__)
    assert {session.client_id for session in node.broker.sessions} == {"mine", "reader"}
    assert records(node) == kept
    assert node.session("reader").backlog is not None, "the census has counted it"
    run_turns(node, {"gone"}.__contains__)
    assert node.broker.sessions.get("gone") is None
    assert {key for key in kept if b"gone" in key[1]} > {key for key in records(node) if b"gone" in key[1]} == set()


def run_turns(node: Node, wanted: Any) -> None:
    """Adopt these clients."""
    done: list[None] = []

    def failed(error: BaseException) -> None:
        raise error

    drive(node.broker.lifecycle.loading.load(wanted), done.append, failed)
    node.turn()
    assert done


@pytest.mark.parametrize("name", ["before", "thereafter"])
def test_a_session_that_leaves_while_others_are_adopted_is_not_touched(name: str) -> None:
    """Another node has it by then. It leaves before its own record is read, or behind that."""
    node, other = alone()
    rich(node, other).lose()
    durable(node, name).lose()
    node.at_home = {"reader"}.__contains__
    node.restart()
    kept = records(node)

    def wanted(client_id: str) -> bool:
        if client_id == name and node.broker.sessions.get("reader") is not None:
            node.broker.lifecycle.moving.hand_over(node.kept_session("reader"))
        return True

    run_turns(node, wanted)
    assert [session.client_id for session in node.broker.sessions] == [name]
    assert records(node).keys() == kept.keys()


def test_adopted_sessions_with_many_filters_leave_turns_for_others() -> None:
    """A session is restored whole; of those with many filters fewer are restored in a turn."""
    node = Node(number=1)
    for number in range(6):
        durable(node, f"c{number}").subscribe(*(f"{number}/{place}" for place in range(400)), qos=1)
    node.at_home = lambda _: False
    node.restart()
    routes = node.broker.routing.routes
    assert routes.subscription_count == 0
    drive(node.broker.lifecycle.loading.load(lambda _: True), print, print)
    before = routes.subscription_count
    assert before <= 800
    while node.one_turn():
        assert routes.subscription_count - before <= 800
        before = routes.subscription_count
    assert routes.subscription_count == 6 * 400


def test_a_client_without_a_session_leaves_a_will_perhaps() -> None:
    """Its node died: the will goes out, whoever takes the client, and a new session is not the old one."""
    node = Node(number=1)
    watcher = node.connect("watcher")
    watcher.subscribe("gone", qos=1)
    node.connect("c", will=ConnectWill(b"gone", b"will", 1, False, Properties()))
    del node.broker.sessions._by_id["c"]
    assert run(node.broker.lifecycle.loading.load_session("c")) is None
    node.turn()
    assert watcher.drain() == [b"will"]
    assert node.records(CacheName.WILLS) == 0
    assert run(node.broker.lifecycle.loading.load_session("nobody")) is None


@pytest.mark.parametrize("last", [False, True])
def test_a_group_stays_when_a_member_moves_away(last: bool) -> None:
    """With its records if nobody is left of it."""
    node = Node(number=1)
    member = durable(node)
    member.subscribe("$share/g/t", qos=1)
    if not last:
        durable(node, "second").subscribe("$share/g/t", qos=1)
    publish(node, 0, 2)
    member.lose()
    move(node.kept_session("reader"), node)
    assert node.records(CacheName.GROUPS) == 1
    assert len(list(node.broker.readers.groups)) == (0 if last else 1)
    restored = run(node.broker.lifecycle.loading.load_session("reader"))
    assert isinstance(restored, KeptSession)
    assert restored is not None
    (group,) = node.broker.readers.groups
    assert restored in group.group.members
    publish(node, 2, 4)
    assert set(durable(node).drain()) <= set(numbers(0, 4))


def test_a_session_of_a_node_that_is_gone_says_that_it_was_lost() -> None:
    """It may have been killed, or stand still: whoever takes it over does not know."""
    node = Node(number=1)
    node.connect("gone", clean=False, expiry=60)
    node.at_home = lambda _: False
    node.restart()
    run_turns(node, {"gone"}.__contains__)
    assert node.session("gone").last_disconnect == "node_lost"


def test_a_life_that_follows_another_says_that_the_node_was_not_restarted() -> None:
    """It had lost its place, and its process goes on."""
    node = Node(number=1)
    node.connect("c", clean=False, expiry=60)
    node.ended = "node_lost"
    node.restart()
    assert node.session("c").last_disconnect == "node_lost"
