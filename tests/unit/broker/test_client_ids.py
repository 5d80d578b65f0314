"""Client ids: given by the client, given by the server, too long, or missing."""

from __future__ import annotations

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V31, V311, Node

INVALID = ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
VERSIONS = pytest.mark.parametrize("version", [V31, V311, V5], ids=["v3.1", "v3.1.1", "v5"])


@pytest.mark.parametrize(
    ("version", "clean", "allowed", "accepted"),
    [
        pytest.param(V31, True, True, False, id="v3.1-must-have-one"),
        pytest.param(V311, True, True, True, id="v3.1.1-clean"),
        pytest.param(V311, False, True, False, id="v3.1.1-not-clean"),
        pytest.param(V311, True, False, False, id="v3.1.1-not-offered"),
        pytest.param(V5, True, True, True, id="v5-clean"),
        pytest.param(V5, False, True, True, id="v5-not-clean"),
        pytest.param(V5, True, False, False, id="v5-not-offered"),
    ],
)
def test_an_empty_client_id(version: ProtocolVersion, clean: bool, allowed: bool, accepted: bool) -> None:
    """[MQTT-3.1.3-6] [MQTT-3.1.3-7] [MQTT-3.1.3-8] One is given, or the client is refused with 0x02 or 0x85."""
    node = Node(MqttSettings(allow_empty_client_id=allowed))
    client = node.connect("", version, clean=clean)
    assert client.connack is not None
    assert client.connack.reason is (ReasonCode.SUCCESS if accepted else INVALID)
    assert client.closed is not accepted
    assert [session.client_id for session in node.broker.sessions] == (["auto-1"] if accepted else [])
    if accepted and version is V5:
        assert client.connack.properties.assigned_client_identifier == "auto-1"


def test_the_wire_says_0x02_to_3_x() -> None:
    """[MQTT-3.1.3-9] of 3.1.1: identifier rejected."""
    client = Node().open(V311)
    client.feed(b"\x10\x0c\x00\x04MQTT\x04\x00\x00\x00\x00\x00")
    assert client.wire.take() == b"\x20\x02\x00\x02"
    assert client.closed


def test_a_given_id_is_nobody_elses() -> None:
    """Not even one that a client chose to look like ours."""
    node = Node()
    node.connect("auto-1")
    given = []
    for _ in range(3):
        client = node.connect("")
        assert client.connack is not None
        given.append(client.connack.properties.assigned_client_identifier)
    assert given == ["auto-2", "auto-3", "auto-4"]
    assert node.broker.clients.connections.clients == 4


def test_a_client_may_come_back_with_the_id_it_was_given() -> None:
    """To its session, subscriptions and all."""
    node = Node()
    first = node.connect("", expiry=60)
    first.subscribe("t", qos=1)
    first.lose()
    node.connect("writer").publish("t", b"x", qos=1)
    again = node.connect("auto-1", clean=False, expiry=60)
    assert again.connack is not None
    assert again.connack.session_present
    assert again.connack.properties.assigned_client_identifier is None
    assert again.payloads() == [b"x"]


@VERSIONS
@pytest.mark.parametrize(("length", "accepted"), [(1, True), (23, True), (24, True), (40, True), (41, False)], ids=str)
def test_the_length_of_an_id_is_limited(version: ProtocolVersion, length: int, accepted: bool) -> None:
    """[MQTT-3.1.3-5] More than 23 characters are fine; above the limit 0x85 or 0x02, and nothing is made."""
    node = Node(MqttSettings(max_client_id_length=40))
    client = node.connect("x" * length, version)
    assert client.connack is not None
    assert client.connack.reason is (ReasonCode.SUCCESS if accepted else INVALID)
    assert len(node.broker.sessions) == int(accepted)
    assert node.counters.connects_refused == ({} if accepted else {INVALID.name: 1})


@VERSIONS
@pytest.mark.parametrize("client_id", ["ä", "a/b", "#", " ", "$SYS", "日本", "😀"], ids=ascii)
def test_any_characters_make_an_id(version: ProtocolVersion, client_id: str) -> None:
    """[MQTT-3.1.3-4] Ids that look alike to a store are two sessions, and survive a restart as such."""
    node = Node()
    for name in (client_id, client_id + "x"):
        node.connect(name, version, clean=False, expiry=60 if version is V5 else None).subscribe(f"t/{len(name)}")
    node.restart()
    assert {session.client_id for session in node.broker.sessions} == {client_id, client_id + "x"}
    assert set(node.session(client_id).subscriptions) == {f"t/{len(client_id)}"}


def test_ids_differ_by_case() -> None:
    """They are compared as they are."""
    node = Node()
    lower, upper = node.connect("a"), node.connect("A")
    assert not lower.closed
    assert not upper.closed
    assert len(node.broker.sessions) == 2
