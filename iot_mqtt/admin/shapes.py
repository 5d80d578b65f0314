"""The broker's values as JSON where the API answers something else than their fields."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from iot_mqtt.admin.errors import bad_request
from iot_mqtt.admin.json_text import fields_of
from iot_mqtt.broker.facade import SessionInfo, SubscriptionInfo
from iot_mqtt.codec import PacketType, Properties
from iot_mqtt.codec import properties as codec_properties
from iot_mqtt.ports.counters import FIGURES, Counters
from iot_mqtt.ports.endings import end_text
from iot_mqtt.ports.status import BrokerInfo
from iot_mqtt.values import Message

Json = Mapping[str, object]


def of_session(session: SessionInfo) -> Json:
    last = session.last_disconnect
    return {**fields_of(session), "last_disconnect_text": None if last is None else end_text(last)}


def of_subscription(info: SubscriptionInfo) -> Json:
    return {"client_id": info.client_id, **fields_of(info.subscription)}


def of_message(message: Message, *, with_payload: bool = False) -> Json:
    """Listings leave the payload out: a page of a thousand large ones would be gigabytes."""
    shape: dict[str, object] = {
        "topic": message.topic.decode(),
        "qos": message.qos,
        "retain": message.retain,
        "size": len(message.payload),
        "publisher": message.publisher,
        "expires_at": message.expires_at,
    }
    if with_payload:
        shape |= {**of_bytes("payload", message.payload), "properties": _of_properties(message.properties)}
    return shape


def of_status(info: BrokerInfo, counters: Counters, now: float) -> Json:
    figures = {name: getattr(counters, name) for name in FIGURES}
    plain = {name: value for name, value in figures.items() if isinstance(value, int | float)}
    counted = {name: dict(value) for name, value in figures.items() if isinstance(value, dict)}
    counted["acknowledgement_wait"] = counters.acknowledgement_wait.by_bound()
    return {**fields_of(info), "uptime": max(0.0, now - info.started_at), "counters": {**plain, **counted}}


def _of_properties(raw: bytes) -> Json:
    properties = codec_properties.read(raw, PacketType.PUBLISH)
    correlation = properties.correlation_data
    return {
        "payload_format_indicator": properties.payload_format_indicator,
        "content_type": properties.content_type,
        "response_topic": properties.response_topic,
        "correlation_data": None if correlation is None else base64.b64encode(correlation).decode(),
        "user_properties": [list(pair) for pair in properties.user_properties],
    }


def raw_properties(properties: Properties) -> bytes:
    """The block that goes with a message, read once more: JSON can spell what MQTT cannot."""
    try:
        raw = codec_properties.write(properties)
    except ValueError as error:
        raise bad_request(f"a property cannot be sent: {error}") from error
    codec_properties.read(raw, PacketType.PUBLISH)
    return raw


def of_bytes(name: str, data: bytes) -> dict[str, str | None]:
    """As text, if it is UTF-8, and in base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    return {name: text, f"{name}_base64": base64.b64encode(data).decode()}
