"""Rights to publish that end at a QoS or at the RETAIN flag: who is told what, and what goes on."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Ack, ConnectWill, Properties, Publish
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import ProtocolVersion
from tests.doubles.rights import Ruled
from tests.unit.broker.harness import Node

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5
LIMITED = "allow publish qos<=1 noretain t/#\nallow read #"
NO = ReasonCode.NOT_AUTHORIZED


@pytest.mark.parametrize(
    ("qos", "retain", "allowed"), [(0, False, True), (1, False, True), (2, False, False), (1, True, False)]
)
def test_what_is_beyond_the_limit_goes_nowhere(qos: int, retain: bool, allowed: bool) -> None:
    """MQTT 5 is told so in the acknowledgement, with the reason in words; what is within it goes on beside it."""
    node = Node(authorizer=Ruled(LIMITED))
    reader, writer = node.connect("reader"), node.connect("writer")
    reader.subscribe("#", qos=2)
    writer.send(
        Publish(b"t/1", b"first"),
        Publish(b"t/2", b"this", qos, retain, False, 7 if qos else 0),
        Publish(b"t/3", b"last"),
    )
    assert set(reader.drain()) == ({b"first", b"this", b"last"} if allowed else {b"first", b"last"})
    if qos:
        [answer] = writer.take(Ack)
        assert (answer.reason == NO) is not allowed
        if not allowed:
            assert "QoS" in (answer.properties.reason_string or "")
    assert node.counters.denied["publish"] == (0 if allowed else 1)


def test_a_retained_message_of_qos_0_is_dropped_and_counted() -> None:
    """Nobody waits for an answer; what was retained before stays."""
    node = Node(authorizer=Ruled(LIMITED))
    writer = node.connect("writer")
    writer.send(Publish(b"t/1", b"kept", 0, True))
    reader = node.connect("reader")
    reader.subscribe("#")
    assert not reader.payloads()
    assert node.counters.denied["publish"] == 1


def test_a_client_of_3_x_is_closed() -> None:
    """It has no other word for no."""
    node = Node(authorizer=Ruled(LIMITED))
    writer = node.connect("writer", V311)
    writer.send(Publish(b"t/1", b"x", 2, False, False, 7))
    assert writer.closed


@pytest.mark.parametrize(
    ("rule", "qos", "retain", "reason"),
    [
        ("allow publish qos<=1 noretain t", 1, False, ReasonCode.SUCCESS),
        ("allow publish qos<=1 noretain t", 2, False, ReasonCode.QOS_NOT_SUPPORTED),
        ("allow publish qos<=1 noretain t", 0, True, ReasonCode.RETAIN_NOT_SUPPORTED),
        ("allow publish qos<=1 noretain t", 2, True, NO),
        ("allow publish qos<=1 noretain x", 1, False, NO),
        ("deny publish retain #\nallow publish #", 1, True, ReasonCode.RETAIN_NOT_SUPPORTED),
    ],
)
def test_a_will_is_refused_in_the_words_of_connack(rule: str, qos: int, retain: bool, reason: ReasonCode) -> None:
    """0x9A and 0x9B say what to do about it; MQTT 3.1.1 is told that it is not authorised."""
    node = Node(authorizer=Ruled(rule))
    will = ConnectWill(b"t", b"gone", qos, retain, Properties())
    for version in (V5, V311):
        client = node.connect("c", version, will=will)
        assert client.connack is not None
        assert client.connack.reason == (reason if version is V5 or reason is ReasonCode.SUCCESS else NO)
        assert client.closed is (reason is not ReasonCode.SUCCESS)


def test_a_will_is_held_to_the_limit_when_it_is_due() -> None:
    """The right that it had at CONNECT ends at QoS 0 by then."""
    access = Ruled("allow publish t")
    node = Node(authorizer=access)
    reader = node.connect("reader")
    client = node.connect("c", will=ConnectWill(b"t", b"gone", 1, False, Properties()))
    access.rule("allow publish qos<=0 t")
    client.lose()
    reader.take_all()
    assert node.counters.denied["will"] == 1
