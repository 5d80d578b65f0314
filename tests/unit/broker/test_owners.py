"""Whose a session is, without a network: who gets it, who is refused, what a record without an owner means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iot_mqtt.codec import ConnectWill
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import Action, ConnectAttempt, Denied, Principal
from tests.doubles.rights import AnyForm
from tests.unit.broker.harness import V31, V311, Client, Node

ANYBODY = ("bob", None, "unverified")


class Names(AnyForm):
    """Verifies every user name but one, and has the rights of everybody."""

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        return Principal(attempt.client_id, attempt.username, anonymous=attempt.username in (None, "unverified"))

    def allows(self, action: Action, asked: str) -> bool:
        return action is not Action.CLIENT or asked != "forbidden"


def make(*, clean_for_others: bool = False) -> Node:
    """A node where alice, bob and nobody are three."""
    names = Names()
    return Node(authenticator=names, authorizer=names, clean_for_others=clean_for_others)


def enter(node: Node, user: str | None, client_id: str = "c", *, clean: bool = False) -> Client:
    """A client with a session that is kept."""
    return node.connect(client_id, username=user, clean=clean, expiry=600)


def verdict(client: Client) -> ReasonCode:
    """What CONNACK says."""
    assert client.connack is not None
    return client.connack.reason


@pytest.mark.parametrize("user", ANYBODY)
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("connected", [False, True])
def test_a_session_is_kept_from_everybody_else(user: str | None, clean: bool, connected: bool) -> None:
    """Whatever they ask for, nothing of it changes, in memory and in the store."""
    node = make()
    alice = enter(node, "alice")
    alice.subscribe("t", qos=1)
    if not connected:
        alice.lose()
    session = node.kept_session("c")
    before = session.stored()
    stranger = enter(node, user, clean=clean)
    assert verdict(stranger) is ReasonCode.NOT_AUTHORIZED
    assert stranger.closed
    assert node.session("c") is session
    assert session.stored() == before
    assert not connected or not alice.closed
    assert node.counters.denied == {"session": 1}
    assert verdict(enter(node, "alice")) is ReasonCode.SUCCESS


def test_nobodys_session_is_for_nobody() -> None:
    """No name and a name that nobody verified are the same; a verified one is not."""
    node = make()
    enter(node, None).lose()
    assert verdict(enter(node, "alice")) is ReasonCode.NOT_AUTHORIZED
    again = enter(node, "unverified")
    assert again.connack is not None
    assert again.connack.session_present


def test_where_the_settings_say_so_another_user_begins_anew() -> None:
    """The old connection is told, the will goes out, and nothing is inherited."""
    node = make(clean_for_others=True)
    watcher = enter(node, "watcher", "w")
    watcher.subscribe("gone", qos=1)
    alice = node.connect("c", username="alice", clean=False, expiry=600, will=ConnectWill(b"gone", b"alice", 1))
    alice.subscribe("t", qos=1)
    bob = enter(node, "bob")
    assert bob.connack is not None
    assert (bob.connack.reason, bob.connack.session_present) == (ReasonCode.SUCCESS, False)
    assert alice.farewell is ReasonCode.SESSION_TAKEN_OVER
    assert watcher.payloads() == [b"alice"]
    assert not node.session("c").subscriptions
    assert node.session("c").owner == "bob"
    bob.lose()
    assert verdict(enter(node, "bob")) is ReasonCode.SUCCESS


def test_a_start_knows_whose_a_session_is() -> None:
    """It is in the record."""
    node = make()
    enter(node, "alice")
    enter(node, None, "public")
    node.restart()
    assert (node.session("c").owner, node.session("public").owner) == ("alice", "")
    assert verdict(enter(node, "bob")) is ReasonCode.NOT_AUTHORIZED
    assert verdict(enter(node, "bob", "public")) is ReasonCode.NOT_AUTHORIZED


def test_a_record_from_before_there_were_owners_is_adopted_once() -> None:
    """By the first who is let in: what was acknowledged for it is not lost by an upgrade."""
    node = make()
    alice = enter(node, "alice")
    alice.subscribe("t", qos=1)
    alice.lose()
    enter(node, "writer", "w").publish("t", b"kept", qos=1)
    node.store.save_session(replace(node.kept_session("c").stored(), owner=None))
    node.broker.turn.plan()
    node.turn()
    node.restart()
    assert node.session("c").owner is None
    first = enter(node, "bob")
    assert first.drain() == [b"kept"]
    assert verdict(enter(node, "alice")) is ReasonCode.NOT_AUTHORIZED
    node.restart()
    assert node.session("c").owner == "bob"


def test_a_forbidden_name_and_anothers_name_look_the_same() -> None:
    """Who is refused does not learn which names are in use."""
    node = make()
    enter(node, "alice").lose()
    answers = [enter(node, "bob", name).connack for name in ("c", "forbidden")]
    assert answers[0] == answers[1]
    assert node.counters.denied == {"session": 1, "client": 1}


def test_an_id_that_the_broker_gives_is_not_asked_for() -> None:
    """The rules about names are for those that clients bring."""
    node = make()
    assert verdict(node.connect("", username="bob")) is ReasonCode.SUCCESS


def test_mqtt_3_1_has_no_session_present() -> None:
    """Its CONNACK has a reserved byte there."""
    node = make()
    node.connect("old", V311, username="alice", clean=False).lose()
    for version, present in ((V31, False), (V311, True)):
        client = node.connect("old", version, username="alice", clean=False)
        assert client.connack is not None
        assert client.connack.session_present is present


@pytest.mark.parametrize("thief_is_gateway", [False, True])
def test_nobody_ends_the_session_of_a_gateway_that_is_connected(thief_is_gateway: bool) -> None:
    """Not even where others' sessions end for whoever asks for them; and no gateway ends the session of a client."""
    node = make(clean_for_others=True)
    node.patient = True
    gateway = enter(node, "alice", "line-1")
    node.patient = thief_is_gateway
    assert verdict(enter(node, "bob", "line-1")) is ReasonCode.NOT_AUTHORIZED
    assert not node.broker.lifecycle.owners.yields("line-1", "bob")
    assert not gateway.closed
    node.patient = False
    client = enter(node, "alice", "press-1")
    node.patient = True
    assert verdict(enter(node, "bob", "press-1")) is ReasonCode.NOT_AUTHORIZED
    assert not client.closed
