"""Commands, devices and shadows as JSON, and how that is described."""

from __future__ import annotations

import base64
from typing import Any

from iot_mqtt.ports.devices import State, StoredCommand, StoredDevice, StoredShadow

Json = dict[str, Any]


def of_command(command: StoredCommand, *, with_body: bool = False) -> Json:
    """Listings leave the body out. Times are wall-clock seconds."""
    shape: Json = {
        "id": command.id,
        "target": command.target,
        "state": command.state.value,
        "detail": command.detail,
        "values": None if command.values is None else dict(command.values),
        "accepted_at": command.accepted_at,
        "changed_at": command.changed_at,
        "deadline": command.deadline,
        "retry": command.retry,
        "wants_reply": command.wants_reply,
        "idempotency_key": command.idempotency_key or None,
        "sender": command.sender,
        "response_topic": command.response_topic or None,
        "attempts": command.attempts,
        "times": dict(command.times),
    }
    if with_body:
        body = command.body or b""
        try:
            shape["body"] = body.decode()
        except UnicodeDecodeError:
            shape["body"] = None
        shape["body_base64"] = base64.b64encode(body).decode()
    return shape


def of_device(device: StoredDevice) -> Json:
    return {
        "target": device.target,
        "gateway": device.gateway,
        "device": device.device or None,
        "online": device.online,
        "codec": device.codec or None,
        "version": device.version or None,
        "address": device.address or None,
        "first_seen": device.first_seen,
        "last_seen": device.last_seen,
        "logins": device.logins,
        "readings": device.readings,
    }


def of_shadow(target: str, reported: StoredShadow, desired: StoredShadow, delta: Json) -> Json:
    return {
        "target": target,
        "reported": {"version": reported.version, "values": dict(reported.values), "times": dict(reported.times)},
        "desired": {"version": desired.version, "values": dict(desired.values), "times": dict(desired.times)},
        "delta": delta,
    }


def device_schemas() -> Json:
    """For the description of the API."""
    text, number, flag, some = {"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "object"}
    maybe_text: Json = {"type": ["string", "null"]}
    command: Json = {
        "id": text,
        "target": {"type": "string", "description": "A client id, or GATEWAY/DEVICE."},
        "state": {"type": "string", "enum": [state.value for state in State]},
        "detail": text,
        "values": {"type": ["object", "null"], "description": "What the device answered."},
        "accepted_at": number,
        "changed_at": number,
        "deadline": {"type": ["number", "null"]},
        "retry": flag,
        "wants_reply": flag,
        "idempotency_key": maybe_text,
        "sender": text,
        "response_topic": maybe_text,
        "attempts": {"type": "integer", "description": "How often it was sent."},
        "times": {"type": "object", "additionalProperties": number, "description": "When each state began."},
    }
    body: Json = {"body": maybe_text, "body_base64": {"type": "string", "contentEncoding": "base64"}}
    half = _object({"version": {"type": "integer"}, "values": some, "times": some})
    device: Json = {"target": text, "gateway": text, "device": maybe_text, "online": flag, "codec": maybe_text}
    device |= {"version": maybe_text, "address": maybe_text, "first_seen": number, "last_seen": number}
    return {
        "Command": _object(command),
        "CommandWithBody": _object({**command, **body}),
        "CommandOrder": {
            "type": "object",
            "additionalProperties": False,
            "required": ["target"],
            "properties": {
                "target": command["target"],
                "body": {"type": ["string", "object", "array"], "description": "A text, or JSON."},
                "body_base64": {"type": "string", "contentEncoding": "base64", "description": "Instead of body."},
                "deadline": {"type": "number", "description": "Seconds since 1970."},
                "expires_in": {"type": "number", "description": "Instead of deadline: seconds from now."},
                "retry": {"type": "boolean", "default": False},
                "wants_reply": {"type": "boolean", "default": False},
                "id": text,
                "idempotency_key": text,
                "response_topic": text,
            },
        },
        "Device": _object({**device, "logins": {"type": "integer"}, "readings": {"type": "integer"}}),
        "Shadow": _object({"target": text, "reported": half, "desired": half, "delta": some}),
        "Desired": {
            "type": "object",
            "additionalProperties": False,
            "required": ["desired"],
            "properties": {
                "desired": {"type": "object", "description": "By tag; null takes one away, others stay."},
                "version": {"type": "integer", "description": "That this is based on; without it, any."},
            },
        },
    }


def _object(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}
