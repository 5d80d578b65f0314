"""Events as MQTT messages: who subscribed gets them, and nobody else speaks there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iot_mqtt.app.node.event_topics import EventTopics
from iot_mqtt.codec import Ack, ConnectWill, Publish
from iot_mqtt.errors import ReasonCode
from tests.unit.broker.harness import Client, Node


def telling_node() -> Node:
    """A node with ``events.topics``."""
    node = Node()
    EventTopics("n1", node.broker.publishing.path, node.broker.turn.call_soon).begin(node.broker.monitoring.events)
    return node


def told(client: Client) -> list[tuple[str, Any]]:
    """Topic and value of what a client got."""
    return [(one.topic.decode(), json.loads(one.payload)) for one in client.messages()]


@pytest.mark.parametrize("qos", [0, 1])
def test_who_comes_and_goes_is_published(qos: int) -> None:
    """With what the stream says of it, at the QoS that was asked for, and not retained."""
    node = telling_node()
    monitor = node.connect("monitor")
    monitor.subscribe("$events/#", qos=qos)
    press = node.connect("press-7")
    press.disconnect()
    messages = monitor.messages()
    assert [(one.topic, one.qos, one.retain) for one in messages] == [
        (b"$events/client/connected", qos, False),
        (b"$events/client/disconnected", qos, False),
        (b"$events/session/ended", qos, False),
    ]
    value = json.loads(messages[0].payload)
    assert (value["node"], value["kind"], value["client"]) == ("n1", "client.connected", "press-7")
    assert value["at"] == node.clock.wall()
    assert node.counters.messages_received == 0
    late = node.connect("late")
    late.subscribe("$events/client/+")
    assert late.messages() == []


def test_a_session_that_stays_is_kept_them() -> None:
    """What happened while its client was away, in order."""
    node = telling_node()
    monitor = node.connect("monitor", clean=False, expiry=60)
    monitor.subscribe("$events/client/connected", qos=1)
    monitor.lose()
    for name in ("a", "b"):
        node.connect(name)
    again = node.connect("monitor", clean=False, expiry=60)
    assert [value["client"] for _, value in told(again)] == ["a", "b", "monitor"]


def test_a_wildcard_over_everything_does_not_reach_there() -> None:
    """[MQTT-4.7.2-1]"""
    node = telling_node()
    reader = node.connect("reader")
    reader.subscribe("#", qos=1)
    node.connect("press-7")
    assert reader.messages() == []


@pytest.mark.parametrize("telling", [False, True])
def test_nobody_else_publishes_there(telling: bool) -> None:
    """Not as a message and not as a will, whether it is on or not."""
    node = telling_node() if telling else Node()
    monitor = node.connect("monitor")
    monitor.subscribe("$events/x/#", qos=1)
    liar = node.connect("liar")
    (answer,) = liar.publish("$events/x", b"{}", qos=1)
    assert isinstance(answer, Ack) and answer.reason is ReasonCode.NOT_AUTHORIZED
    liar.publish("$events/x", b"{}")
    teller = node.connect("teller", will=ConnectWill(b"$events/x", b"{}"))
    assert teller.connack is not None and teller.connack.reason is ReasonCode.NOT_AUTHORIZED
    assert monitor.take(Publish) == []
