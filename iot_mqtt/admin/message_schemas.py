"""Schemas of clients, sessions, messages: what the resources of ``resources`` answer and take."""

from __future__ import annotations

from iot_mqtt.admin.publication import MOST
from iot_mqtt.admin.schemas import Json, Schemas, audited_of, body_of, items_of, maybe, object_of, schema_of
from iot_mqtt.broker.facade import AttemptInfo, BacklogInfo, ClientInfo, SessionInfo
from iot_mqtt.ports.status import BrokerInfo
from iot_mqtt.values import Subscription

_PROPERTIES: Json = {
    "type": "object",
    "properties": {
        "payload_format_indicator": {"type": ["integer", "null"], "enum": [0, 1, None]},
        "content_type": audited_of(maybe("string")),
        "response_topic": audited_of(maybe("string")),
        "correlation_data": {"type": ["string", "null"], "contentEncoding": "base64"},
        "user_properties": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    },
}

_PAYLOAD: Json = {
    "payload": {"type": ["string", "null"], "description": "The payload as text, if it is UTF-8."},
    "payload_base64": {"type": "string", "contentEncoding": "base64"},
    "properties": _PROPERTIES,
}

_MESSAGE: Json = {
    "topic": {"type": "string", "minLength": 1},
    "qos": {"type": "integer"},
    "retain": {"type": "boolean"},
    "size": {"type": "integer", "description": "Bytes of the payload."},
    "publisher": {"type": "string"},
    "expires_at": maybe("number"),
}

_PUBLICATION: Json = {
    "topic": {"type": "string", "minLength": 1},
    "payload": {"type": "string"},
    "payload_base64": {"type": "string", "contentEncoding": "base64", "description": "Instead of payload."},
    "qos": {"type": "integer", "enum": [0, 1, 2], "default": 0},
    "retain": {"type": "boolean", "default": False},
    "message_expiry_interval": {"type": "integer", "minimum": 0, "maximum": 0xFFFF_FFFF, "description": "Seconds."},
    "properties": _PROPERTIES,
}


_PUBLISHED: Json = {
    "matched": {
        "type": "integer",
        "description": "Sessions of this node that it went to; a shared group counts for one, wherever its member is.",
    },
    "elsewhere": {
        "type": "boolean",
        "description": "Sessions of other nodes get it, too. How many they are only those nodes know.",
    },
}


def message_schemas() -> Schemas:
    """For the description of the API."""
    publication = body_of(_PUBLICATION, "topic", audited=("topic",))
    status = schema_of(BrokerInfo)
    status["properties"] |= {"uptime": {"type": "number"}, "counters": {"type": "object"}}
    session = schema_of(SessionInfo)
    session["properties"]["last_disconnect_text"] = {"type": ["string", "null"], "description": "The same for people."}
    subscription = schema_of(Subscription)
    subscription["properties"] = {"client_id": {"type": "string"}, **subscription["properties"]}
    return {
        "Status": status,
        "Client": schema_of(ClientInfo),
        "Session": session,
        "Attempts": object_of({"items": items_of(schema_of(AttemptInfo))}),
        "Backlog": schema_of(BacklogInfo),
        "Subscription": subscription,
        "Message": object_of(_MESSAGE),
        "MessageWithPayload": object_of(_MESSAGE, contents=_PAYLOAD),
        "Publication": publication,
        "Publications": body_of({"messages": items_of(publication) | {"minItems": 1, "maxItems": MOST}}, "messages"),
        "PublishedAll": object_of(
            {
                "items": items_of(
                    object_of(
                        {
                            "matched": maybe("integer"),
                            "elsewhere": maybe("boolean"),
                            "error": maybe("string"),
                            "detail": maybe("string"),
                        }
                    )
                )
            }
        ),
        "Removed": object_of({"removed": {"type": "integer"}, "more": {"type": "boolean"}}),
        "Published": object_of(_PUBLISHED),
    }
