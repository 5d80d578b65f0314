"""Who a client is said to be: the user that was verified, and what it calls itself only beside that, or before."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from iot_mqtt.broker.facade import ClientsWanted, DroppedWanted
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import Action, ConnectAttempt, Denied, Principal
from iot_mqtt.ports.events import CLIENT_CONNECTED, CLIENT_DISCONNECTED, CLIENT_REFUSED, SESSION_ENDED
from tests.doubles.rights import AnyForm
from tests.unit.broker.harness import Node, run

#: Client id → who it is, whatever it calls itself.
USERS = {"press": "bob", "liar": "eve", "guest": None, "forbidden": "eve"}


class Certificates(AnyForm):
    """Knows clients by something else than their user names."""

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        if attempt.client_id not in USERS:
            return Denied(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "user name or password is wrong")
        user = USERS[attempt.client_id]
        return Principal(attempt.client_id, user, anonymous=user is None)

    def allows(self, action: Action, asked: str) -> bool:
        return asked != "forbidden"


@pytest.fixture
def node() -> Node:
    names = Certificates()
    return Node(authenticator=names, authorizer=names)


def _events(node: Node, kind: str) -> list[dict[str, Any]]:
    return [event.fields for event in node.broker.monitoring.events.after(0, 100)[0] if event.kind == kind]


def test_clients_are_listed_by_the_user_that_was_verified(node: Node) -> None:
    """Whatever they call themselves, or whether they do; that is shown beside it where it is another name."""
    for client, name in (("press", None), ("liar", "ann"), ("guest", "ann")):
        node.connect(client, username=name)
    shown = {one.client_id: (one.username, one.claimed_user) for one in run(node.view.clients())}
    assert shown == {"press": ("bob", None), "liar": ("eve", "ann"), "guest": (None, "ann")}
    found = {
        user: [one.client_id for one in run(node.view.clients(wanted=ClientsWanted(user=user)))]
        for user in ("bob", "eve", "ann", "")
    }
    assert found == {"bob": ["press"], "eve": ["liar"], "ann": [], "": ["guest"]}
    node.connect("press", username="bob")
    again = node.view.client("press")
    assert again is not None and (again.username, again.claimed_user) == ("bob", None)


def test_events_name_the_user_that_was_verified(node: Node) -> None:
    """From the first to the last of a client, and its ends that are remembered."""
    node.connect("liar", username="ann").lose()
    assert [one["user"] for one in _events(node, CLIENT_CONNECTED)] == ["eve"]
    assert [one["user"] for one in _events(node, CLIENT_DISCONNECTED)] == ["eve"]
    assert [one["user"] for one in _events(node, SESSION_ENDED)] == ["eve"]
    assert [one.username for one in node.view.attempts("liar")] == ["eve"]


def test_a_session_that_expires_or_is_purged_is_its_owners(node: Node) -> None:
    """Nobody is connected any more who could call himself anything."""
    node.connect("liar", username="ann", clean=False, expiry=10).lose()
    node.advance(11)
    assert [one["user"] for one in _events(node, SESSION_ENDED)] == ["eve"]
    node.connect("liar", username="ann", clean=False, expiry=10).lose()
    stored = node.kept_session("liar").stored()
    assert (stored.owner, stored.username) == ("eve", "eve")
    run(node.view.purge("liar"))
    assert [one["user"] for one in _events(node, SESSION_ENDED)] == ["eve", "eve"]


def test_who_is_refused_before_that_is_nobody_who_claims_to_be_somebody(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """In the event, in what is remembered, in the log and among what was dropped."""
    caplog.set_level(logging.INFO)
    node.connect("thief", username="ann")
    assert [(one["user"], one["claimed_user"]) for one in _events(node, CLIENT_REFUSED)] == [(None, "ann")]
    assert [(one.username, one.claimed_user) for one in node.view.attempts("thief")] == [(None, "ann")]
    (dropped,) = run(node.view.dropped(DroppedWanted(kind="connect"), 10))
    assert (dropped.user, dropped.claimed_user) == (None, "ann")
    (line,) = [record for record in caplog.records if "refused" in record.getMessage()]
    assert (vars(line)["user"], vars(line)["claimed_user"]) == (None, "ann")


def test_who_is_refused_after_that_is_who_it_is(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """A name that the rules do not give to this user."""
    caplog.set_level(logging.INFO)
    node.connect("forbidden", username="eve")
    assert [(one["user"], one["claimed_user"]) for one in _events(node, CLIENT_REFUSED)] == [("eve", None)]
    line = caplog.records[-1]
    assert vars(line)["user"] == "eve" and "claimed_user" not in vars(line)
