"""Frames of other protocols than MQTT: how they are declared, and what cuts them out of a stream of bytes."""

from iot_mqtt.codec.frames.checking import BadFraming, check
from iot_mqtt.codec.frames.checksums import checksum_of
from iot_mqtt.codec.frames.declare import Checksum, Delimiter, Fixed, Framing, LengthField, Line
from iot_mqtt.codec.frames.framer import FrameError, Framer, FrameReason, Item
from iot_mqtt.codec.frames.framers import framer_of
from iot_mqtt.codec.frames.plain import framing_from, framing_to

__all__ = [
    "BadFraming",
    "Checksum",
    "Delimiter",
    "Fixed",
    "FrameError",
    "FrameReason",
    "Framer",
    "Framing",
    "Item",
    "LengthField",
    "Line",
    "check",
    "checksum_of",
    "framer_of",
    "framing_from",
    "framing_to",
]
