"""What a bridge of another broker gets and may say, in versions that have no words for it."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Connack, Connect, ConnectWill
from iot_mqtt.errors import ReasonCode
from iot_mqtt.topics.reserved import is_notice_of_a_bridge
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import Client, Node

NOTICE = "$SYS/broker/connection/plant/state"
OLD = pytest.mark.parametrize("version", [ProtocolVersion.V31, ProtocolVersion.V311])


def bridge(node: Node, version: ProtocolVersion, will: ConnectWill | None = None) -> Client:
    client = node.open(version)
    client.send(Connect(version, "bridge", clean_start=False, will=will, bridge=True))
    client.connack = next(iter(client.take(Connack)), None)
    assert client.connack is not None and client.connack.reason is ReasonCode.SUCCESS
    return client


@OLD
def test_what_it_sent_does_not_come_back_and_retained_stays_retained(version: ProtocolVersion) -> None:
    """Live, and from what was kept; a client that is none gets both as ever."""
    node = Node()
    crossing, plain = bridge(node, version), node.connect("plain", version)
    crossing.subscribe("a/#", qos=1)
    plain.subscribe("a/#", qos=1)
    crossing.publish("a/own", b"1", qos=1)
    node.connect("writer").publish("a/kept", b"2", qos=1, retain=True)
    assert [(one.payload, one.retain) for one in crossing.messages()] == [(b"2", True)]
    assert [(one.payload, one.retain) for one in plain.messages()] == [(b"1", False), (b"2", False)]


@OLD
def test_a_shared_subscription_of_it_is_like_any_other(version: ProtocolVersion) -> None:
    """Somebody of the group has to get it, even what the bridge sent."""
    node = Node()
    crossing = bridge(node, version)
    crossing.subscribe("$share/g/a", qos=1)
    crossing.publish("a", b"1", qos=1)
    assert [one.payload for one in crossing.messages()] == [b"1"]


@OLD
def test_its_notice_is_acknowledged_and_published_nowhere(version: ProtocolVersion) -> None:
    """It would only come again; no other topic of the broker's is like that."""
    node = Node()
    reader = node.connect("reader")
    reader.subscribe("$SYS/broker/connection/#", qos=1)
    crossing = bridge(node, version, ConnectWill(NOTICE.encode(), b"0", 1, retain=True))
    assert len(crossing.publish(NOTICE, b"1", qos=1, retain=True)) == 1
    assert not crossing.closed
    crossing.lose()
    assert reader.messages() == []
    assert node.counters.denied == {"will": 1, "publish": 1}
    again = bridge(node, version)
    again.publish("$SYS/broker/uptime", b"1", qos=1)
    assert again.closed


def test_only_its_notice_is() -> None:
    """One level for its name."""
    assert is_notice_of_a_bridge(NOTICE.encode())
    for other in (
        "$SYS/broker/connection/state",
        "$SYS/broker/connection/a/b/state",
        "$SYS/broker/connection/a/states",
    ):
        assert not is_notice_of_a_bridge(other.encode())
