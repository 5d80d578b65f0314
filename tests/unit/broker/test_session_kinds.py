"""Two kinds of sessions: which one a client gets, and for how long."""

from __future__ import annotations

import sys

import pytest

from iot_mqtt import compiled
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.session import Session
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V311, Node


@pytest.mark.parametrize(
    ("version", "clean", "expiry", "kept"),
    [
        (V5, True, None, False),
        (V5, False, 0, False),
        (V5, True, 60, True),
        (V311, True, None, False),
        (V311, False, None, True),
    ],
)
def test_the_kind_is_decided_at_connect(
    version: ProtocolVersion, *, clean: bool, expiry: int | None, kept: bool
) -> None:
    """By whether the session is to outlive its connection, whatever else the client says."""
    node = Node()
    client = node.connect("c", version, clean=clean, expiry=expiry)
    client.subscribe("t", qos=1)
    session = node.session("c")
    assert type(session) is (KeptSession if kept else Session)
    assert session.durable is kept
    assert [one.live for one in session.plain_cursors()] == [True] * kept
    client.lose()
    assert (node.broker.sessions.get("c") is None) is not kept


def test_one_that_ends_with_its_connection_is_small() -> None:
    """There may be a hundred thousand of them."""
    node = Node()
    node.connect("c")
    assert sys.getsizeof(node.session("c")) <= (232 if compiled.CHOICE.use else 192)


def test_a_kept_session_may_be_resumed_to_end_with_its_connection() -> None:
    """It stays of its kind: what it was owed of the log it still gets, and it ends when its client goes."""
    node = Node()
    node.connect("c", expiry=60).subscribe("t", qos=1)
    node.clients[-1].lose()
    node.connect("w").publish("t", b"0", qos=1)
    session = node.session("c")
    client = node.connect("c", clean=False, expiry=0)
    assert node.session("c") is session and type(session) is KeptSession
    assert client.payloads() == [b"0"]
    assert not session.durable and node.records(CacheName.SESSIONS) == 0
    node.connect("w").publish("t", b"1", qos=1)
    assert client.payloads() == [b"1"]
    client.lose()
    assert node.broker.sessions.get("c") is None


def test_who_takes_over_one_that_was_to_end_gets_one_of_its_own() -> None:
    """A client that connects again under its id, and wants to be remembered now, begins with nothing."""
    node = Node()
    node.connect("c").subscribe("t", qos=1)
    before = node.session("c")
    client = node.connect("c", clean=False, expiry=60)
    assert client.connack is not None and not client.connack.session_present
    assert before.ended and type(node.session("c")) is KeptSession
    node.connect("w").publish("t", b"0", qos=1)
    assert client.payloads() == []
