"""The broker's values as JSON: what the API answers, and the cursors that lead from page to page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from urllib.parse import quote, unquote

from iot_mqtt.admin.errors import bad_request
from iot_mqtt.broker.facade import AttemptInfo, ClientInfo, SessionInfo, SubscriptionInfo
from iot_mqtt.codec import PacketType, Properties
from iot_mqtt.codec import properties as codec_properties
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.endings import end_text
from iot_mqtt.ports.status import BrokerInfo
from iot_mqtt.values import Message

Json = Mapping[str, object]


def page(items: Sequence[Json], limit: int, cursor: str | None) -> Json:
    """``items`` holds one more than ``limit`` when there is a next page; ``cursor`` is of the last one shown."""
    return {"items": list(items[:limit]), "after": cursor if len(items) > limit else None}


def of_client(client: ClientInfo) -> Json:
    return asdict(client)


def of_session(session: SessionInfo) -> Json:
    last = session.last_disconnect
    return {**asdict(session), "last_disconnect_text": None if last is None else end_text(last)}


def of_attempt(attempt: AttemptInfo) -> Json:
    return asdict(attempt)


def of_subscription(info: SubscriptionInfo) -> Json:
    return {"client_id": info.client_id, **asdict(info.subscription)}


def of_message(message: Message, *, with_payload: bool) -> Json:
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
        shape["payload"] = _text(message.payload)
        shape["payload_base64"] = base64.b64encode(message.payload).decode()
        shape["properties"] = _of_properties(message.properties)
    return shape


def of_status(info: BrokerInfo, counters: Counters, now: float) -> Json:
    plain = {name: value for name, value in vars(counters).items() if isinstance(value, int | float)}
    counted = {name: dict(value) for name, value in vars(counters).items() if isinstance(value, dict)}
    return {**asdict(info), "uptime": max(0.0, now - info.started_at), "counters": {**plain, **counted}}


def subscription_cursor(info: SubscriptionInfo) -> str:
    """Client id and filter in one word: both may hold any character, a slash included."""
    return f"{quote(info.client_id, safe='')}/{quote(info.subscription.filter, safe='')}"


def read_subscription_cursor(cursor: str | None) -> tuple[str, str] | None:
    if cursor is None:
        return None
    client_id, slash, filter = cursor.partition("/")
    if not slash:
        raise bad_request("after must be what the page before gave")
    return unquote(client_id), unquote(filter)


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


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
