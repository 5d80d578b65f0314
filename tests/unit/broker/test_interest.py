"""What other nodes are told of what is wanted here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

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


class Member(Node):
    """A node among others; ``own`` is what it wants, from before its sessions are loaded."""

    own: OwnInterest

    def _starting(self) -> None:
        broker, peer = self.broker, cast(Peers, Told())
        routes = PeerRoutes(peer, broker.routes, broker.groups, self.counters, broker.turn.plan)
        self.own = OwnInterest(peer, routes, broker.groups, self.store, broker.turn, self.clock)
        run(self.own.load())


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
    (cursor,) = node.broker.groups
    assert cursor.owed == 1
    node.own.loaded()
    node.advance(LINGER_SECONDS + 1)
    assert not list(node.broker.groups), "nobody has come for it"
    assert node.records(CacheName.GROUPS) == 0
