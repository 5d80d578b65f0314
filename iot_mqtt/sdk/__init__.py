"""The only package that plugins import."""

from iot_mqtt.framing import Checksum, Delimiter, Fixed, Framing, LengthField, Line, checksum_of
from iot_mqtt.sdk.codec import SDK_VERSION, BadBatch, Codec, Command, Host, NoConfig
from iot_mqtt.sdk.errors import BadFrame, CannotEncode
from iot_mqtt.sdk.events import Answer, Close, Event, Heartbeat, Login, Readings, Send, Value, WhenSafe
from iot_mqtt.sdk.schema import Schema, Tag

__all__ = [
    "SDK_VERSION",
    "Answer",
    "BadBatch",
    "BadFrame",
    "CannotEncode",
    "Checksum",
    "Close",
    "Codec",
    "Command",
    "Delimiter",
    "Event",
    "Fixed",
    "Framing",
    "Heartbeat",
    "Host",
    "LengthField",
    "Line",
    "Login",
    "NoConfig",
    "Readings",
    "Schema",
    "Send",
    "Tag",
    "Value",
    "WhenSafe",
    "checksum_of",
]
