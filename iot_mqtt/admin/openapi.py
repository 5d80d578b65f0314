"""The API described as OpenAPI 3.1, from the table of routes and the classes of the values themselves."""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.admin.audit_everywhere import Missing
from iot_mqtt.admin.call import DEFAULT_LIMIT, MAX_LIMIT
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.schemas import Json, Schemas, items_of, maybe, object_of, schema_of
from iot_mqtt.broker.facade import STATES
from iot_mqtt.ports.devices import State

_PARAMETERS: dict[str, Json] = {
    "hash": {"schema": {"type": "string"}, "description": "Of a record that has to be in the log."},
    "after": {"description": "The cursor that the page before gave.", "schema": {"type": "string"}},
    "limit": {
        "description": "Items of a page.",
        "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    },
    "kind": {"description": "Only of these kinds, with commas between.", "schema": {"type": "string"}},
    "last_event_id": {"description": "As the header Last-Event-ID.", "schema": {"type": "string"}},
    "client": {"description": "Of this client.", "schema": {"type": "string"}},
    "seconds": {"schema": {"type": "integer", "minimum": 1, "maximum": 600, "default": 60}, "description": "How long."},
    "client_id": {"description": "Only of this client.", "schema": {"type": "string"}},
    "GET clients/{client_id}/why?topic": {
        "description": "A topic that the client should get.",
        "schema": {"type": "string", "minLength": 1},
    },
    "generation": {
        "description": "Only of this generation.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 9_999_999_999},
    },
    "target": {"description": "Only of this client, gateway or GATEWAY/DEVICE.", "schema": {"type": "string"}},
    "GET sessions?state": {"description": "Only in this state.", "schema": {"type": "string", "enum": list(STATES)}},
    "state": {"description": "Only in this state.", "schema": {"type": "string", "enum": [*map(str, State)]}},
    "node": {"description": "Only of this node.", "schema": {"type": "string", "pattern": r"^(?!\*$)"}},
    "GET audit?node": {"description": "Only of this node; * is all.", "schema": {"type": "string"}},
    "gateway": {"description": "Only this gateway and its devices.", "schema": {"type": "string"}},
    "under": {"description": "Only this key, or the keys below it.", "schema": {"type": "string"}},
    "topic": {"description": "Only filters that it matches.", "schema": {"type": "string", "minLength": 1}},
    "prefix": {"description": "What the client id begins with.", "schema": {"type": "string"}},
    "contains": {
        "description": "A part of the client id, whatever the case of its letters.",
        "schema": {"type": "string"},
    },
    "GET topics?prefix": {
        "description": "What topics begin with, up to a slash; without it, the first level.",
        "schema": {"type": "string", "default": ""},
    },
    "GET topics?contains": {
        "description": "Words, all of them somewhere in a topic, whatever the case of their letters.",
        "schema": {"type": "string"},
    },
    "by": {
        "description": "What the busiest are found by.",
        "schema": {"type": "string", "enum": ["messages", "bytes"], "default": "messages"},
    },
    "GET dropped?kind": {
        "description": "Messages that a receiver did not get, requests that were not taken, rights that were missing,"
        " clients that were not let in.",
        "schema": {"type": "string", "enum": ["dropped", "refused", "denied", "connect"]},
    },
    "from_byte": {
        "description": "A place in the file: `next` of the answer before.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 9_999_999_999, "default": 0},
    },
    "reason": {"description": "Only for this reason.", "schema": {"type": "string"}},
    "GET dropped?topic": {"description": "A part of the topic.", "schema": {"type": "string"}},
    "GET dropped?client": {"description": "A part of the receiver's client id.", "schema": {"type": "string"}},
    "publisher": {"description": "A part of the publisher's client id.", "schema": {"type": "string"}},
    "GET sessions?filter": {
        "description": "Has subscribed to exactly that; a shared group's begins with $share/.",
        "schema": {"type": "string", "minLength": 1},
    },
    "GET audit?contains": {
        "description": "A part of the path or of the body, whatever the case of its letters.",
        "schema": {"type": "string"},
    },
    "GET config?contains": {
        "description": "A part of the key, whatever the case of its letters.",
        "schema": {"type": "string"},
    },
    "GET pipeline/alarms?contains": {
        "description": "A part of the device, the tag or the rule, whatever the case of its letters.",
        "schema": {"type": "string"},
    },
    "GET pipeline/alarms?active": {
        "description": "Only those that go on, or that are over.",
        "schema": {"type": "boolean"},
    },
    "GET pipeline/dead_letters?contains": {
        "description": "A part of the topic, the reason, the tag or the sender, whatever the case of its letters.",
        "schema": {"type": "string"},
    },
    "GET users?contains": {
        "description": "A part of the name, whatever the case of its letters.",
        "schema": {"type": "string"},
    },
    "who": {"description": "Only what this one changed.", "schema": {"type": "string"}},
    "refused": {"description": "Only what was refused.", "schema": {"type": "boolean", "default": False}},
    "user": {"description": "Only of this user.", "schema": {"type": "string"}},
    "address": {"description": "Only from this address, or network.", "schema": {"type": "string"}},
    "listener": {"description": "Only by this listener.", "schema": {"type": "string"}},
    "connected": {"description": "Only if it is, or is not.", "schema": {"type": "boolean"}},
    "series": {"description": "Names with commas between; without it, all.", "schema": {"type": "string"}},
    "from": {"description": "Seconds since 1970.", "schema": {"type": "number", "minimum": 0}},
    "to": {"description": "Seconds since 1970.", "schema": {"type": "number", "minimum": 0}},
    "step": {"description": "Seconds of one value.", "schema": {"type": "integer", "minimum": 1}},
    "filter": {"description": "An MQTT filter.", "schema": {"type": "string", "minLength": 1, "default": "#"}},
    "since": {
        "description": "A time of ISO 8601, or so long ago: 90s, 15m, 12h, 7d, 2w.",
        "schema": {"type": "string", "minLength": 1, "default": "1h"},
    },
    "until": {"description": "The same; without it, to the end.", "schema": {"type": "string", "minLength": 1}},
    "DELETE retained?filter": {
        "description": "An MQTT filter; # is all.",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
    },
}

_ANY_NODE: Json = {"description": "Of this node; * is all.", "schema": {"type": "string"}}
_ANY_TEXT: Json = {"type": "string", "minLength": 1}
_PART = (
    "Percent-encoded. `.` and `..`, which every browser and many a proxy take out of an address, are written `~.` and"
    " `~..`, and what begins with `~` and ends in one of them has one `~` more."
)
_DIGITS: Json = {"type": "string", "pattern": "^[0-9]{1,10}$"}
#: Of paths, those that are not just any text.
_VARIABLES: dict[str, Json] = {"generation": _DIGITS}

_SECURITY: Schemas = {
    "token": {"type": "http", "scheme": "bearer"},
    "login": {"type": "apiKey", "in": "cookie", "name": "iot_mqtt_login", "description": "With TLS: __Host-…"},
    "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token", "description": "With all but GET."},
}

#: What every answer may name.
_GENERAL: Schemas = {
    "OpenApi": {"type": "object"},
    "Error": object_of(
        {
            "type": {"type": "string", "format": "uri"},
            "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string", "description": "For people."},
            "error": {"type": "string", "description": "For programs: what the type ends with."},
        }
    ),
    "OfNode": object_of({"node": {"type": "string", "description": "Whose it is."}}),
    "Missing": {**items_of(schema_of(Missing)), "description": "Who did not answer, and why."},
}


def describe(routes: Sequence[Route], schemas: Schemas, version: str) -> Json:
    """The whole document. ``schemas``: what the routes name."""
    paths: Json = {}
    for route in routes:
        paths.setdefault(f"/{route.path}", {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "iot-mqtt", "version": version, "description": "A running node and what it holds."},
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}, {"login": [], "csrf": []}],
        "paths": paths,
        "components": {
            "schemas": {**_GENERAL, **schemas},
            "securitySchemes": _SECURITY,
        },
    }


def _operation(route: Route) -> Json:
    parameters = [
        {"name": name, "in": "path", "required": True, "description": _PART, "schema": _VARIABLES.get(name, _ANY_TEXT)}
        for name in route.variables
    ]
    parameters += [{"name": name, "in": "query", "required": False, **_parameter(route, name)} for name in route.query]
    operation: Json = {"summary": route.summary, "parameters": parameters, "responses": _responses(route)}
    if route.asks == "role":
        operation["description"] = f"For the role {route.role.word}, and those that may more."
    if route.asks == "anybody":
        operation["security"] = []
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _json_of(_reference(route.body))}
    return operation


def _parameter(route: Route, name: str) -> Json:
    """What a parameter means at a path, or else anywhere."""
    if name == "node" and route.takes_all_nodes:
        return _ANY_NODE
    return _PARAMETERS.get(f"{route.method} {route.path}?{name}") or _PARAMETERS[name]


def _responses(route: Route) -> Json:
    failures = {"401": "No token and no login, or a wrong one."}
    if route.variables or route.spread != "here":
        failures["404"] = "There is no such thing, or no such node."
    if route.query or route.method == "POST" or route.variables:
        failures["400"] = "The request is wrong."
    if route.method == "POST":
        failures |= {"409": "It cannot be done as things are: a quota is used up, or something is in the way."}
        failures |= {"413": "The body is too long."}
    if route.asks == "anybody":
        failures["429"] = "Too many wrong passwords; Retry-After says when to try again."
    else:
        failures["403"] = "The role or scope does not permit it, or another site's page asks."
    many = "streams" if route.streamed else "calls that wait"
    failures["503"] = f"There are too many {many}, or the store or a node does not answer; try again."
    if route.path == "backup/copies":
        failures["507"] = "There is no room for a copy."
    responses: Json = {
        status: {"description": text, "content": _json_of(_reference("Error"), "application/problem+json")}
        for status, text in failures.items()
    }
    if route.answer is None:
        responses["204"] = {"description": "Done."}
    else:
        kind = "text/event-stream" if route.streamed else "application/json"
        content = _json_of(_answer(route, _reference(route.answer)), kind)
        responses["200"] = {"description": "The answer.", "content": content}
    return dict(sorted(responses.items()))


def _answer(route: Route, answer: Json) -> Json:
    """What is answered: with the node's name, and who did not answer, where other nodes are asked."""
    named: Json = answer if route.spread == "here" else {"allOf": [answer, _reference("OfNode")]}
    missing = {} if route.spread == "here" else {"missing": _reference("Missing")}
    each = object_of({"items": items_of(named), **missing})
    if route.paged:
        return object_of({"items": items_of(named), "after": maybe("string"), **missing})
    if route.spread == "merge":
        return {"allOf": [answer, each | {"properties": {"items": items_of(_reference("OfNode")), **missing}}]}
    if route.spread == "combine":
        return {"allOf": [named, object_of(missing)]}
    if route.spread == "one" and route.method == "GET":
        # Of one node, or, with node=*, of each.
        return {"anyOf": [named, each]}
    return each if route.spread == "each" else named


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _json_of(schema: Json, kind: str = "application/json") -> Json:
    return {kind: {"schema": schema}}
