"""What devices reply is kept in bounds: of each reply, and of all."""

from __future__ import annotations

import json

import pytest

from iot_mqtt.devices import DevicesSettings, replies
from tests.unit.broker.harness import Client
from tests.unit.devices.devicekit import DeviceNode, order, statuses


def reply(node: DeviceNode, device: Client, command_id: str, **what: object) -> None:
    """Send a command that wants a reply, and have it answered so."""
    order(node.connect("s"), "d1", id=command_id, reply="yes")
    device.messages()
    device.publish(f"reply/{command_id}", json.dumps(what).encode(), qos=1)
    node.turn()


def test_a_reply_within_the_bound_is_kept_as_it_is() -> None:
    """To the last byte."""
    node = DeviceNode(DevicesSettings(max_reply_bytes=1000))
    detail, values = "é" * 100, {"a": "x" * 791}
    reply(node, node.device(), "c1", detail=detail, values=values)
    assert (node.record("c1").detail, node.record("c1").values) == (detail, values)


@pytest.mark.parametrize(
    ("what", "detail"),
    [
        ({"ok": False, "detail": "é" * 101, "values": {"a": "x" * 791}}, "é" * 101 + ": "),
        ({"ok": False, "detail": "x" * 900_000}, "x" * replies.BEGINNING + ": "),
        ({"ok": False, "values": {"a": ["x"] * 1000}}, ""),
    ],
)
def test_a_longer_reply_is_cut(what: dict[str, object], detail: str) -> None:
    """What became of the command is known; that there was more is said, to whoever listens too."""
    node = DeviceNode(DevicesSettings(max_reply_bytes=1000))
    listener = node.listener()
    reply(node, node.device(), "c1", **what)
    record = node.record("c1")
    assert (record.state, record.values) == ("failed", None)
    assert record.detail.startswith(f"{detail}the reply is cut: it has ")
    assert record.detail.endswith(" bytes, more than 1000")
    assert statuses(listener)[-1]["detail"] == record.detail


def test_what_a_gateway_says_for_its_device_is_cut_as_well() -> None:
    """Its codec may say as much as it likes."""
    node = DeviceNode()
    node.device()
    order(node.connect("s"), "d1", reply="yes")
    node.accompanied.states.of("d1").answered("c1", True, values={str(number): "x" * 1000 for number in range(20)})
    node.turn()
    assert (node.record("c1").state, node.record("c1").values) == ("acked", None)


def test_of_all_replies_the_oldest_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands stay, here and in the store, and say so; a restart keeps no more either."""
    monkeypatch.setattr(replies, "MAX_REPLIES", 40_000)
    node = DeviceNode()
    device = node.device()
    for number in range(10):
        reply(node, device, f"c{number}", detail="fine", values={"a": "x" * 10_000})
    kept = [number for number in range(10) if node.record(f"c{number}").values]
    assert kept == [7, 8, 9]
    assert (node.record("c0").state, node.record("c0").detail) == ("acked", "fine: the reply is not kept any more")
    assert [bool(one.record.values) for one in node.accompanied.book] == [number in kept for number in range(10)]
    monkeypatch.setattr(replies, "MAX_REPLIES", 15_000)
    node.restart()
    assert [number for number in range(10) if node.record(f"c{number}").values] == [9]
    assert [one.record.id for one in node.accompanied.book if one.record.values] == ["c9"]


def test_replies_that_are_gone_leave_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their commands."""
    monkeypatch.setattr(replies, "MAX_REPLIES", 15_000)
    node = DeviceNode(DevicesSettings(keep_commands=60))
    device = node.device()
    for number in range(3):
        reply(node, device, f"c{number}", values={"a": "x" * 10_000})
        node.pass_time(61)
    assert node.count() == 0
    reply(node, device, "c9", values={"a": "x" * 10_000})
    assert node.record("c9").values
