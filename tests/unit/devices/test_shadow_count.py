"""There are so many shadows and no more: in all, and behind one client."""

from __future__ import annotations

import json

import pytest

from iot_mqtt.devices import DevicesSettings, shadow_count
from iot_mqtt.errors import Refused, Unavailable
from iot_mqtt.ports.devices import Half, StoredShadow
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.unit.broker.harness import run
from tests.unit.devices.devicekit import DeviceNode


def report(node: DeviceNode, *targets: str, value: int = 1) -> None:
    for target in targets:
        node.accompanied.shadows.report(target, {"t": value}, 1000 + value)
    node.pass_time(1)


def reported(node: DeviceNode) -> list[str]:
    """Targets of which the store has something."""
    return run(node.kept.shadows_after(Half.REPORTED, "", 100))


def test_one_more_than_there_may_be_is_refused() -> None:
    """It is told and counted; those that are there are written on."""
    node = DeviceNode(DevicesSettings(max_shadows=2))
    client = node.connect("c")
    client.subscribe("shadow/+/refused", qos=1)
    report(node, "a", "b", "d")
    assert reported(node) == ["a", "b"]
    (told,) = client.messages()
    assert told.topic == b"shadow/d/refused"
    assert json.loads(told.payload) == {"error": "there are 2 shadows; more are not allowed (devices.max_shadows)"}
    assert node.accompanied.figures().shadows_refused == 1
    report(node, "a", value=2)
    assert run(node.accompanied.shadows.get("a"))[0].values == {"t": 2}
    assert node.accompanied.figures().shadows == 2


def test_what_is_desired_is_counted_for_itself() -> None:
    """Whoever asks for one more is told."""
    node = DeviceNode(DevicesSettings(max_shadows=2))
    shadows = node.accompanied.shadows
    report(node, "a", "b")
    for target in ("d", "e", "d"):
        run(shadows.desire(target, {"t": 1}, None))
    with pytest.raises(Refused, match=r"devices\.max_shadows"):
        run(shadows.desire("f", {"t": 1}, None))
    assert shadows.refused == 1


def test_one_client_does_not_fill_it_for_all() -> None:
    """It has a share of targets behind it; what it reports of itself is beside that."""
    node = DeviceNode(DevicesSettings(max_shadows_behind=2))
    report(node, "gw/a", "gw/b", "gw/c", "gw", "gx/a")
    assert reported(node) == ["gw", "gw/a", "gw/b", "gx/a"]


def test_what_is_forgotten_makes_room() -> None:
    """What was reported is gone, and so is what is desired where that is nothing."""
    node = DeviceNode(DevicesSettings(max_shadows=1))
    shadows = node.accompanied.shadows
    report(node, "a")
    run(shadows.desire("a", {"t": 1}, None))
    assert run(shadows.forget_reported("a"))
    node.turn()
    assert reported(node) == []
    with pytest.raises(Refused):
        run(shadows.desire("b", {"t": 1}, None))
    run(shadows.desire("a", {"t": None}, None))
    assert run(shadows.forget_reported("a"))
    assert not run(shadows.forget_reported("a"))
    assert node.records(CacheName.SHADOWS) == 0
    report(node, "b")
    run(shadows.desire("b", {"t": 1}, None))
    assert reported(node) == ["b"]


@pytest.mark.parametrize("half", Half)
@pytest.mark.parametrize(
    "record", [b"\x10{", b'\x10{"version":1,"values":{"t":' + b"[" * 970 + b"]" * 970 + b"}}"], ids=["cut", "deep"]
)
def test_a_damaged_half_can_be_forgotten(half: Half, record: bytes) -> None:
    """Then its device reports again, and something may be desired."""
    node = DeviceNode()
    shadows, damaged = node.accompanied.shadows, WriteBatch()
    damaged.put(CacheName.SHADOWS, half.value.encode() + b"a", record)
    run(node.grid.commit(damaged))
    with pytest.raises(Unavailable):
        run(shadows.get("a"))
    assert run(shadows.forget_reported("a"))
    report(node, "a")
    run(shadows.desire("a", {"t": 2}, None))
    assert [one.values for one in run(shadows.get("a"))] == [{"t": 1}, {"t": 2}]


@pytest.mark.parametrize("half", Half)
def test_a_half_of_a_later_version_is_not_forgotten(half: Half) -> None:
    """Whoever knows what it means does that."""
    node = DeviceNode()
    later = WriteBatch()
    later.put(CacheName.SHADOWS, half.value.encode() + b"a", b"\x20{}")
    run(node.grid.commit(later))
    with pytest.raises(Unavailable, match="later version"):
        run(node.accompanied.shadows.forget_reported("a"))
    assert node.records(CacheName.SHADOWS) == 1


@pytest.mark.parametrize("page", [1, 2, 3, 100])
def test_they_are_counted_after_a_start(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page at a time, and each once, also those that come and go meanwhile."""
    monkeypatch.setattr(shadow_count, "PAGE", page)
    node = DeviceNode(DevicesSettings(max_shadows=7))
    report(node, "a/1", "a/2", "b", "c", "d")
    node.restart()
    report(node, "a", "z")
    run(node.accompanied.shadows.forget_reported("a/1"))
    run(node.accompanied.shadows.forget_reported("d"))
    for _ in range(12):
        node.pass_time(1)
    assert node.accompanied.figures().shadows == len(reported(node)) == 5
    report(node, "e", "f", "g")
    assert reported(node) == ["a", "a/2", "b", "c", "e", "f", "z"]


def test_those_of_other_nodes_are_counted_now_and_then() -> None:
    """Within an hour."""
    node = DeviceNode(DevicesSettings(max_shadows=2))
    report(node, "a")
    node.pass_time(1)
    elsewhere = WriteBatch()
    node.kept.put_reported(elsewhere, "b", StoredShadow(1, {"t": 1}, {"t": 1}))
    run(node.grid.commit(elsewhere))
    assert node.accompanied.figures().shadows == 1
    for seconds in (shadow_count.AGAIN, 1):
        node.pass_time(seconds)
    assert node.accompanied.figures().shadows == 2
    report(node, "c")
    assert reported(node) == ["a", "b"]
