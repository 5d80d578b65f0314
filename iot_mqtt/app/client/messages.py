"""A message as JSON: the same names as in the admin API."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from iot_mqtt.codec import Properties, Publish


def as_json(message: Publish, at: float) -> dict[str, Any]:
    """Every name is always there; ``payload`` is null where it is no text."""
    return {
        "topic": message.topic.decode(),
        "qos": message.qos,
        "retain": message.retain,
        "dup": message.dup,
        "packet_id": message.packet_id or None,
        "payload": text_of(message.payload),
        "payload_base64": b64encode(message.payload).decode(),
        "properties": properties_json(message.properties),
        "received_at": round(at, 6),
    }


def properties_json(properties: Properties) -> dict[str, Any]:
    correlation = properties.correlation_data
    return {
        "payload_format_indicator": properties.payload_format_indicator,
        "message_expiry_interval": properties.message_expiry_interval,
        "content_type": properties.content_type,
        "response_topic": properties.response_topic,
        "correlation_data": None if correlation is None else b64encode(correlation).decode(),
        "subscription_identifiers": list(properties.subscription_identifiers),
        "user_properties": [list(pair) for pair in properties.user_properties],
    }


def text_of(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
