"""How long a session outlives its connection, and what is left when its time is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iot_mqtt.broker.facade import DroppedInfo, DroppedWanted
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import PacketType, Publish
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import NEVER, ProtocolVersion
from tests.unit.broker.harness import OF_SESSIONS, V5, V31, V311, Node, run

LONGEST = 500
YEAR = 365 * 24 * 3600.0


def limited() -> Node:
    """A node that grants no more than ``LONGEST``."""
    return Node(MqttSettings(session_expiry_interval=LONGEST))


def present(node: Node, version: ProtocolVersion = V5, expiry: int | None = 60) -> bool:
    """Whether a client that comes back finds its session."""
    client = node.connect("c", version, clean=False, expiry=expiry if version is V5 else None)
    assert client.connack is not None
    return client.connack.session_present


@pytest.mark.parametrize(
    ("version", "clean", "expiry", "lasts"),
    [
        pytest.param(V31, True, None, 0, id="v3.1-clean"),
        pytest.param(V31, False, None, LONGEST, id="v3.1"),
        pytest.param(V311, True, None, 0, id="v3.1.1-clean"),
        pytest.param(V311, False, None, LONGEST, id="v3.1.1"),
        pytest.param(V5, True, None, 0, id="v5-none"),
        pytest.param(V5, False, None, 0, id="v5-not-clean-none"),
        pytest.param(V5, True, 0, 0, id="v5-0"),
        pytest.param(V5, True, 30, 30, id="v5-clean-30"),
        pytest.param(V5, False, 30, 30, id="v5-30"),
        pytest.param(V5, False, 2 * LONGEST, LONGEST, id="v5-more-than-granted"),
        pytest.param(V5, False, NEVER, LONGEST, id="v5-never-is-not-granted"),
    ],
)
def test_how_long_a_session_lasts(version: ProtocolVersion, clean: bool, expiry: int | None, lasts: int) -> None:
    """[MQTT-3.1.2-23] From the end of the connection on; then nothing of it is left anywhere."""
    node = limited()
    client = node.connect("c", version, clean=clean, expiry=expiry)
    client.subscribe("a", qos=1)
    node.advance(100)
    client.lose()
    if lasts:
        node.advance(lasts - 1)
        assert node.session("c").connection is None
        node.advance(2)
    assert node.broker.sessions.get("c") is None
    assert node.broker.routing.routes.subscription_count == 0
    assert node.records(*OF_SESSIONS) == 0
    assert not present(node, version)


@pytest.mark.parametrize(
    ("asked", "longest", "told"),
    [
        (30, LONGEST, None),
        (2 * LONGEST, LONGEST, LONGEST),
        (NEVER, LONGEST, LONGEST),
        (NEVER, NEVER, None),
        (None, LONGEST, None),
        (9, 0, 0),
    ],
    ids=str,
)
def test_connack_tells_an_interval_other_than_the_one_asked_for(
    asked: int | None, longest: int, told: int | None
) -> None:
    """[MQTT5 3.2.2.3.2] And says nothing otherwise."""
    client = Node(MqttSettings(session_expiry_interval=longest)).connect("c", expiry=asked)
    assert client.connack is not None
    assert client.connack.properties.session_expiry_interval == told


def test_a_session_that_never_expires() -> None:
    """Ten years on it is there, also after a restart."""
    node = Node(MqttSettings(session_expiry_interval=NEVER))
    node.connect("c", clean=False, expiry=NEVER).lose()
    node.advance(10 * YEAR)
    node.restart()
    node.advance(10 * YEAR)
    assert run(node.view.sessions())[0].expiry_interval == NEVER
    assert present(node)


def test_coming_back_stops_the_clock() -> None:
    """The interval counts from the last end of a connection."""
    node = Node()
    for _ in range(3):
        client = node.connect("c", clean=False, expiry=60)
        node.advance(100)
        client.lose()
        node.advance(50)
    assert present(node)


def test_the_interval_is_that_of_the_last_connect() -> None:
    """A later connection may shorten or lengthen it."""
    node = Node()
    node.connect("c", clean=False, expiry=600).lose()
    node.connect("c", clean=False, expiry=10).lose()
    node.advance(11)
    assert not present(node, expiry=10)


def test_a_connect_without_interval_ends_a_kept_session_with_its_connection() -> None:
    """It is found, served, and gone afterwards; a crash meanwhile does not bring it back."""
    node = Node()
    node.connect("c", clean=False, expiry=600).lose()
    client = node.connect("c", clean=False)
    assert client.connack is not None
    assert client.connack.session_present
    assert node.records(CacheName.SESSIONS) == 0
    node.restart()
    assert not present(node)


@pytest.mark.parametrize(
    ("connected", "said", "lasts"),
    [
        pytest.param(60, None, 60, id="unchanged"),
        pytest.param(60, 10, 10, id="shortened"),
        pytest.param(60, 400, 400, id="lengthened"),
        pytest.param(60, 0, 0, id="ended"),
        pytest.param(60, 2 * LONGEST, LONGEST, id="within-what-is-granted"),
    ],
)
def test_disconnect_may_change_the_interval(connected: int, said: int | None, lasts: int) -> None:
    """[MQTT5 3.14.2.2.2] For this end of the connection, and what is stored says the same."""
    node = limited()
    properties: dict[str, Any] = {} if said is None else {"session_expiry_interval": said}
    client = node.connect("c", clean=False, expiry=connected)
    client.disconnect(**properties)
    if lasts:
        node.restart()
        node.advance(lasts - 1)
        assert node.broker.sessions.get("c") is not None
    node.advance(2)
    assert node.broker.sessions.get("c") is None
    assert node.records(*OF_SESSIONS) == 0


@pytest.mark.parametrize("connected", [None, 0], ids=["absent", "zero"])
def test_a_session_that_was_to_end_cannot_be_kept_at_disconnect(connected: int | None) -> None:
    """[MQTT-3.14.2-2] A protocol error, and the session ends as it was to."""
    node = Node()
    client = node.connect("c", expiry=connected)
    client.disconnect(session_expiry_interval=10)
    assert client.farewell is ReasonCode.PROTOCOL_ERROR
    assert client.closed
    assert node.broker.sessions.get("c") is None


def test_zero_stays_zero_at_disconnect() -> None:
    """That is no change."""
    node = Node()
    client = node.connect("c")
    client.disconnect(session_expiry_interval=0)
    assert client.farewell is None
    assert node.counters.errors == {}


@pytest.mark.parametrize(("away", "left"), [(20, 40), (70, 1)], ids=["in-time", "too-late"])
def test_the_clock_runs_while_the_node_is_down(away: int, left: int) -> None:
    """[MQTT5 4.1] The wall counts, not the process; it is believed when it has held for an hour."""
    hour = 3600
    node = Node(tick=10)
    node.connect("c", clean=False, expiry=60 * hour).lose()
    node.grid.crash(written=False)
    node.clock.advance(away * hour)
    node.restart()
    node.advance(left * hour - 60)
    node.serve()
    assert node.broker.sessions.get("c") is not None
    node.advance(120)
    node.serve()
    node.advance(20)
    assert node.broker.sessions.get("c") is None


def test_a_client_that_was_connected_when_the_node_died_has_its_whole_interval() -> None:
    """Its connection ended with the node."""
    node = Node()
    node.connect("c", clean=False, expiry=60)
    node.advance(1000)
    node.restart()
    assert node.session("c").last_disconnect == "node_restarted"
    node.advance(59)
    assert present(node)


def test_what_waited_is_counted_when_the_session_ends() -> None:
    """Sent, queued and unfinished, each once; what arrived counts as delivered."""
    node = Node()
    client = node.connect("c", clean=False, expiry=60, receive_maximum=2)
    client.subscribe("t", qos=2)
    node.connect("writer").publish("t", b"1", b"2", b"3", b"4", qos=2)
    client.ack(PacketType.PUBREC, 1)
    client.lose()
    node.advance(61)
    assert node.dropped() == {"session_ended": 3}
    assert node.counters.messages_delivered == 1
    assert node.waiting == 0


def expire(node: Node) -> None:
    """Its time is over."""
    node.advance(61)


def start_clean(node: Node) -> None:
    """The client comes back, and wants nothing of it."""
    node.connect("line-9")


def purge(node: Node) -> None:
    """An operator ends it."""
    assert run(node.view.purge("line-9"))


def ended_sessions(node: Node) -> list[DroppedInfo]:
    """What is remembered of sessions that ended with messages."""
    return run(node.view.dropped(DroppedWanted(reason="session_ended", client="line-9"), 10))


@pytest.mark.parametrize(
    ("end", "why"),
    [(start_clean, "clean start"), (expire, "expired"), (purge, "operator")],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_waited_for_an_ended_session_is_remembered(end: Callable[[Node], None], why: str) -> None:
    """One entry among what was dropped: whose session it was, how many waited, and why it ended."""
    node = Node()
    client = node.connect("line-9", clean=False, expiry=60)
    client.subscribe("orders/#", qos=1)
    client.lose()
    writer = node.connect("writer")
    for number in range(7):
        writer.publish(f"orders/{number}", b"new", qos=1)
    end(node)
    (found,) = ended_sessions(node)
    assert (found.kind, found.client_id, found.topic, found.count) == ("dropped", "line-9", "", 7)
    assert why in found.detail
    assert node.dropped() == {"session_ended": 7}


def test_an_end_that_takes_nothing_along_is_not_among_what_was_dropped() -> None:
    """Nothing waited."""
    node = Node()
    node.connect("line-9", clean=False, expiry=60).lose()
    node.advance(61)
    assert ended_sessions(node) == []


def test_a_session_that_ends_with_its_connection_says_so() -> None:
    """It was sent something, and did not acknowledge it."""
    node = Node()
    client = node.connect("line-9")
    client.subscribe("t", qos=1)
    node.connect("writer").publish("t", b"1", qos=1)
    client.lose()
    (found,) = ended_sessions(node)
    assert (found.count, "as long as the connection" in found.detail) == (1, True)


@pytest.mark.parametrize("qos", [1, 2])
def test_without_a_store_a_session_still_outlives_its_connection(qos: int) -> None:
    """``persist_sessions: false`` means nothing is written, not that messages are lost or ids mixed up."""
    node = Node(durable=False)
    client = node.connect("c", clean=False, expiry=60, receive_maximum=2)
    client.subscribe("t", qos=qos)
    writer = node.connect("writer")
    writer.publish("t", b"1", b"2", b"3", qos=qos)
    assert client.payloads() == [b"1", b"2"]
    client.lose()
    writer.publish("t", b"4", qos=qos)
    client = node.connect("c", clean=False, expiry=60)
    came = [packet for packet in client.read() if isinstance(packet, Publish)]
    got = [(message.packet_id, message.dup, message.payload) for message in came]
    assert got == [(1, True, b"1"), (2, True, b"2"), (3, False, b"3"), (4, False, b"4")]
    assert client.drain() == [b"1", b"2", b"3", b"4"]
    assert node.records(*OF_SESSIONS) == 0
    node.restart()
    assert node.broker.sessions.get("c") is None


def test_without_a_store_an_absent_member_of_a_group_still_counts() -> None:
    """Its messages wait in memory."""
    node = Node(durable=False)
    client = node.connect("c", clean=False, expiry=60)
    client.subscribe("$share/g/t", qos=1)
    client.lose()
    node.connect("writer").publish("t", b"1", qos=1)
    assert node.connect("c", clean=False, expiry=60).drain() == [b"1"]
    assert node.dropped() == {}


def test_the_interval_begins_anew_with_each_absence() -> None:
    """The time that was left when the client came back means nothing any more."""
    node = Node()
    first = node.connect("c", clean=False, expiry=600)
    first.lose()
    node.advance(300)
    second = node.connect("c", clean=False, expiry=600)
    node.advance(100)
    second.lose()
    node.advance(400)
    assert node.session("c").connection is None
    node.advance(250)
    assert node.broker.sessions.get("c") is None
