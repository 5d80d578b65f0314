"""Frames of other protocols than MQTT: how they are declared, and what cuts them out of a stream of bytes."""

from iot_mqtt.codec.frames.declare import Checksum, Delimiter, Fixed, Framing, LengthField, Line

__all__ = ["Checksum", "Delimiter", "Fixed", "Framing", "LengthField", "Line"]
