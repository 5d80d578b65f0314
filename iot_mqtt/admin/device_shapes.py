"""Commands, devices and shadows as JSON: the descriptions, and the values that have just what is described."""

from __future__ import annotations

from typing import Any, Final

from iot_mqtt.admin.schemas import Json, body_of, maybe, object_of
from iot_mqtt.admin.shapes import of_bytes
from iot_mqtt.devices.shadows import difference
from iot_mqtt.ports.access import user_of
from iot_mqtt.ports.devices import State, StoredCommand, StoredDevice, StoredSequence, StoredShadow

_TEXT: Final[Json] = {"type": "string"}
_NUMBER: Final[Json] = {"type": "number"}
_WHOLE: Final[Json] = {"type": "integer"}
_FLAG: Final[Json] = {"type": "boolean"}
_SOME: Final[Json] = {"type": "object"}
#: Empty ones are null.
_MAYBE_TEXT: Final[Json] = maybe("string")
_BASE64: Final[Json] = {"type": "string", "contentEncoding": "base64"}

_COMMAND: Final[Json] = {
    "id": _TEXT,
    "target": {"type": "string", "description": "A client id, or GATEWAY/DEVICE."},
    "state": {"type": "string", "enum": [state.value for state in State]},
    "accepted_at": _NUMBER,
    "changed_at": _NUMBER,
    "deadline": maybe("number"),
    "retry": _FLAG,
    "wants_reply": _FLAG,
    "sender": _TEXT,
    "response_topic": _MAYBE_TEXT,
    "attempts": {"type": "integer", "description": "How often it was sent."},
    "times": {"type": "object", "additionalProperties": _NUMBER, "description": "When each state began."},
}
#: What its sender wrote, and what the device answered. In other states the detail is the node's own, and for all.
_CONTENTS: Final[Json] = {
    "idempotency_key": _MAYBE_TEXT,
    "detail": {"type": "string", "description": "Of one that is acked or failed: what the device answered."},
    "values": {"type": ["object", "null"], "description": "What the device answered."},
}
_DEVICE: Final[Json] = {
    "target": _TEXT,
    "gateway": _TEXT,
    "device": _MAYBE_TEXT,
    "online": _FLAG,
    "codec": _MAYBE_TEXT,
    "version": _MAYBE_TEXT,
    "address": _MAYBE_TEXT,
    "first_seen": _NUMBER,
    "last_seen": _NUMBER,
    "logins": _WHOLE,
    "readings": _WHOLE,
}


_SEQUENCE: Final[Json] = {
    "gateway": _TEXT,
    "epoch": {"type": "integer", "description": "In another one its numbering begins anew."},
    "sequence": {"type": "integer", "description": "Frames up to this one are taken for repetitions."},
    "user": {"type": ["string", "null"], "description": "Whose gateway it is; empty: anonymous, null: not known."},
}


#: States whose detail may be what the device answered.
ANSWERED: Final = (State.ACKED, State.FAILED)


def of_command(command: StoredCommand, *, contents: bool, with_body: bool = False) -> Json:
    """Listings leave the body out. Times are wall-clock seconds. ``contents``: also those of messages."""
    shape = _described(command, _COMMAND)
    if contents:
        shape |= _described(command, _CONTENTS)
    elif command.state not in ANSWERED:
        shape |= {"detail": command.detail}
    return {**shape, **of_bytes("body", command.body or b"")} if with_body and contents else shape


def of_device(device: StoredDevice) -> Json:
    return _described(device, _DEVICE)


def of_sequence(gateway: str, found: StoredSequence) -> Json:
    user = None if found.owner is None else user_of(found.owner)
    return {"gateway": gateway, "epoch": found.epoch, "sequence": found.highest, "user": user}


def of_shadow(target: str, reported: StoredShadow, desired: StoredShadow, *, contents: bool) -> Json:
    """``contents``: also the values."""
    halves = {"reported": reported, "desired": desired}
    shape: dict[str, object] = {"target": target}
    for name, half in halves.items():
        told = {"version": half.version, "times": half.times}
        shape[name] = {**told, "values": half.values} if contents else told
    return {**shape, "delta": difference(reported, desired)} if contents else shape


def _described(value: object, schema: Json) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(value, name) for name in schema}
    return {name: None if schema[name] is _MAYBE_TEXT and not one else one for name, one in found.items()}


def device_schemas() -> Json:
    """For the description of the API."""
    half = object_of({"version": _WHOLE, "times": _SOME}, contents={"values": _SOME})
    order: Json = {
        "target": _COMMAND["target"],
        "body": {"type": ["string", "object", "array"], "description": "A text, or JSON."},
        "body_base64": {**_BASE64, "description": "Instead of body."},
        "deadline": {"type": "number", "description": "Seconds since 1970."},
        "expires_in": {"type": "number", "description": "Instead of deadline: seconds from now."},
        "retry": {"type": "boolean", "default": False},
        "wants_reply": {"type": "boolean", "default": False},
        "id": _TEXT,
        "idempotency_key": _TEXT,
        "response_topic": _TEXT,
        "user": {**_TEXT, "description": "In whose name: his rules must allow it, too."},
    }
    desired: Json = {
        "desired": {"type": "object", "description": "By tag; null takes one away, others stay."},
        "version": {"type": "integer", "description": "That this is based on; without it, any."},
    }
    return {
        "Command": object_of(_COMMAND, contents=_CONTENTS),
        "CommandWithBody": object_of(_COMMAND, contents={**_CONTENTS, "body": _MAYBE_TEXT, "body_base64": _BASE64}),
        "CommandOrder": body_of(order, "target", audited=("target", "id", "idempotency_key", "response_topic", "user")),
        "Device": object_of(_DEVICE),
        "Sequence": object_of(_SEQUENCE),
        "Shadow": object_of({"target": _TEXT, "reported": half, "desired": half}, contents={"delta": _SOME}),
        "Desired": body_of(desired, "desired"),
    }
