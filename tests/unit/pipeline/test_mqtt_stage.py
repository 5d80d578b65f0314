"""The codec as a stage."""

from __future__ import annotations

from iot_mqtt.codec import Pingreq, PublishRun
from iot_mqtt.errors import MqttError
from iot_mqtt.pipeline import MqttCodecStage
from iot_mqtt.values import ProtocolVersion
from tests.doubles.channel import EmbeddedChannel

CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a"
PUBLISH = b"\x30\x05\x00\x01tab"
PINGREQ = b"\xc0\x00"


def test_bytes_become_items_in_any_pieces() -> None:
    """Whole, and byte by byte."""
    for pieces in ([CONNECT + PUBLISH * 3 + PINGREQ], [bytes([b]) for b in CONNECT + PUBLISH * 3 + PINGREQ]):
        stage = MqttCodecStage()
        embedded = EmbeddedChannel([("mqtt", stage)])
        embedded.feed(*pieces)
        assert sum(item.count for item in embedded.items if isinstance(item, PublishRun)) == 3
        assert isinstance(embedded.items[-1], Pingreq)
        assert stage.decoder.version is ProtocolVersion.V311


def test_chunks_of_one_batch_are_read_together() -> None:
    """As a WebSocket stage hands them on."""
    embedded = EmbeddedChannel([("mqtt", MqttCodecStage())])
    embedded.read(CONNECT[:5], CONNECT[5:], PUBLISH, PUBLISH)
    (run,) = [item for item in embedded.items if isinstance(item, PublishRun)]
    assert run.count == 2


def test_an_error_comes_after_the_items_before_it() -> None:
    """What was right is still served."""
    embedded = EmbeddedChannel([("mqtt", MqttCodecStage())])
    embedded.feed(CONNECT + PINGREQ + b"\xf7\xff\xff\xff\xff")
    assert isinstance(embedded.items[-1], Pingreq)
    assert isinstance(embedded.errors[0], MqttError)
    assert embedded.closed


def test_garbage_first_bytes_close_the_connection() -> None:
    """As a protocol error with its reason code."""
    embedded = EmbeddedChannel([("mqtt", MqttCodecStage())])
    embedded.feed(b"GET / HTTP/1.1\r\n\r\n")
    assert embedded.items == []
    assert embedded.reason is not None
    assert embedded.reason.name == "protocol_error"


def test_bytes_pass_untouched() -> None:
    """What is written is bytes already."""
    embedded = EmbeddedChannel([("mqtt", MqttCodecStage())])
    embedded.write(b"\x30\x03\x00\x01t", b"\x40\x02\x00\x01")
    assert embedded.link.sent == [b"\x30\x03\x00\x01t" + b"\x40\x02\x00\x01"]
