"""Wills: when they are published, when not, and what happens to them when the node dies."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import ConnectWill, Properties, Publish
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import ProtocolVersion
from tests.doubles.rights import NoPublishing
from tests.unit.broker.harness import OF_SESSIONS, V5, V31, V311, Client, Node

WITH_WILL = ReasonCode.DISCONNECT_WITH_WILL


def will(delay: int | None = None, *, qos: int = 1, retain: bool = False, **properties: Any) -> ConnectWill:
    """A will on the topic ``will``."""
    return ConnectWill(b"will", b"gone", qos, retain, Properties(will_delay_interval=delay, **properties))


def watched(node: Node) -> Client:
    """Somebody who wants to know."""
    watcher = node.connect("watcher", clean=False, expiry=3600)
    watcher.subscribe("will", qos=2)
    return watcher


@pytest.mark.parametrize("version", [V31, V311, V5], ids=["v3.1", "v3.1.1", "v5"])
@pytest.mark.parametrize("end", ["lost", "error", "kicked", "taken over", "said goodbye"])
def test_a_will_is_published_when_the_connection_ends_without_a_farewell(version: ProtocolVersion, end: str) -> None:
    """[MQTT-3.1.2-8] [MQTT-3.1.2-10] Once, and its record is gone."""
    node = Node()
    watcher = watched(node)
    client = node.connect("c", version, will=ConnectWill(b"will", b"gone", 1, False, Properties()))
    assert node.records(CacheName.WILLS) == 1
    if end == "lost":
        client.lose()
    elif end == "error":
        client.feed(b"\xff\xff\xff\xff\xff")
    elif end == "kicked":
        assert node.view.client("c") is not None
        node.session("c").connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION)  # type: ignore[union-attr]
        node.turn()
    elif end == "taken over":
        node.connect("c", version)
    else:
        client.disconnect()
    assert watcher.drain() == ([] if end == "said goodbye" else [b"gone"])
    assert node.records(CacheName.WILLS) == 0


@pytest.mark.parametrize(
    ("reason", "published"),
    [(ReasonCode.SUCCESS, False), (WITH_WILL, True), (ReasonCode.UNSPECIFIED_ERROR, True), (ReasonCode(0x93), True)],
    ids=["0x00", "0x04", "0x80", "0x93"],
)
@pytest.mark.parametrize("expiry", [None, 60], ids=["clean", "durable"])
def test_only_a_normal_disconnect_cancels_the_will(reason: ReasonCode, published: bool, expiry: int | None) -> None:
    """[MQTT-3.14.4-3] For good: it does not come later either."""
    node = Node()
    watcher = watched(node)
    node.connect("c", expiry=expiry, will=will()).disconnect(reason)
    assert watcher.drain() == [b"gone"] * published
    node.restart()
    node.advance(100)
    assert node.connect("watcher", clean=False, expiry=3600).drain() == []


@pytest.mark.parametrize(
    ("delay", "expiry", "after"),
    [
        pytest.param(None, None, 0, id="no-delay-no-session"),
        pytest.param(None, 60, 0, id="no-delay"),
        pytest.param(0, 60, 0, id="delay-0"),
        pytest.param(20, 60, 20, id="delay"),
        pytest.param(60, 60, 60, id="delay-as-long-as-the-session"),
        pytest.param(90, 60, 60, id="the-session-ends-first"),
        pytest.param(90, None, 0, id="no-session-no-delay"),
    ],
)
def test_a_will_waits_for_its_delay_but_no_longer_than_the_session(
    delay: int | None, expiry: int | None, after: int
) -> None:
    """[MQTT-3.1.3-9] [MQTT5 3.1.3.2.2]"""
    node = Node()
    watcher = watched(node)
    node.connect("c", expiry=expiry, will=will(delay)).lose()
    if after:
        node.advance(after - 1)
        assert watcher.drain() == []
        node.advance(1.5)
    assert watcher.drain() == [b"gone"]
    node.advance(200)
    assert watcher.drain() == []


@pytest.mark.parametrize("again", [None, 60], ids=["without-a-will", "with-a-will"])
def test_coming_back_in_time_cancels_a_will_that_waits(again: int | None) -> None:
    """[MQTT-3.1.3-9] The will of the new connection takes its place."""
    node = Node()
    watcher = watched(node)
    node.connect("c", expiry=600, will=will(30)).lose()
    node.advance(10)
    node.connect("c", clean=False, expiry=600, will=None if again is None else will(again))
    node.advance(100)
    assert watcher.drain() == []
    assert node.records(CacheName.WILLS) == (again is not None)


def test_a_clean_start_ends_the_session_and_its_delay() -> None:
    """The old will goes out, the newcomer's stays."""
    node = Node()
    watcher = watched(node)
    node.connect("c", expiry=600, will=will(30)).lose()
    node.advance(10)
    node.connect("c", will=will(30, content_type="new"))
    assert watcher.drain() == [b"gone"]
    assert node.records(CacheName.WILLS) == 1


@pytest.mark.parametrize(("delay", "comes"), [(None, [b"gone"]), (30, [])], ids=["no-delay", "delay"])
def test_a_takeover_is_a_lost_connection_whose_client_is_back(delay: int | None, comes: list[bytes]) -> None:
    """A will without delay is published, one with a delay is cancelled by the newcomer."""
    node = Node()
    watcher = watched(node)
    node.connect("c", expiry=600, will=will(delay))
    node.connect("c", clean=False, expiry=600)
    assert watcher.drain() == comes
    node.advance(100)
    assert watcher.drain() == []


def test_shortening_the_session_at_disconnect_shortens_the_delay() -> None:
    """0x04 with an interval of 0: published at once."""
    node = Node()
    watcher = watched(node)
    node.connect("c", expiry=600, will=will(30)).disconnect(WITH_WILL, session_expiry_interval=0)
    assert watcher.drain() == [b"gone"]


@pytest.mark.parametrize("expiry", [None, 600], ids=["clean", "durable"])
@pytest.mark.parametrize("delay", [None, 30], ids=["no-delay", "delay"])
def test_a_node_that_dies_has_broken_the_connections(expiry: int | None, delay: int | None) -> None:
    """The next life publishes what they left: at once, or after the delay where the session goes on."""
    node = Node()
    watched(node)
    node.connect("c", expiry=expiry, will=will(delay))
    node.restart()
    watcher = node.connect("watcher", clean=False, expiry=3600)
    waits = delay is not None and expiry is not None
    node.advance(1)
    assert watcher.drain() == ([] if waits else [b"gone"])
    node.advance(30)
    assert watcher.drain() == ([b"gone"] if waits else [])
    assert node.records(CacheName.WILLS) == 0
    node.restart()
    node.advance(100)
    assert node.connect("watcher", clean=False, expiry=3600).drain() == []


def test_a_delay_goes_on_over_a_restart() -> None:
    """It counts from the loss of the connection, not from the start of the node."""
    node = Node()
    watched(node)
    node.connect("c", expiry=600, will=will(30)).lose()
    node.advance(20)
    # The log knows what time it is.
    node.connect("writer").publish("will", b"1", qos=1)
    node.restart()
    assert node.connect("watcher", clean=False, expiry=3600).drain() == [b"1"]
    watcher = node.connect("watcher", clean=False, expiry=3600)
    node.advance(9)
    assert watcher.drain() == []
    node.advance(2)
    assert watcher.drain() == [b"gone"]


def test_a_client_that_is_back_after_the_restart_cancels_its_will() -> None:
    """As it would have without one."""
    node = Node()
    watched(node)
    node.connect("c", expiry=600, will=will(30))
    node.restart()
    node.connect("c", clean=False, expiry=600)
    node.advance(100)
    assert node.connect("watcher", clean=False, expiry=3600).drain() == []


def test_a_cancelled_will_stays_cancelled_when_the_disk_hangs() -> None:
    """A crash before the commit of the farewell publishes it: the farewell was not safe. After it, never."""
    node = Node()
    watched(node)
    client = node.connect("c", expiry=600, will=will())
    node.hold()
    client.disconnect()
    node.restart(written=True)
    node.advance(1)
    assert node.connect("watcher", clean=False, expiry=3600).drain() == []


def test_the_expiry_of_a_will_counts_from_its_publication() -> None:
    """[MQTT5 3.1.3.2.4] And the delay is not passed on."""
    node = Node()
    watcher = watched(node)
    node.connect("c", expiry=600, will=will(30, message_expiry_interval=10, content_type="x")).lose()
    node.advance(30.25)
    (message,) = watcher.take(Publish)
    # It waited for the end of its turn.
    assert message.properties == Properties(message_expiry_interval=9, content_type="x")


def test_a_will_with_a_second_reaches_who_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """[MQTT5 3.1.3.2.4] Though the clock goes on while it is published."""
    node = Node()
    watcher = watched(node)
    client = node.connect("c", will=will(message_expiry_interval=1))
    monkeypatch.setattr(node.clock, "wall", count(node.clock.wall(), 0.001).__next__)
    client.lose()
    (message,) = watcher.take(Publish)
    assert message.properties.message_expiry_interval == 1


@pytest.mark.parametrize(("quota", "kept"), [(1, 1), (0, 0)], ids=["room", "full"])
def test_a_retained_will_is_retained(quota: int, kept: int) -> None:
    """[MQTT-3.1.2-17] Within the quota; a will that was delivered and not retained is counted."""
    node = Node(MqttSettings(max_retained_messages=quota))
    watcher = watched(node)
    node.connect("c", will=will(retain=True)).lose()
    assert watcher.drain() == [b"gone"]
    assert node.broker.publishing.retention.index.count == node.records(CacheName.RETAINED) == kept
    assert node.dropped() == ({} if kept else {"retained_quota": 1})


@pytest.mark.parametrize(
    ("settings", "options", "reason"),
    [
        pytest.param(MqttSettings(max_qos=0), {"qos": 1}, ReasonCode.QOS_NOT_SUPPORTED, id="qos"),
        pytest.param(
            MqttSettings(retain_available=False), {"retain": True}, ReasonCode.RETAIN_NOT_SUPPORTED, id="retain"
        ),
        pytest.param(MqttSettings(max_topic_levels=0), {}, None, id="topic"),
    ],
)
def test_a_will_that_is_not_offered_refuses_the_client(
    settings: MqttSettings, options: dict[str, Any], reason: ReasonCode | None
) -> None:
    """[MQTT-3.2.2-12] [MQTT-3.2.2-13] No session, no record, no will."""
    node = Node(settings)
    client = node.connect("c", expiry=60, will=will(**options))
    assert client.connack is not None
    assert client.connack.reason >= 0x80
    assert reason is None or client.connack.reason is reason
    assert client.closed
    assert node.records(*OF_SESSIONS) == 0
    assert len(node.broker.sessions) == 0


def test_a_will_that_is_not_allowed_refuses_the_client() -> None:
    """Whatever its other rights."""
    node = Node(authorizer=NoPublishing())
    client = node.connect("c", will=will())
    assert client.connack is not None
    assert client.connack.reason is ReasonCode.NOT_AUTHORIZED
    assert node.counters.denied == {"will": 1}
