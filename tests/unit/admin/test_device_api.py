"""Commands, devices and shadows over the API, on a real broker in memory."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Caller, Role
from iot_mqtt.admin.device_resources import DeviceResources
from iot_mqtt.admin.device_shapes import device_schemas
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.resources import Resources
from iot_mqtt.admin.routes import find
from tests.unit.admin.adminkit import Browser, FakeView, make_browser
from tests.unit.broker.harness import run
from tests.unit.devices.devicekit import DeviceNode, confirm


@pytest.fixture
def node() -> DeviceNode:
    return DeviceNode()


@pytest.fixture
def browser(node: DeviceNode) -> Browser:
    return make_browser(FakeView(), devices=node.accompanied)


def send(node: DeviceNode, browser: Browser, **order: object) -> dict[str, object]:
    """What a command looks like once it is accepted."""
    answer = browser.post("/api/v1/commands", {"target": "d1", **order})
    assert answer.status == 200, answer.json
    node.turn()
    found: dict[str, object] = answer.json
    return found


def test_a_command_is_sent_and_shown(node: DeviceNode, browser: Browser) -> None:
    """A body of JSON travels as such; the state is that of the moment."""
    device = node.device()
    sent = send(node, browser, body={"speed": 3}, retry=True, id="c1")
    assert set(sent) == set(device_schemas()["Command"]["properties"])
    (message,) = device.messages()
    assert message.payload == b'{"speed":3}'
    confirm(device, [message])
    shown = browser.get("/api/v1/commands/c1").json
    assert (shown["state"], shown["body"], shown["attempts"]) == ("acked", '{"speed":3}', 1)
    assert set(shown) == set(device_schemas()["CommandWithBody"]["properties"])


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_commands_are_paged_and_filtered(node: DeviceNode, browser: Browser, limit: int) -> None:
    """Each once, whatever the page; by target with what is below it, and by state."""
    for name in ("d1", "d2"):
        node.device(name).lose()
        for number in range(2):
            send(node, browser, target=f"{name}/x", id=f"{name}-{number}")
    assert [one["id"] for one in pages(browser, "commands?", limit)] == ["d1-0", "d1-1", "d2-0", "d2-1"]
    assert [one["id"] for one in pages(browser, "commands?target=d2&", limit)] == ["d2-0", "d2-1"]
    assert pages(browser, "commands?state=acked&", limit) == []


def pages(browser: Browser, path: str, limit: int) -> list[dict[str, object]]:
    """The items of all pages."""
    found: list[dict[str, object]] = []
    after = ""
    while True:
        page = browser.get(f"/api/v1/{path}limit={limit}{after}").json
        found += page["items"]
        if page["after"] is None:
            return found
        after = f"&after={page['after']}"


@pytest.mark.parametrize(
    ("order", "detail"),
    [
        ({}, "target is missing"),
        ({"target": "d1", "body": "x", "body_base64": "eA=="}, "exclude each other"),
        ({"target": "d1", "deadline": 1, "expires_in": 1}, "exclude each other"),
        ({"target": "d1", "expires_in": "soon"}, "expires_in must be seconds"),
        ({"target": "d1", "id": "a b"}, "a command id has"),
        ({"target": "d1", "colour": 1}, "unknown field colour"),
        ({"target": "/"}, "is no target"),
        ({"target": "d1", "body": json.loads("[" * 64 + "]" * 64)}, "the body is nested more than 64 levels deep"),
    ],
)
def test_what_is_wrong_is_said(browser: Browser, order: dict[str, object], detail: str) -> None:
    """With 400."""
    answer = browser.post("/api/v1/commands", order)
    assert answer.status == 400
    assert detail in answer.json["detail"]


def test_a_command_is_taken_back(node: DeviceNode, browser: Browser) -> None:
    """Once; then it is over."""
    node.device().lose()
    send(node, browser, id="c1")
    assert browser.delete("/api/v1/commands/c1").status == 204
    again = browser.delete("/api/v1/commands/c1")
    assert (again.status, again.json["error"]) == (409, "conflict")
    assert browser.delete("/api/v1/commands/nobody").status == 404
    assert browser.get("/api/v1/commands/nobody").status == 404


def test_a_command_is_named_by_its_target_too(node: DeviceNode, browser: Browser) -> None:
    """Where commands to several clients have one id."""
    for name in ("d1", "d2"):
        node.device(name).lose()
        send(node, browser, target=name, id="c1")
    assert (browser.get("/api/v1/commands/c1").status, browser.delete("/api/v1/commands/c1").status) == (409, 409)
    assert browser.get("/api/v1/commands/c1?target=d2").json["target"] == "d2"
    assert browser.delete("/api/v1/commands/c1?target=d2").status == 204
    assert browser.get("/api/v1/commands/c1?target=d1").json["state"] == "queued"
    assert browser.get("/api/v1/commands/c1?target=d3").status == 404


def test_commands_of_others_are_not_there(node: DeviceNode, browser: Browser) -> None:
    """For whoever calls in a user's name: neither do they make an id ambiguous, nor is it said what they are for."""
    for name in ("ann-1", "bob-1"):
        node.device(name).lose()
        send(node, browser, target=name, id="c1")
    send(node, browser, target="bob-1", id="c2")
    ann = Caller("ann's", Role.OPERATOR, ("commands", "as:ann"))
    resources = DeviceResources(node.accompanied, node.clock.wall)
    ways = [route for route in resources.routes if route.path.endswith("{command}")]

    def asked(command: str) -> list[Any]:
        return [run(cast(Any, way.handler(Call({"command": command}, caller=ann)))) for way in ways]

    shown, cancelled = asked("c1")
    assert (shown["target"], cancelled) == ("ann-1", None)
    for command in ("c2", "c3"):
        with pytest.raises(ApiError, match=f"^there is no command '{command}'$"):
            asked(command)


@pytest.mark.parametrize(
    ("path", "body"), [("publish", {"topic": "ann/t"}), ("publish/batch", {"messages": [{"topic": "ann/t"}]})]
)
@pytest.mark.parametrize("user", ["ann", None])
def test_what_a_token_for_one_user_publishes_is_that_users(
    node: DeviceNode, path: str, body: object, user: str | None
) -> None:
    """So his limits count; what other tokens publish is nobody's."""
    view = FakeView()
    table = Resources(view, node.clock.wall, devices=node.accompanied).table
    scope = (path, f"as:{user}") if user else ()
    route, _ = find(table, "POST", path.split("/"))
    run(cast(Any, route.handler(Call(body=json.dumps(body).encode(), caller=Caller("t", Role.OPERATOR, scope)))))
    assert view.users == [user]


def test_devices_are_listed(node: DeviceNode, browser: Browser) -> None:
    """A gateway before its devices; a target's slash is encoded."""
    devices = node.accompanied.devices
    devices.login("gw", codec="acme", version="1", peer="p")
    devices.seen("gw", "a")
    node.pass_time(1)
    assert [one["target"] for one in pages(browser, "devices?", 1)] == ["gw", "gw/a"]
    shown = browser.get("/api/v1/devices/gw%2Fa").json
    assert (shown["device"], shown["readings"]) == ("a", 1)
    assert set(shown) == set(device_schemas()["Device"]["required"])
    assert browser.get("/api/v1/devices/gw%2Fb").status == 404


def test_a_sequence_is_shown_and_forgotten(node: DeviceNode, browser: Browser) -> None:
    """Of a gateway that has sent something."""
    assert browser.get("/api/v1/devices/gw/sequence").status == 404
    assert browser.delete("/api/v1/devices/gw/sequence").status == 404
    node.accompanied.devices.taken("gw", 7)
    node.turn()
    shown = browser.get("/api/v1/devices/gw/sequence").json
    assert shown == {"gateway": "gw", "epoch": 0, "sequence": 7, "user": None}
    assert set(shown) == set(device_schemas()["Sequence"]["required"])
    assert browser.delete("/api/v1/devices/gw/sequence").status == 204
    assert browser.get("/api/v1/devices/gw/sequence").status == 404


def test_a_shadow_is_desired(browser: Browser) -> None:
    """A version that is not the present one is refused."""
    found = browser.post("/api/v1/shadows/gw%2Fa", {"desired": {"t": 1}}).json
    assert (found["desired"]["version"], found["delta"]) == (1, {"t": 1})
    assert set(found) == set(device_schemas()["Shadow"]["properties"])
    for wrong, status, error in (
        ({"desired": {"t": 2}, "version": 0}, 409, "conflict"),
        ({"desired": {"t": "x" * 100_000}}, 409, "quota_exceeded"),
    ):
        refused = browser.post("/api/v1/shadows/gw%2Fa", wrong)
        assert (refused.status, refused.json["error"]) == (status, error)
    refused = browser.post("/api/v1/shadows/%2F", {"desired": {"t": 2}})
    assert (refused.status, refused.json["error"]) == (400, "topic_name_invalid")
    assert browser.get("/api/v1/shadows/gw%2Fa").json == found
    assert browser.post("/api/v1/shadows/gw%2Fa", {}).status == 400


def test_all_of_it_is_described(browser: Browser) -> None:
    """In OpenAPI."""
    paths = browser.get("/api/v1/openapi.json").json["paths"]
    assert {"/commands", "/commands/{command}", "/devices", "/devices/{target}", "/shadows/{target}"} <= set(paths)
