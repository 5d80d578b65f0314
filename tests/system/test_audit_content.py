"""What messages and shadows hold, and what is secret, is not in the audit log, whatever resource it was given to."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from systemkit.process import MOSQUITTO
from systemkit.starting import StartBroker
from test_hostile_calls import Api, changes, example

from iot_mqtt.admin.schemas import AUDITED

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no API")

#: Fields of bodies that nobody who reads the audit log is to know.
CONTENT = {
    *("payload", "payload_base64", "correlation_data", "user_properties", "body", "body_base64", "desired"),
    *("password", "new_password", "hash", "content_base64"),
}
#: Lets whoever asks in or out; what it is given is no record.
SKIPPED = frozenset({"/login", "/logout"})
Place = tuple[str | int, ...]


def fields(schema: dict[str, Any], place: Place = ()) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Those at the ends of a schema, with their ways: names, and 0 for the first of a list."""
    marks = {AUDITED: schema[AUDITED]} if AUDITED in schema else {}
    if "properties" in schema:
        for name, inner in schema["properties"].items():
            yield from fields(inner, (*place, name))
    elif "items" in schema:
        yield from fields({**schema["items"], **marks}, (*place, 0))
    else:
        yield place, schema


def whole(schema: dict[str, Any], place: Place, value: object) -> Any:
    """A body with the value there, and else what it needs."""
    if not place:
        return value
    first, *rest = place
    if first == 0:
        return [whole(schema["items"], tuple(rest), value)]
    properties = schema["properties"]
    needed = {name: example(properties[name]) for name in schema.get("required", ())}
    return {**needed, str(first): whole(properties[first], tuple(rest), value)}


@pytest.mark.parametrize("role", ["admin", "viewer"])
def test_the_audit_log_has_no_content(start_broker: StartBroker, role: str) -> None:
    """Of all calls that change something, taken or refused; what its schema says is harmless is there."""
    broker = start_broker()
    root, api = Api(broker), Api(broker)
    api.token = root.ask("POST", "/api/v1/tokens", json.dumps({"name": "t", "role": role}).encode())[1]["token"]
    operations = list(changes(root.ask("GET", "/api/v1/openapi.json")[1]))
    hidden: dict[str, str] = {}
    told: dict[str, str] = {}
    for method, path, schema in operations:
        for place, field in fields(schema) if schema and path not in SKIPPED else ():
            assert AUDITED not in field or CONTENT.isdisjoint(place), (path, place)
            for kind in kinds(field):
                mark = f"mark-{len(hidden)}-{len(told)}-"
                if (value := marked(field, kind, mark)) is not None:
                    (told if AUDITED in field else hidden)[mark] = f"{method} {path} {place}"
                    target = "/api/v1" + path.replace("{", "").replace("}", "")
                    api.ask(method, target, json.dumps(whole(schema, place, value)).encode())
    written = "".join(file.read_text() for file in (broker.data_dir / "audit").rglob("*.jsonl"))
    assert len(hidden) > 15
    assert not [place for mark, place in hidden.items() if mark in written or coded(mark) in written]
    assert role == "viewer" or all(mark in written for mark in told)


def marked(schema: dict[str, Any], kind: str, mark: str) -> object:
    """The mark as a value of this type; None: it cannot be one."""
    text = coded(mark) if "contentEncoding" in schema else mark
    return {"string": text, "object": {mark: mark}, "array": [mark]}.get(kind)


def kinds(schema: dict[str, Any]) -> list[str]:
    kind = schema.get("type", ["string", "object", "array"])
    return [kind] if isinstance(kind, str) else kind


def coded(mark: str) -> str:
    return base64.b64encode(mark.encode()).decode()
