"""``POST /api/v1/publish``: a JSON object in, a message out."""

from __future__ import annotations

from iot_mqtt.admin.call import Fields
from iot_mqtt.admin.errors import ApiError, bad_request, bad_request_if
from iot_mqtt.admin.shapes import raw_properties
from iot_mqtt.codec import Properties
from iot_mqtt.errors import MqttError
from iot_mqtt.topics import validate_topic
from iot_mqtt.values import Message

_UINT32 = 0xFFFF_FFFF
#: Messages that are published at once.
MOST = 1000


def read_message(fields: Fields, now: float) -> Message:
    """The message that the body describes; ``now`` is wall-clock seconds, from which the expiry counts."""
    topic = fields.text("topic")
    if topic is None:
        raise bad_request("topic is missing")
    validate_topic(topic)
    expiry = fields.number("message_expiry_interval", _UINT32)
    message = Message(
        topic.encode(),
        _payload(fields),
        fields.number("qos", 2) or 0,
        retain=fields.take("retain", bool) or False,
        properties=raw_properties(_properties(fields.fields("properties"))),
        expires_at=None if expiry is None else now + expiry,
    )
    fields.finish()
    return message


def read_messages(fields: Fields, now: float) -> list[Message]:
    """The messages of a body; which of them is wrong is said."""
    listed = fields.take("messages", list)
    fields.finish()
    if not listed or len(listed) > MOST:
        raise bad_request(f"messages must be a list of 1 to {MOST} messages")
    return [_read_one(number, one, now) for number, one in enumerate(listed)]


def _read_one(number: int, one: object, now: float) -> Message:
    if not isinstance(one, dict):
        raise bad_request(f"messages[{number}] must be an object")
    with bad_request_if(ApiError, MqttError, about=f"messages[{number}]: "):
        return read_message(Fields(one), now)


def _payload(fields: Fields) -> bytes:
    text, data = fields.text("payload"), fields.base64("payload_base64")
    if text is not None and data is not None:
        raise bad_request("payload and payload_base64 exclude each other")
    return data if data is not None else (text or "").encode()


def _properties(fields: Fields) -> Properties:
    response_topic = fields.text("response_topic")
    if response_topic is not None:
        validate_topic(response_topic)
    properties = Properties(
        payload_format_indicator=fields.number("payload_format_indicator", 1),
        content_type=fields.text("content_type"),
        response_topic=response_topic,
        correlation_data=fields.base64("correlation_data"),
        user_properties=_pairs(fields.take("user_properties", list) or []),
    )
    fields.finish()
    return properties


def _pairs(items: list[object]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for item in items:
        if not isinstance(item, list) or len(item) != 2 or not all(isinstance(part, str) for part in item):
            raise bad_request("properties.user_properties must be a list of [name, value]")
        pairs.append((item[0], item[1]))
    return tuple(pairs)
