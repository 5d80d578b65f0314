"""A CONNECT has a limit of its own, before anything is known of the client; other packets have theirs."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Connect, Decoder, PublishRun
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.values import ProtocolVersion

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5
CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01c"
PUBLISH = b"\x30\x43\x00\x01a" + b"x" * 64


def test_a_large_connect_is_refused_at_its_fixed_header() -> None:
    """Nothing of it is kept, once its version is there."""
    decoder = Decoder(1000, max_connect_size=32)
    assert decoder.feed(b"\x10\x1f\0\4MQTT") == []
    (error,) = decoder.feed(b"\4")
    assert isinstance(error, MqttError)
    assert error.reason is ReasonCode.PACKET_TOO_LARGE
    assert decoder.buffered == 0


@pytest.mark.parametrize(
    ("name", "version"),
    [(b"\0\4MQTT\5", V5), (b"\0\4MQTT\4", V311), (b"\0\6MQIsdp\3", ProtocolVersion.V31), (b"\0\4nope\5", None)],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_large_connect_says_its_version(name: bytes, version: ProtocolVersion | None, at_once: bool) -> None:
    """In the first bytes behind its fixed header: so it can be answered; the rest is not waited for."""
    decoder = Decoder(1000, max_connect_size=32)
    data = b"\x10\xff\x01" + name + b"\2"
    pieces = [data] if at_once else [data[at : at + 1] for at in range(len(data))]
    errors = [item for piece in pieces for item in decoder.feed(piece)]
    (error,) = errors
    assert isinstance(error, MqttError)
    assert error.reason is ReasonCode.PACKET_TOO_LARGE
    assert (decoder.version, decoder.buffered) == (version, 0)


def test_behind_it_packets_may_be_larger() -> None:
    """The limit is that of the first packet."""
    decoder = Decoder(1000, max_connect_size=32)
    connect, publish = decoder.feed(CONNECT + PUBLISH)
    assert isinstance(connect, Connect)
    assert isinstance(publish, PublishRun)


def test_the_smaller_limit_holds() -> None:
    """Where packets may be smaller than a CONNECT, so must it be."""
    (error,) = Decoder(10, max_connect_size=32).feed(CONNECT)
    assert isinstance(error, MqttError)


def test_who_takes_connect_as_read_has_the_limit_of_the_others() -> None:
    """As the decoder of a proxy does."""
    (publish,) = Decoder(1000, max_connect_size=32, version=ProtocolVersion.V311).feed(PUBLISH)
    assert isinstance(publish, PublishRun)
