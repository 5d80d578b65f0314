"""What messages, commands and shadows hold is for operators; a viewer sees that there is something, and how large."""

from __future__ import annotations

import base64
import http.client
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker
from systemkit.waiting import wait_until
from test_ctl_log import ctl
from test_hostile_calls import Api

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto has no API")

#: Fields of answers that hold what was published, sent or reported.
CONTENT = {
    *("payload", "payload_base64", "correlation_data", "user_properties", "body", "body_base64", "hex", "event"),
    *("values", "delta", "idempotency_key"),
}
#: Lists of figures that have such a name.
FIGURES = {("History", "values")}
#: In each content of a case.
MARK = "mark-"
#: Where a node has contents: each of them has a mark with that word.
WHERE = (
    *("retained", "property", "correlation", "will", "reported", "desired"),
    *("body", "key", "detail", "values", "failure"),
)
#: What stands for the variable parts of paths; another one needs something here that has content behind it.
NAMES = {
    "id": "none",
    "topic": "kept",
    "client_id": "press",
    "target": "press",
    "command": "c1",
    "generation": "1",
    "gateway": "press",
    "node": "node",
    "key": "node.id",
    "name": "gateway",
}


def fill(broker: BrokerProcess, root: Api) -> None:
    """Put a mark into all that a node keeps of contents: messages, a will, commands, shadows."""
    properties = {"correlation_data": coded(f"{MARK}correlation"), "user_properties": [["a", f"{MARK}property"]]}
    message = {"topic": "kept", "payload": f"{MARK}retained", "qos": 1, "retain": True, "properties": properties}
    away = Plain(broker.ports["mqtt"], version=5)
    away.connect("away", clean=False, expiry=3600)
    away.subscribe(("#", 1))
    away.sock.close()
    device = Plain(broker.ports["mqtt"], version=5)
    device.connect("press", will=("gone", f"{MARK}will".encode(), 1, False))
    device.subscribe(("down/press", 1))
    assert root.ask("POST", "/api/v1/publish", json.dumps(message).encode())[0] == 200
    device.publish("shadow/press/reported", json.dumps({"mode": f"{MARK}reported"}).encode(), qos=1, packet_id=1)
    desired = {"desired": {"mode": f"{MARK}desired"}}
    assert root.ask("POST", "/api/v1/shadows/press", json.dumps(desired).encode())[0] == 200
    order: dict[str, object] = {"target": "press", "wants_reply": True, "idempotency_key": f"{MARK}key"}
    order |= {"id": "c1", "body": f"{MARK}body"}
    assert root.ask("POST", "/api/v1/commands", json.dumps(order).encode())[0] == 200
    reply = {"detail": f"{MARK}detail", "values": {"a": f"{MARK}values"}}
    device.publish("reply/c1", json.dumps(reply).encode(), qos=1, packet_id=2)
    wait_until(lambda: root.ask("GET", "/api/v1/commands/c1")[1]["state"] == "acked")
    order = {"target": "press", "id": "c2", "wants_reply": True}
    assert root.ask("POST", "/api/v1/commands", json.dumps(order).encode())[0] == 200
    device.publish("reply/c2", json.dumps({"ok": False, "detail": f"{MARK}failure"}).encode(), qos=1, packet_id=3)
    wait_until(lambda: root.ask("GET", "/api/v1/commands/c2")[1]["state"] == "failed")
    wait_until(lambda: root.ask("GET", "/api/v1/shadows/press")[1]["reported"]["version"] > 0)
    # Without a word, so its will is published, and waits in the log.
    device.sock.close()
    wait_until(lambda: root.ask("GET", "/api/v1/log/messages?filter=gone")[1]["items"])


def looks(description: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Paths that answer GET, each with its operation."""
    for path, methods in description["paths"].items():
        if "get" in methods:
            yield path, methods["get"]


def is_streamed(operation: dict[str, Any]) -> bool:
    return "text/event-stream" in operation["responses"]["200"]["content"]


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def marks(text: str) -> set[str]:
    """Contents that stand in an answer, as they are or in base64."""
    plain = re.findall(rf"{MARK}[a-z]+", text)
    bytes_of = (base64.b64decode(one) for one in re.findall(rf"{coded(MARK)[:6]}[A-Za-z0-9+/]*=*", text))
    return {*plain, *(found for one in bytes_of for found in re.findall(rf"{MARK}[a-z]+", one.decode("latin-1")))}


def test_a_viewer_sees_no_content_whatever_he_asks_for(start_broker: StartBroker) -> None:
    """All paths there are, and what comes of events; an operator finds all of it."""
    broker = start_broker(settings={"uplink.kind": "file"})
    root, viewer = Api(broker), Api(broker)
    viewer.token = root.ask("POST", "/api/v1/tokens", b'{"name": "v", "role": "viewer"}')[1]["token"]
    events = [listening(broker, one.token) for one in (viewer, root)]
    fill(broker, root)
    description = root.ask("GET", "/api/v1/openapi.json")[1]
    NAMES["node"] = root.ask("GET", "/api/v1/status")[1]["node_id"]
    seen: dict[str, set[str]] = {}
    found: set[str] = set()
    answered = 0
    for path, operation in looks(description):
        if is_streamed(operation):
            continue
        target = "/api/v1" + re.sub(r"\{(\w+)\}", lambda part: NAMES[part[1]], path)
        status, answer = viewer.ask("GET", target)
        answered += status == 200
        seen[path] = marks(json.dumps(answer))
        found |= marks(json.dumps(root.ask("GET", target)[1]))
    assert answered > 35
    assert not {path: those for path, those in seen.items() if those}
    assert found == {MARK + one for one in WHERE}
    for command in (
        ("commands", "list"),
        ("commands", "show", "c1"),
        ("shadow", "get", "press"),
        ("retained", "show", "kept"),
    ):
        assert not marks(ctl(broker, "--token", str(viewer.token), *command))
    heard = [heard_of(one) for one in events]
    assert "command.changed" in heard[0]
    assert not marks(heard[0])


def test_a_schema_that_a_viewer_may_see_needs_no_content(start_broker: StartBroker) -> None:
    """Fields of these names are left out for him, so they need not be there."""
    description = Api(start_broker()).ask("GET", "/api/v1/openapi.json")[1]
    needed = {
        (name, field)
        for _, operation in looks(description)
        if "For the role viewer" in operation.get("description", "")
        for name in re.findall(r'schemas/(\w+)"', json.dumps(operation["responses"]["200"]))
        for field in required_in(description["components"]["schemas"][name])
    }
    assert {one for one in needed if one[1] in CONTENT} == FIGURES


def required_in(schema: Any) -> Iterator[str]:
    """Names of fields that have to be there, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("required", ())
        for inner in schema.values():
            yield from required_in(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from required_in(inner)


def listening(broker: BrokerProcess, token: str | None) -> http.client.HTTPResponse:
    """A stream of all events from now on."""
    connection = http.client.HTTPConnection("127.0.0.1", broker.ports["admin"], timeout=1)
    connection.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    assert answer.status == 200
    return answer


def heard_of(stream: http.client.HTTPResponse) -> str:
    """What has come of it."""
    text = b""
    while b"acked" not in text:
        text += stream.read1(65536)
    return text.decode()
