"""``ctl subscriptions | routes | groups | nodes``, and what lists, ``retained`` and ``publish`` can be asked for."""

from __future__ import annotations

import json

import pytest

from iot_mqtt.broker.facade import ClientsWanted, SessionsWanted
from iot_mqtt.values import Message
from tests.unit.app.ctl.ctlkit import Ctl


def _words(line: str) -> str:
    return " ".join(line.split())


def _last(ctl: Ctl) -> Message:
    """What was published last."""
    message = ctl.view.done[-1]
    assert isinstance(message, Message)
    return message


def test_a_subscription_is_made_and_ended_for_a_client(ctl: Ctl) -> None:
    """The slash of a filter is part of it."""
    ctl.view.keep_session("c")
    made = ctl.lines("subscriptions", "add", "c", "a/+", "--qos", "2", "--retain-handling", "1", "--no-local")
    assert _words(made[1]) == "c a/+ 2 yes no 1 - n1"
    assert ctl.lines("subscriptions", "remove", "c", "a/+") == ["unsubscribed c", "from a/+"]
    again = ctl.run("subscriptions", "remove", "c", "a/+")
    assert (again.exit_code, "has not subscribed" in again.stderr) == (1, True)


def test_who_gets_a_topic_is_listed(ctl: Ctl) -> None:
    """As filters, and as subscriptions; groups with their members."""
    for filter in ("a/+", "b", "$share/g/a/#"):
        ctl.view.subscribe("c", filter)
    assert [line.split()[0] for line in ctl.lines("routes", "list", "--topic", "a/1")] == ["FILTER", "a/+"]
    assert len(ctl.lines("routes", "list")) == 4
    assert len(ctl.lines("subscriptions", "list", "--topic", "a/1")) == 2
    assert [line.split()[:2] for line in ctl.lines("groups", "list")] == [["GROUP", "TOPICS"], ["g", "a/#"]]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (
            ["clients", "list", "--prefix", "p", "--user", "u", "--address", "10.0.0.0/8", "--listener", "l"],
            ClientsWanted("p", "u", "10.0.0.0/8", "l"),
        ),
        (
            ["sessions", "list", "--prefix", "p", "--user", "", "--away", "--state", "offline"],
            SessionsWanted("p", "", connected=False, state="offline"),
        ),
        (["sessions", "list", "--connected"], SessionsWanted(connected=True)),
    ],
)
def test_lists_are_narrowed_by_the_node(ctl: Ctl, arguments: list[str], wanted: object) -> None:
    """Not by ctl: there may be many."""
    ctl.lines(*arguments)
    assert ctl.view.wanted == wanted


def test_retained_messages_are_removed_by_a_filter(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as there are more; not both, and not nothing."""
    monkeypatch.setattr("iot_mqtt.app.ctl.messages.PAGE", 2)
    for number in range(5):
        ctl.view.retain(f"a/{number}")
    ctl.view.retain("b")
    assert ctl.lines("retained", "delete", "--filter", "a/#") == ["removed 5"]
    assert len(ctl.lines("retained", "list")) == 2
    assert ctl.run("retained", "delete").exit_code == 2
    assert ctl.run("retained", "delete", "b", "--filter", "#").exit_code == 2


def test_what_is_published_has_the_properties_that_were_asked_for(ctl: Ctl) -> None:
    """And none where none were."""
    ctl.lines(
        *(
            "publish",
            "t",
            "x",
            "--content-type",
            "text/plain",
            "--user-property",
            "a",
            "1",
            "--user-property",
            "a",
            "2",
        ),
        *("--response-topic", "re", "--correlation-data", "c", "--payload-format", "1", "--message-expiry", "60"),
    )
    message = _last(ctl)
    assert message.properties == b"\1\1\3\0\ntext/plain\x08\0\2re\x09\0\1c&\0\1a\0\0011&\0\1a\0\0012"
    assert message.expires_at is not None
    ctl.lines("publish", "t", "x")
    assert (_last(ctl).properties, _last(ctl).expires_at) == (b"", None)


def test_nodes_say_how_they_are(ctl: Ctl) -> None:
    """In a table, and one by itself."""
    assert ctl.lines("nodes", "list")[1].startswith("n1 ")
    assert json.loads(ctl.run("nodes", "list", "--json").stdout)[0]["drain"]["state"]
    assert any(line.split() == ["node", "id", "n1"] for line in ctl.lines("nodes", "show", "n1"))
    assert ctl.run("nodes", "show", "n9").exit_code == 1
