"""The API described as OpenAPI 3.1, from the table of routes and the classes of the values themselves."""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.admin.access_resources import access_schemas
from iot_mqtt.admin.call import DEFAULT_LIMIT, MAX_LIMIT
from iot_mqtt.admin.device_shapes import device_schemas
from iot_mqtt.admin.pipeline_resources import JobStatus
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.rule_resources import rule_schemas
from iot_mqtt.admin.schemas import Json, body_of, items_of, maybe, object_of, schema_of
from iot_mqtt.admin.user_resources import user_schemas
from iot_mqtt.broker.facade import (
    DEFAULT_RATE,
    MAX_RATE,
    AttemptInfo,
    BacklogInfo,
    ClientInfo,
    ClusterInfo,
    DrainInfo,
    GenerationInfo,
    SessionInfo,
    ShardInfo,
    ShareInfo,
    StreamInfo,
    VerificationInfo,
)
from iot_mqtt.devices.letters import LettersInfo
from iot_mqtt.devices.link import CaptureInfo
from iot_mqtt.plugins.info import PluginInfo
from iot_mqtt.ports.status import BrokerInfo, LogInfo, UplinkInfo
from iot_mqtt.uplink.desk import MAX_TRIED, TRIED, ReloadInfo, RulesInfo, TrialInfo
from iot_mqtt.values import Subscription

_PARAMETERS: dict[str, Json] = {
    "hash": {"schema": {"type": "string"}, "description": "Of a record that has to be in the log."},
    "after": {"description": "The cursor that the page before gave.", "schema": {"type": "string"}},
    "limit": {
        "description": "Items of a page.",
        "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    },
    "client_id": {"description": "Only of this client.", "schema": {"type": "string"}},
    "generation": {"description": "Only of this generation.", "schema": {"type": "integer"}},
    "target": {"description": "Only of this client, gateway or GATEWAY/DEVICE.", "schema": {"type": "string"}},
    "state": {"description": "Only in this state.", "schema": {"type": "string"}},
    "gateway": {"description": "Only this gateway and its devices.", "schema": {"type": "string"}},
    "filter": {"description": "An MQTT filter.", "schema": {"type": "string", "default": "#"}},
}

_PROPERTIES: Json = {
    "type": "object",
    "properties": {
        "payload_format_indicator": {"type": ["integer", "null"], "enum": [0, 1, None]},
        "content_type": maybe("string"),
        "response_topic": maybe("string"),
        "correlation_data": {"type": ["string", "null"], "contentEncoding": "base64"},
        "user_properties": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    },
}

_PAYLOAD: Json = {
    "payload": {"type": ["string", "null"], "description": "The payload as text, if it is UTF-8."},
    "payload_base64": {"type": "string", "contentEncoding": "base64"},
    "properties": _PROPERTIES,
}


def describe(routes: Sequence[Route], version: str) -> Json:
    """The whole document."""
    paths: Json = {}
    for route in routes:
        paths.setdefault(f"/{route.path}", {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "iot-mqtt", "version": version, "description": "A running node and what it holds."},
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: Route) -> Json:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in route.variables
    ]
    parameters += [{"name": name, "in": "query", "required": False, **_PARAMETERS[name]} for name in route.query]
    operation: Json = {"summary": route.summary, "parameters": parameters, "responses": _responses(route)}
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _json_of(_reference(route.body))}
    return operation


def _responses(route: Route) -> Json:
    failures = {"401": "No token, or a wrong one."}
    if route.variables:
        failures["404"] = "There is no such thing."
    if route.query or route.body or route.variables:
        failures["400"] = "The request is wrong."
    if route.body:
        failures |= {"409": "A quota is used up.", "413": "The body is too long."}
    if route.method != "GET":
        failures["503"] = "The store does not answer; try again."
    responses: Json = {
        status: {"description": text, "content": _json_of(_reference("Error"))} for status, text in failures.items()
    }
    if route.answer is None:
        responses["204"] = {"description": "Done."}
    else:
        schema = _reference(route.answer)
        responses["200"] = {"description": "The answer.", "content": _json_of(_page(schema) if route.paged else schema)}
    return dict(sorted(responses.items()))


def _schemas() -> Json:
    status = schema_of(BrokerInfo)
    status["properties"] |= {"uptime": {"type": "number"}, "counters": {"type": "object"}}
    session = schema_of(SessionInfo)
    session["properties"]["last_disconnect_text"] = {"type": ["string", "null"], "description": "The same for people."}
    subscription = schema_of(Subscription)
    subscription["properties"] = {"client_id": {"type": "string"}, **subscription["properties"]}
    message: Json = {
        "topic": {"type": "string"},
        "qos": {"type": "integer"},
        "retain": {"type": "boolean"},
        "size": {"type": "integer", "description": "Bytes of the payload."},
        "publisher": {"type": "string"},
        "expires_at": maybe("number"),
    }
    return {
        "OpenApi": {"type": "object"},
        "Error": object_of({"error": {"type": "string"}, "detail": {"type": "string"}}),
        "Status": status,
        "Client": schema_of(ClientInfo),
        "Session": session,
        "Attempts": object_of({"items": items_of(schema_of(AttemptInfo))}),
        "Backlog": schema_of(BacklogInfo),
        "Log": schema_of(LogInfo),
        "LogShard": schema_of(ShardInfo),
        "LogGeneration": schema_of(GenerationInfo),
        "LogStream": schema_of(StreamInfo),
        "LogVerification": schema_of(VerificationInfo),
        "Uplink": schema_of(UplinkInfo),
        "UplinkCommands": schema_of(LettersInfo),
        "UplinkRules": schema_of(RulesInfo),
        "UplinkReload": schema_of(ReloadInfo),
        "UplinkTrial": schema_of(TrialInfo),
        "UplinkTest": body_of(
            {
                "rules": {
                    "type": ["array", "null"],
                    "items": {"type": "object"},
                    "description": "As in uplink.rules; null: those in force.",
                },
                "messages": {"type": "integer", "minimum": 1, "maximum": MAX_TRIED, "default": TRIED},
                "minutes": {"type": ["number", "null"], "description": "Only what came in these last minutes."},
            }
        ),
        "Job": schema_of(JobStatus),
        "Plugin": schema_of(PluginInfo),
        "Capture": schema_of(CaptureInfo),
        "CaptureOrder": body_of(
            {
                "codec": {"type": "string"},
                "gateway": {"type": ["string", "null"], "description": "Only this one, without its logins."},
                "seconds": {"type": "integer"},
                "limit": {"type": "integer", "description": "Bytes of the file, at most."},
            },
            "codec",
        ),
        "Installed": object_of({"items": items_of(schema_of(PluginInfo))}),
        "PluginPath": body_of(
            {
                "path": {"type": "string", "description": "Absolute, on the node's machine."},
                "sha256": {"type": "string", "description": "Of the wheel, in hexadecimal."},
            },
            "path",
            "sha256",
        ),
        "PluginIsolation": body_of({"isolation": {"type": ["string", "null"], "enum": ["inline", "process", None]}}),
        "PluginReload": body_of({"drain": _flag("Ask connections on other versions to close.")}),
        "Cluster": schema_of(ClusterInfo),
        "Drain": schema_of(DrainInfo),
        "DrainOrder": _order({"moved": _flag("This node will not come back: 0x9D instead of 0x9C.")}),
        "Rebalance": _order({"dry_run": _flag("Only say what would be done.")}),
        "Rebalanced": object_of({"items": items_of(schema_of(ShareInfo))}),
        "Subscription": subscription,
        "Message": object_of(message),
        "MessageWithPayload": object_of({**message, **_PAYLOAD}),
        "Publication": _publication(),
        **device_schemas(),
        **user_schemas(),
        **access_schemas(),
        **rule_schemas(),
        "Published": object_of({"matched": {"type": "integer", "description": "Sessions that it went to."}}),
    }


def _order(more: Json) -> Json:
    """What has a rate and may be empty."""
    rate: Json = {
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": MAX_RATE,
        "description": f"Clients a second; {DEFAULT_RATE} if nothing was said before.",
    }
    return {"type": "object", "additionalProperties": False, "properties": {"rate": rate, **more}}


def _flag(text: str) -> Json:
    return {"type": "boolean", "default": False, "description": text}


def _publication() -> Json:
    properties: Json = {
        "topic": {"type": "string"},
        "payload": {"type": "string"},
        "payload_base64": {"type": "string", "contentEncoding": "base64", "description": "Instead of payload."},
        "qos": {"type": "integer", "enum": [0, 1, 2], "default": 0},
        "retain": {"type": "boolean", "default": False},
        "message_expiry_interval": {"type": "integer", "description": "Seconds."},
        "properties": _PROPERTIES,
    }
    return body_of(properties, "topic")


def _page(item: Json) -> Json:
    return object_of({"items": items_of(item), "after": maybe("string")})


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _json_of(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}
