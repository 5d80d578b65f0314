"""Frames of other protocols than MQTT: how they are declared, and what cuts them out of a stream of bytes."""

from iot_mqtt.framing.checking import BadFraming, check
from iot_mqtt.framing.checksums import checksum_of
from iot_mqtt.framing.declare import Checksum, Delimiter, Fixed, Framing, LengthField, Line
from iot_mqtt.framing.framer import FrameError, Framer, FrameReason, Item
from iot_mqtt.framing.framers import framer_of
from iot_mqtt.framing.plain import framing_from, framing_to

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
