"""The API described as OpenAPI 3.1, from the table of routes and the classes of the values themselves."""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.admin.between import Missing
from iot_mqtt.admin.call import DEFAULT_LIMIT, MAX_LIMIT
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.schemas import Json, Schemas, items_of, maybe, object_of, schema_of
from iot_mqtt.broker.facade import STATES
from iot_mqtt.ports.devices import State


def _of(description: str, type: str = "string", **schema: object) -> Json:
    """A parameter."""
    return {"description": description, "schema": {"type": type, **schema}}


_PARAMETERS: dict[str, Json] = {
    "hash": _of("Of a record that has to be in the log."),
    "after": _of("The cursor that the page before gave."),
    "limit": _of("Items of a page.", "integer", minimum=1, maximum=MAX_LIMIT, default=DEFAULT_LIMIT),
    "kind": _of("Only of these kinds, with commas between."),
    "last_event_id": _of("As the header Last-Event-ID."),
    "client": _of("Of this client."),
    "seconds": _of("How long.", "integer", minimum=1, maximum=600, default=60),
    "client_id": _of("Only of this client."),
    "GET clients/{client_id}/why?topic": _of("A topic that the client should get.", minLength=1),
    "generation": _of("Only of this generation.", "integer", minimum=0, maximum=9_999_999_999),
    "target": _of("Only of this client, gateway or GATEWAY/DEVICE."),
    "GET sessions?state": _of("Only in this state.", enum=list(STATES)),
    "state": _of("Only in this state.", enum=[*map(str, State)]),
    "node": _of("Only of this node.", pattern=r"^(?!\*$)"),
    "gateway": _of("Only this gateway and its devices."),
    "under": _of("Only this key, or the keys below it."),
    "topic": _of("Only filters that it matches.", minLength=1),
    "prefix": _of("What the client id begins with."),
    "contains": _of("A part of the client id, whatever the case of its letters."),
    "GET topics?prefix": _of("What topics begin with, up to a slash; without it, the first level.", default=""),
    "GET topics?contains": _of("Words, all of them somewhere in a topic, whatever the case of their letters."),
    "by": _of("What the busiest are found by.", enum=["messages", "bytes"], default="messages"),
    "GET dropped?kind": _of(
        "Messages that a receiver did not get, requests that were not taken, rights that were missing,"
        " clients that were not let in.",
        enum=["dropped", "refused", "denied", "connect"],
    ),
    "from_byte": _of(
        "A place in the file: `next` of the answer before.", "integer", minimum=0, maximum=9_999_999_999, default=0
    ),
    "reason": _of("Only for this reason."),
    "GET dropped?topic": _of("A part of the topic."),
    "GET dropped?client": _of("A part of the receiver's client id."),
    "publisher": _of("A part of the publisher's client id."),
    "GET sessions?filter": _of("Has subscribed to exactly that; a shared group's begins with $share/.", minLength=1),
    "GET audit?contains": _of("A part of the path or of the body, whatever the case of its letters."),
    "GET config?contains": _of("A part of the key, whatever the case of its letters."),
    "GET pipeline/alarms?contains": _of("A part of the device, the tag or the rule, whatever the case of its letters."),
    "GET pipeline/alarms?active": _of("Only those that go on, or that are over.", "boolean"),
    "GET pipeline/dead_letters?contains": _of(
        "A part of the topic, the reason, the tag or the sender, whatever the case of its letters."
    ),
    "GET users?contains": _of("A part of the name, whatever the case of its letters."),
    "who": _of("Only what this one changed."),
    "refused": _of("Only what was refused.", "boolean", default=False),
    "user": _of("Only of this user."),
    "address": _of("Only from this address, or network."),
    "listener": _of("Only by this listener."),
    "connected": _of("Only if it is, or is not.", "boolean"),
    "series": _of("Names with commas between; without it, all."),
    "from": _of("Seconds since 1970.", "number", minimum=0),
    "to": _of("Seconds since 1970.", "number", minimum=0),
    "step": _of("Seconds of one value.", "integer", minimum=1),
    "filter": _of("An MQTT filter.", minLength=1, default="#"),
    "since": _of("A time of ISO 8601, or so long ago: 90s, 15m, 12h, 7d, 2w.", minLength=1, default="1h"),
    "until": _of("The same; without it, to the end.", minLength=1),
    "DELETE retained?filter": {**_of("An MQTT filter; # is all.", minLength=1), "required": True},
}

_ANY_NODE: Json = _of("Of this node; * is all.")
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
