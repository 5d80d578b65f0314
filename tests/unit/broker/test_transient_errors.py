"""Trouble of our own while a packet is processed [MQTT-4.8.0-2]: what is repeated, and what closes."""

from __future__ import annotations

from typing import NoReturn

import pytest

from iot_mqtt.codec import Ack, PacketType, PublishBatch, Suback
from iot_mqtt.errors import ReasonCode, Unavailable
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V311, Node, subscribe

VERSIONS = pytest.mark.parametrize("version", [V311, V5], ids=["v3.1.1", "v5"])


def _fails(*_: object) -> NoReturn:
    raise Unavailable("the store is away")


@VERSIONS
def test_a_store_that_fails_closes_the_connection_it_failed_for(
    monkeypatch: pytest.MonkeyPatch, version: ProtocolVersion
) -> None:
    """[MQTT-4.8.0-2] No SUBACK for what was not kept, 0x88 or silence, and nobody else is closed."""
    node = Node()
    other = node.connect("other", version)
    client = node.connect("c", version, clean=False, expiry=60 if version is V5 else None)
    monkeypatch.setattr(node.store, "save_subscription", _fails)
    client.send(subscribe(1, "a", qos=1))
    assert client.take(Suback) == []
    assert client.closed
    assert node.counters.errors == {"SERVER_UNAVAILABLE": 1}
    other.subscribe("b")
    other.publish("b", b"x")
    assert other.payloads() == [b"x"]


@VERSIONS
@pytest.mark.parametrize("deep", [False, True])
def test_an_error_nobody_thought_of_closes_its_connection_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: ProtocolVersion, deep: bool
) -> None:
    """[MQTT-4.8.0-2] It is reported with its traceback, the packet stays unanswered, others are served. ``deep``: while
    the decoder asks which way a packet goes.
    """
    node = Node()
    other = node.connect("other", version)
    client = node.connect("c", version)
    with monkeypatch.context() as patched:
        if deep:
            patched.setattr(node.broker.routing.routes._memo, "_find", lambda _: 1 / 0)
        else:
            patched.setitem(node.broker.inbound.handlers, PublishBatch, lambda *_: 1 / 0)
        assert client.publish("a", b"x", qos=1) == []
    assert client.farewell is (ReasonCode.UNSPECIFIED_ERROR if version is V5 else None)
    assert client.closed
    assert "ZeroDivisionError" in caplog.text
    assert len(other.publish("a", b"x", qos=1)) == 1


@VERSIONS
def test_a_commit_that_fails_is_repeated_and_answers_nothing_before(version: ProtocolVersion) -> None:
    """The grid's refusal is no error of the packet yet: it waits, and is answered once it is safe."""
    node = Node()
    reader = node.connect("reader", version, clean=False, expiry=60 if version is V5 else None)
    reader.subscribe("a", qos=1)
    client = node.connect("c", version)
    node.fail()
    assert client.publish("a", b"x", qos=1) == []
    node.advance(10)
    assert client.acks(PacketType.PUBACK) == []
    assert reader.payloads() == []
    assert not client.closed
    node.recover()
    (ack,) = client.acks(PacketType.PUBACK)
    assert isinstance(ack, Ack)
    assert ack.reason is ReasonCode.SUCCESS
    assert reader.drain() == [b"x"]


class Overloaded:
    """An authenticator whose queue is full."""

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        raise Unavailable("too many logins", ReasonCode.SERVER_BUSY)


@VERSIONS
def test_an_authenticator_that_cannot_tell_closes_with_busy(version: ProtocolVersion) -> None:
    """[MQTT-4.8.0-2] CONNACK says to come back, and the connection is closed."""
    client = Node(authenticator=Overloaded()).connect("c", version)
    assert client.connack is not None
    assert client.connack.reason in (ReasonCode.SERVER_BUSY, ReasonCode.SERVER_UNAVAILABLE)
    assert client.closed
