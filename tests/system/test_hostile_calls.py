"""Calls of the API with what JSON can spell and little else can hold: answered, and all of them in the audit."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker

from iot_mqtt.admin.token import read_token

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no API")

DEEP = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"
#: Whole bodies.
BODIES = (
    *(b'{"a":"\\ud800"}', b'{"\\udfff":1}', b'["\\ud83d"]', b'"\xed\xa0\x80"'),
    *(b"[" * 100_000, DEEP, b"\xff", b"[]", b"7"),
)
#: Values of one field.
VALUES: tuple[Any, ...] = (
    *("\ud800", "a\0b", "", "x" * 70_000, "+/#"),
    *(-1, 10**30, -(10**400), 1e308, float("nan"), float("inf"), True),
    *([], ["\ud800"], ["a\0b"], [[]], [{}], {}, {"\ud800": 1}, {"a\0b": "\0"}, {"a": 10**400}),
)
#: Takes a minute, and would be a test of something else.
SKIPPED = frozenset({"/backup"})


class Api:
    """One connection, which stays open."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", broker.ports["admin"], timeout=50)
        self.token = read_token(str(broker.data_dir))

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None


def changes(description: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and what a body of it may hold, of all that is no GET."""
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if method in ("post", "put", "patch", "delete") and path not in SKIPPED:
                content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
                yield method.upper(), path, description["components"]["schemas"].get(name, {})


def bodies(schema: dict[str, Any]) -> Iterator[bytes]:
    """Those above, and each field with each value, the others as they might be."""
    yield from BODIES
    usual = {name: example(schema["properties"][name]) for name in schema.get("required", ())}
    for name in schema.get("properties", ()):
        for value in VALUES:
            yield json.dumps({**usual, name: value}).encode()


def example(schema: dict[str, Any]) -> object:
    """A value that fits, about."""
    kind = schema.get("type", "string")
    usual = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
    return schema.get("enum", [usual.get(kind[0] if isinstance(kind, list) else kind, "a")])[0]


def ask_all(api: Api, method: str, path: str, schema: dict[str, Any]) -> tuple[int, list[Any]]:
    """Make a call with each of the bodies, and with a hostile name; how many there were, and errors of the node."""
    count = 0
    failed: list[Any] = []
    for name, those in (("x", schema), ("x%2Fy%00%7F", {})):
        target = "/api/v1" + re.sub(r"\{\w+\}", name, path)
        for body in bodies(those):
            status, answer = api.ask(method, target, body)
            count += 1
            if status >= 500 and answer["error"] == "internal":
                failed.append((method, target, body[:200], answer))
    return count, failed


@pytest.mark.parametrize("role", ["admin", "viewer"])
def test_no_call_is_an_error_of_the_node_nor_missing_in_the_audit(start_broker: StartBroker, role: str) -> None:
    """Each is answered, and in the log of changes, whether it may be made or not."""
    broker = start_broker(settings={"uplink.kind": "file"})
    root, api = Api(broker), Api(broker)
    api.token = root.ask("POST", "/api/v1/tokens", json.dumps({"name": "t", "role": role}).encode())[1]["token"]
    # Of logins those that lock out are records, and no others.
    operations = sorted(changes(root.ask("GET", "/api/v1/openapi.json")[1]), key=lambda one: one[1] == "/login")
    asked = 1
    failed: list[Any] = []
    for method, path, schema in operations[:-1]:
        count, errors = ask_all(api, method, path, schema if role == "admin" else {})
        asked, failed = asked + count, failed + errors
    assert not failed, (len(failed), failed[:20])
    # Who has said nothing for half a minute is not connected any more.
    verified = Api(broker).ask("GET", "/api/v1/audit/verify")[1]
    assert (verified["whole"], verified["items"][0]["records"]) == (True, asked)
    assert operations[-1][1] == "/login"
    assert not ask_all(api, *operations[-1])[1]
