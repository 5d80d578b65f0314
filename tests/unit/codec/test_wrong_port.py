"""What is no MQTT at all is called by its name, where it can be told by its first bytes."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Decoder, WrongPort, at_tls_port
from iot_mqtt.errors import MqttError

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01c"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (HELLO, WrongPort.TLS),
        (b"GET / HTTP/1.1\r\n", WrongPort.HTTP),
        (b"POST /api HTTP/1.1\r\n", WrongPort.HTTP),
        (b"GETTER", "PUBACK with flags 0111"),
        (b"\x16\x04", "CONNECT with flags 0110"),
    ],
)
def test_a_port_for_mqtt_says_what_came(data: bytes, words: str) -> None:
    """Nothing else is taken for it, and nothing behind CONNECT."""
    (error,) = Decoder().feed(data)
    assert isinstance(error, MqttError)
    assert error.detail == words
    decoder = Decoder()
    (apart,) = [item for at in range(len(data)) for item in decoder.feed(data[at : at + 1])]
    assert repr(apart) == repr(error), "it matters how the bytes arrive"
    behind = Decoder().feed(CONNECT + data)[-1]
    assert not isinstance(behind, MqttError) or behind.detail not in list(WrongPort)


@pytest.mark.parametrize(
    ("data", "came"),
    [
        (CONNECT, WrongPort.PLAIN_MQTT),
        (b"\x10\x8f\x01\x00\x06MQIsdp\x03", WrongPort.PLAIN_MQTT),
        (b"HEAD / HTTP/1.1\r\n", WrongPort.PLAIN_HTTP),
        (HELLO, None),
        (b"\x10\x0dsomething", None),
    ],
)
def test_a_port_with_tls_says_what_came(data: bytes, came: WrongPort | None) -> None:
    """Where it is no handshake."""
    assert at_tls_port(data) is came


@pytest.mark.parametrize(
    ("name", "words"), [("0004 4d515454 06", "'MQTT' level 6"), ("0004 4d51ff0a 05", "'MQ\ufffd\\n' level 5")]
)
def test_a_protocol_that_is_not_spoken_is_named_as_text(name: str, words: str) -> None:
    """The log masks bytes: they may be a payload."""
    body = bytes.fromhex(name)
    (error,) = Decoder().feed(bytes((0x10, len(body))) + body)
    assert isinstance(error, MqttError)
    assert error.detail == f"protocol {words}"
