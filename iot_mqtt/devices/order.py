"""A command as JSON, as the API takes it and as it stands in Kafka: ``{"target": "gw7/press", "body": …}``.

With ``"user"`` it is sent in that user's name: it needs his right, beside whatever its sender needs.
"""

from __future__ import annotations

import json

from iot_mqtt.devices.asked import NewCommand
from iot_mqtt.devices.fields import Fields
from iot_mqtt.errors import MqttError
from iot_mqtt.topics import validate_topic


def read_order(fields: Fields, at: float) -> NewCommand:
    """The command that is asked for; ``expires_in`` counts from ``at``, in wall-clock seconds."""
    target = fields.text("target")
    if not target:
        raise fields.wrong("target is missing")
    user = fields.text("user")
    if user == "":
        raise fields.wrong("user is empty")
    new = NewCommand(
        target=target,
        body=_body(fields),
        deadline=_deadline(fields, at),
        retry=fields.take("retry", bool) or False,
        wants_reply=fields.take("wants_reply", bool) or False,
        id=fields.text("id") or "",
        idempotency_key=fields.text("idempotency_key") or "",
        response_topic=_response_topic(fields),
        users=() if user is None else (user,),
    )
    fields.finish()
    return new


def _response_topic(fields: Fields) -> str:
    topic = fields.text("response_topic")
    if not topic:
        return ""
    try:
        validate_topic(topic)
    except MqttError as error:
        raise fields.wrong(f"response_topic: {error.detail}") from error
    return topic


def _deadline(fields: Fields, at: float) -> float | None:
    deadline, span = fields.seconds("deadline"), fields.seconds("expires_in")
    if deadline is not None and span is not None:
        raise fields.wrong("deadline and expires_in exclude each other")
    return deadline if span is None else at + span


def _body(fields: Fields) -> bytes:
    data, body = fields.base64("body_base64"), fields.take("body", object)
    if data is not None and body is not None:
        raise fields.wrong("body and body_base64 exclude each other")
    if data is not None:
        return data
    if body is None:
        return b""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")
