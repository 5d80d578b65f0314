"""What other nodes are told of what is wanted here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from iot_mqtt.broker.cluster.forwarding import Forwarding
from iot_mqtt.broker.cluster.interest import LINGER_SECONDS, OwnInterest
from iot_mqtt.broker.cluster.peers import PeerRoutes
from iot_mqtt.ports.cluster import Interest, Peers
from iot_mqtt.ports.grid import CacheName
from tests.unit.broker.harness import Node, run
from tests.unit.broker.logreaders import durable


class Told:
    """A peer: what it was told when it began, and each change after that."""

    number = 1

    def __init__(self) -> None:
        self.believes: dict[str, Interest] = {}
        self._version = 0

    def begins(self, everything: Sequence[Interest]) -> None:
        self.believes = {one.filter: one for one in everything}

    def changed(self, interest: Sequence[Interest]) -> int:
        self.believes.update({one.filter: one for one in interest})
        self._version += 1
        return self._version


def test_a_peer_that_begins_between_a_change_and_its_way_back_believes_what_is_true() -> None:
    """A client comes back in the turn in which it went: nothing is told of either, to nobody."""
    node, peer = Node(number=1), Told()
    broker, none = node.broker, cast(Any, None)
    own = OwnInterest(cast(Peers, peer), none, none, node.store, broker.turn, node.clock)
    reader = durable(node)
    reader.subscribe("t", qos=1)
    own.settle(node.session("reader"))
    own.tell()
    reader.lose()
    own.settle(node.session("reader"))
    peer.begins(own.all())
    durable(node)
    own.settle(node.session("reader"))
    own.tell()
    assert peer.believes == {"t": Interest("t", live=True, kept=True)}


def test_what_durable_sessions_want_is_stored_as_long_as_one_wants_it() -> None:
    """For nodes that start while this one is down; and a peer is told all of it, with what changed just now."""
    node, peer = Node(number=1), Told()
    none = cast(Any, None)
    own = OwnInterest(cast(Peers, peer), none, none, node.store, node.broker.turn, node.clock)
    reader = durable(node)
    reader.subscribe("t", qos=1)
    own.settle(node.session("reader"))
    assert own.interest() == [Interest("t", live=True, kept=True)]
    node.turn()
    assert node.records(CacheName.ROUTES) == 1
    reader.unsubscribe("t")
    own.removed(node.session("reader"), "t")
    assert own.interest() == []
    node.broker.turn.plan()
    node.turn()
    assert node.records(CacheName.ROUTES) == 0


@pytest.mark.parametrize("filter", ["t", "$share/g/t"])
def test_what_a_large_session_wanted_is_counted_until_it_is_removed(filter: str) -> None:
    """The next session of that client has one of its filters, and keeps it; peers believe what is true."""
    node, peer = Node(number=1), Told()
    none = cast(Any, None)
    own = OwnInterest(cast(Peers, peer), none, none, node.store, node.broker.turn, node.clock)
    reader = durable(node)
    reader.subscribe(filter, *(f"f/{number}" for number in range(100)), qos=1)
    old = node.session("reader")
    own.settle(old)
    old.ended = True
    own.settle(old)
    assert len(own.interest()) == 101
    node.broker.sessions.remove(old)
    new = node.broker.sessions.create(type(old), "reader", version=5, created_at=0.0)
    new.connection, new.durable = old.connection, True  # type: ignore[misc]
    own.settle(new)
    new.subscribed(old.subscriptions[filter])
    own.added(new, filter)
    for one in old.subscriptions:
        own.removed(old, one)
    own.gone(old)
    members = ("reader",) if filter != "t" else ()
    assert own.interest() == [Interest(filter, live=True, kept=True, members=members)]
    assert {one for one in peer.believes.values() if not one.none} == set(own.all())
    assert old not in own._counted


class Member(Node):
    """A node among others; ``own`` is what it wants, from before its sessions are loaded."""

    own: OwnInterest
    _forwarding: Forwarding

    def _starting(self) -> None:
        broker, peer = self.broker, cast(Peers, Told())
        routing, groups, turns = broker.routing, broker.readers.groups, broker.lifecycle.route_turns
        routes = PeerRoutes(peer, routing.routes, groups, self.counters, broker.turn.plan, turns)
        self.own = OwnInterest(peer, routes, broker.readers.groups, self.store, broker.turn, self.clock)
        self._forwarding = Forwarding(peer, self.own, routes, broker.readers.groups, self.store, broker.turn)
        run(self.own.load())

    def hear(self, *interest: Interest, peer: int = 2) -> None:
        """As another node tells it."""
        self._forwarding.peer_interest(peer, interest, lambda: None)


def test_a_group_of_an_earlier_life_is_there_before_anything_is_loaded() -> None:
    """Its members may be on their way to another node: without anybody its place in the log would be removed."""
    node = Member(number=1)
    member = durable(node)
    member.subscribe("$share/g/t", qos=1)
    node.store.save_route(1, "$share/g/t")
    node.turn()
    member.lose()
    assert node.connect("writer").publish("t", b"owed", qos=1)
    node.at_home = lambda _: False
    node.restart()
    (cursor,) = node.broker.readers.groups
    assert cursor.owed == 1
    node.own.loaded()
    node.advance(LINGER_SECONDS + 1)
    assert not list(node.broker.readers.groups), "nobody has come for it"
    assert node.records(CacheName.GROUPS) == 0


def test_a_group_stays_while_a_session_that_may_be_its_member_cannot_be_read() -> None:
    """However long that takes: its subscriptions are unknown until then, and the group's may be among them."""
    node = Member(number=1)
    member = durable(node)
    member.subscribe("$share/g/t", qos=1)
    node.store.save_route(1, "$share/g/t")
    node.turn()
    member.lose()
    assert node.connect("writer").publish("t", b"owed", qos=1)
    node.at_home = lambda _: False
    node.restart()
    node.own.unread(some=True)
    node.own.loaded()
    node.advance(LINGER_SECONDS * 3)
    (cursor,) = node.broker.readers.groups
    assert cursor.owed == 1
    assert node.records(CacheName.ROUTES), "for nodes that start meanwhile, this one among them"
    node.own.unread(some=False)
    node.advance(1)
    assert not list(node.broker.readers.groups), "all sessions are read, and none is a member"
    assert node.records(CacheName.GROUPS) == 0


def test_a_group_that_others_let_go_of_stays_while_a_session_cannot_be_read() -> None:
    """Its member moved here, where it cannot be read: the node that it left counts it for half a minute more."""
    node = Member(number=1)
    early, late = Interest("$share/g/early", kept=True), Interest("$share/g/late", kept=True)
    for peer in (2, 3):
        node.hear(early, peer=peer)
    node.own.unread(some=True)
    node.hear(late, late)
    for peer in (2, 3):
        node.hear(Interest(early.filter), Interest(late.filter), peer=peer)
    assert {cursor.group.filter for cursor in node.broker.readers.groups} == {"early", "late"}
    node.own.unread(some=False)
    node.advance(1)
    assert not list(node.broker.readers.groups)


def test_a_group_whose_member_could_be_read_at_last_stays() -> None:
    """It is counted by then."""
    node = Member(number=1)
    node.own.unread(some=True)
    member = durable(node)
    node.hear(Interest("$share/g/t", kept=True))
    member.subscribe("$share/g/t", qos=1)
    node.own.settle(node.session("reader"))
    node.own.unread(some=False)
    node.hear(Interest("$share/g/t"))
    node.advance(LINGER_SECONDS + 1)
    assert len(list(node.broker.readers.groups)) == 1
    assert node.records(CacheName.ROUTES) == 1
