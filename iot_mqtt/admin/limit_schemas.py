"""What limits look like in the API."""

from __future__ import annotations

from iot_mqtt.admin.schemas import Json, Schemas, body_of, items_of, maybe, object_of
from iot_mqtt.ports.limits import ACTIONS, ATTRIBUTES, CLASSES, RANGES, Said, counted

_CHOICES = {"rate_action": ACTIONS, "class": CLASSES}


def limits_object() -> Json:
    """Any of the limits."""
    return body_of(_properties())


def said_limit() -> Json:
    """One limit of a client, and where it comes from."""
    text: Json = {"type": "string"}
    of: Json = {**text, "description": "Over what it is counted."}
    return object_of({"limit": text, "value": {"type": ["number", "string"]}, "of": of, "source": text})


def shown(said: Said) -> Json:
    """The same, as it is answered."""
    return {"limit": said.limit, "value": said.value, "of": counted(said.limit), "source": said.source}


def limit_schemas() -> Schemas:
    """For the description of the API."""
    text: Json = {"type": "string"}
    who: Json = {
        "user": {**text, "description": "Verified user, or a pattern (*, ?); empty: clients without one."},
        "client": {**text, "description": "Client id, or a pattern."},
        "group": text,
    }
    document: Json = {
        "name": text,
        "version": {"type": "integer"},
        "user": maybe("string"),
        "client": maybe("string"),
        "group": maybe("string"),
        "limits": {"type": "object"},
    }
    question: Json = {**who, "groups": {**items_of(text), "description": "Beside those that the user is in."}}
    del question["group"]
    return {
        "LimitRule": object_of(document),
        "LimitRuleBody": body_of({**who, **_properties(), "version": {"type": "integer"}}, audited=who),
        "LimitQuestion": body_of(question, audited=question),
        "LimitAnswer": object_of({"items": items_of(said_limit())}),
    }


def _properties() -> Json:
    found: Json = {}
    for name in ATTRIBUTES:
        if name in RANGES:
            lowest, highest, whole = RANGES[name]
            found[name] = {"type": "integer" if whole else "number", "minimum": lowest, "maximum": highest}
        else:
            found[name] = {"type": "string", "enum": list(_CHOICES[name])}
    return found
