"""Claims for one client by connections of several users: nobody is refused for what another one asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from iot_mqtt.broker.allowance import allowance_of
from iot_mqtt.broker.cluster.claims import MAX_WAITING, Claims
from iot_mqtt.broker.cluster.departed import Departed
from iot_mqtt.broker.session import ClientConnection
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.errors import MqttError, ReasonCode, Refused
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.cluster import Claim
from tests.unit.broker.harness import Node

NOT_AUTHORIZED, UNAVAILABLE = ReasonCode.NOT_AUTHORIZED, ReasonCode.SERVER_UNAVAILABLE


class Peers:
    """The other nodes: they are asked, and answer when the test does."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self._done: list[Callable[[Claim, str], None]] = []
        self.wanted: list[Callable[[], bool]] = []

    def claim(
        self, client_id: str, done: Callable[[Claim, str], None], wanted: Callable[[], bool], owner: str | None = None
    ) -> None:
        self.asked.append(owner)
        self._done.append(done)
        self.wanted.append(wanted)

    def answer(self, claim: Claim) -> None:
        self._done.pop(0)(claim, "so")


class Asking(ClientConnection):
    """A connection that waits to be opened."""

    def __init__(self, claims: Claims, user: str) -> None:
        super().__init__(allowance_of(MqttSettings()))
        self.principal = Principal("c", user)
        self.opened = False
        self.told: ReasonCode | None = None
        claims.claim(cast(Any, self), "c", self._open)

    @property
    def patient(self) -> bool:
        return False

    def _open(self) -> None:
        self.opened = True

    def fail(self, error: MqttError) -> None:
        self.told, self.closed = error.reason, True


class Town:
    """One node, asked by several users."""

    def __init__(self) -> None:
        self.peers = Peers()
        node, peers = Node(), cast(Any, self.peers)
        sessions, owners = node.broker.sessions, node.broker.lifecycle.owners
        departed = Departed(peers, sessions, node.store, node.broker.turn, node.clock)
        self.claims = Claims(peers, sessions, owners, departed, cast(Any, None))

    def ask(self, user: str) -> Asking:
        return Asking(self.claims, user)


@pytest.fixture
def town() -> Town:
    return Town()


def test_a_stranger_is_refused_and_the_owner_behind_him_is_asked_for(town: Town) -> None:
    """He came first; that the session is not his says nothing about the others who wait."""
    bob, alice, again = town.ask("bob"), town.ask("alice"), town.ask("bob")
    assert town.peers.asked == ["bob"]
    town.peers.answer(Claim.FOREIGN)
    assert (bob.told, again.told, alice.told) == (NOT_AUTHORIZED, NOT_AUTHORIZED, None)
    assert town.peers.asked == ["bob", "alice"]
    town.peers.answer(Claim.NEW)
    assert alice.opened
    assert not bob.opened


def test_one_who_gave_up_is_not_asked_for_any_more(town: Town) -> None:
    """The claim in his name ends as unwanted; whoever waits besides gets his turn."""
    bob, alice = town.ask("bob"), town.ask("alice")
    bob.closed = True
    assert not town.peers.wanted[0]()
    town.peers.answer(Claim.REFUSED)
    assert (town.peers.asked, alice.told) == (["bob", "alice"], None)
    assert town.peers.wanted[1]()
    town.peers.answer(Claim.REFUSED)
    assert alice.told is UNAVAILABLE


def test_one_user_cannot_keep_others_out_by_waiting(town: Town) -> None:
    """So many connections with an id may wait, for each owner."""
    for _ in range(MAX_WAITING):
        town.ask("bob")
    with pytest.raises(Refused):
        town.ask("bob")
    alice = town.ask("alice")
    town.peers.answer(Claim.FOREIGN)
    town.peers.answer(Claim.NEW)
    assert alice.opened
