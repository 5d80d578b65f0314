"""Shadows: what is reported and desired, and the difference."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from iot_mqtt.broker.driving import drive
from iot_mqtt.devices import DevicesSettings, reports
from iot_mqtt.devices.shadows import TOLERANCE
from iot_mqtt.errors import Refused, Unavailable
from iot_mqtt.ports.devices import StoredShadow
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.unit.broker.harness import Client, run
from tests.unit.devices.devicekit import DeviceNode


def deltas(client: Client) -> list[Any]:
    return [json.loads(message.payload) for message in client.messages()]


def shadow(node: DeviceNode, target: str) -> tuple[StoredShadow, StoredShadow]:
    return run(node.accompanied.shadows.get(target))


def test_what_is_reported_is_merged_and_written_lazily() -> None:
    """By tag, the newest counts, once an interval, and it is there after a restart."""
    node = DeviceNode()
    shadows = node.accompanied.shadows
    node.pass_time(5)
    shadows.report("gw/d", {"t": 20, "p": 1}, 1000)
    node.pass_time(1)
    commits = node.counters.commits
    shadows.report("gw/d", {"t": 21}, 2000)
    shadows.report("gw/d", {"t": 19, "p": 2}, 1500)
    reported, _ = shadow(node, "gw/d")
    assert (reported.values, reported.times) == ({"t": 21, "p": 2}, {"t": 2000, "p": 1500})
    node.turn()
    assert node.counters.commits == commits
    node.pass_time(1)
    assert node.counters.commits == commits + 1
    node.restart()
    reported, _ = shadow(node, "gw/d")
    assert (reported.values, reported.version) == ({"t": 21, "p": 2}, 2)


def test_the_difference_is_published_when_it_changes() -> None:
    """Once each time, and once more when there is none."""
    node = DeviceNode()
    shadows, client = node.accompanied.shadows, node.connect("c")
    client.subscribe("shadow/+/+/delta", qos=1)
    shadows.report("gw/d", {"t": 20}, 1000)
    node.pass_time(1)
    assert deltas(client) == []
    run(shadows.desire("gw/d", {"t": 25, "m": "auto"}, None))
    node.turn()
    assert deltas(client) == [{"version": 1, "delta": {"t": 25, "m": "auto"}}]
    shadows.report("gw/d", {"t": 25}, 2000)
    node.pass_time(1)
    assert deltas(client) == [{"version": 1, "delta": {"m": "auto"}}]
    shadows.report("gw/d", {"t": 25}, 3000)
    node.pass_time(1)
    assert deltas(client) == []
    run(shadows.desire("gw/d", {"m": None}, 1))
    node.turn()
    assert deltas(client) == [{"version": 2, "delta": {}}]


def test_versions_keep_two_writers_apart() -> None:
    """Who has not seen the last change is told its version."""
    node = DeviceNode()
    shadows = node.accompanied.shadows
    assert run(shadows.desire("d", {"a": 1}, 0)).version == 1
    with pytest.raises(Refused, match="version 1, not 0"):
        run(shadows.desire("d", {"a": 2}, 0))
    assert shadow(node, "d")[1].values == {"a": 1}


def test_mqtt_clients_report_for_themselves_only() -> None:
    """And desire what the rules let them publish; a wrong version is told."""
    node = DeviceNode()
    device, other = node.connect("d"), node.connect("other")
    other.subscribe("shadow/d/refused", qos=1)
    device.publish("shadow/d/reported", b'{"t": 1}', qos=1)
    other.publish("shadow/d/reported", b'{"t": 99}', qos=1)
    other.publish("shadow/d/desired", b'{"t": 2}', qos=1)
    other.publish("shadow/d/desired", b'{"desired": {"t": 3}, "version": 7}', qos=1)
    other.publish("shadow/d/desired", b"[1]", qos=1)
    node.pass_time(1)
    reported, desired = shadow(node, "d")
    assert (reported.values, desired.values) == ({"t": 1}, {"t": 2})
    assert [json.loads(one.payload)["error"] for one in other.messages()] == [
        "what is desired has version 1, not 7",
        "it is no JSON object",
    ]


def test_a_shadow_is_bounded() -> None:
    """What would make it larger is refused or counted."""
    node = DeviceNode(DevicesSettings(max_shadow_bytes=100))
    shadows = node.accompanied.shadows
    with pytest.raises(Refused, match="100 bytes"):
        run(shadows.desire("d", {"a": "x" * 100}, None))
    shadows.report("d", {"a": "x" * 100}, 1)
    node.pass_time(1)
    assert shadow(node, "d")[0].values == {}
    assert shadows.refused == 1


@pytest.mark.parametrize("target", ["", "/d", "a/#", "+"])
def test_a_target_names_a_device(target: str) -> None:
    """Nothing else."""
    with pytest.raises(Refused, match="target"):
        run(DeviceNode().accompanied.shadows.desire(target, {}, None))


def test_a_shadow_is_of_the_user_whose_device_reported_first() -> None:
    """In the same interval, later, and after a restart; an operator may have it forgotten."""
    node = DeviceNode()
    client = node.connect("c")
    client.subscribe("shadow/+/refused", qos=1)
    node.accompanied.shadows.report("d", {"t": 1}, 1000, "ann")
    node.accompanied.shadows.report("d", {"t": 9}, 2000, "bob")
    node.pass_time(2)
    assert shadow(node, "d")[0] == StoredShadow(1, {"t": 1}, {"t": 1000}, "ann")
    node.restart()
    shadows = node.accompanied.shadows
    shadows.report("d", {"t": 9}, 3000, "bob")
    assert shadow(node, "d")[0].values == {"t": 1}
    node.pass_time(2)
    assert (shadow(node, "d")[0].values, shadows.refused) == ({"t": 1}, 1)
    shadows.report("d", {"t": 2}, 4000, "ann\0001")
    node.pass_time(2)
    shadows.report("d", {"t": 9}, 5000, "ann")
    node.pass_time(2)
    assert (shadow(node, "d")[0].values, shadow(node, "d")[0].owner) == ({"t": 2}, "ann\0001")
    node.hold()
    forgotten: list[object] = []
    drive(shadows.forget_reported("d"), forgotten.append, forgotten.append)
    node.turn()
    assert forgotten == [], "it is answered when it is committed"
    node.release()
    assert forgotten == [True] and not run(shadows.forget_reported("other"))
    shadows.report("d", {"t": 9}, 6000, "bob")
    node.pass_time(2)
    assert (shadow(node, "d")[0].values, shadow(node, "d")[0].owner) == ({"t": 9}, "bob")
    assert len(client.messages()) == 1


def test_what_nobody_in_particular_reported_is_for_everybody() -> None:
    """Of before there were users, or before shadows had owners."""
    node = DeviceNode()
    shadows = node.accompanied.shadows
    for number, owner in enumerate((None, "", "ann", "")):
        shadows.report("d", {"t": number}, 1000 + number, owner)
        node.pass_time(2)
    assert (shadow(node, "d")[0].values, shadow(node, "d")[0].owner) == ({"t": 2}, "ann")


@pytest.mark.parametrize("half", [b"r", b"d"])
def test_a_shadow_of_a_later_version_is_not_taken_for_none(half: bytes) -> None:
    """It is not written over, nobody else gets the device for that, and shadows of other devices are written."""
    node = DeviceNode()
    shadows, batch = node.accompanied.shadows, WriteBatch()
    batch.put(CacheName.SHADOWS, half + b"gw/later", b"\x20what it means is known to that version")
    run(node.grid.commit(batch))
    node.pass_time(5)
    shadows.report("gw/later", {"t": 20}, 1000, "someone")
    shadows.report("gw/other", {"t": 21}, 1000)
    node.pass_time(2)
    assert run(node.grid.get(CacheName.SHADOWS, half + b"gw/later")) == batch.operations[0][2]
    assert shadow(node, "gw/other")[0].values == {"t": 21}
    with pytest.raises(Unavailable, match="later"):
        shadow(node, "gw/later")
    with pytest.raises(Unavailable, match="later"):
        run(shadows.desire("gw/later", {"t": 1}, None))
    assert run(node.grid.get(CacheName.SHADOWS, half + b"gw/later")) == batch.operations[0][2]


def test_what_another_node_has_written_meanwhile_is_read_again() -> None:
    """Of all devices of a client whose session was there, and of no others."""
    node = DeviceNode()
    shadows = node.accompanied.shadows
    targets = ("gw/a", "gw/b", "gw-2/a")
    node.pass_time(5)
    for target in targets:
        shadows.report(target, {"t": 1}, 1000)
    node.pass_time(1)
    elsewhere = WriteBatch()
    for target in targets:
        node.kept.put_reported(elsewhere, target, StoredShadow(7, {"p": 2}, {"p": 1500}))
    run(node.grid.commit(elsewhere))
    shadows.forget("gw")
    shadows.forget("gw-3")
    for target in targets:
        shadows.report(target, {"t": 3}, 2000)
    node.pass_time(1)
    found = {target: shadow(node, target)[0] for target in targets}
    assert [(one.version, one.values) for one in found.values()] == [
        (8, {"p": 2, "t": 3}),
        (8, {"p": 2, "t": 3}),
        (2, {"t": 3}),
    ]


def test_a_target_that_goes_wrong_holds_up_nobody(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was reported of it is dropped, logged once and counted; what comes later is kept again."""
    node = DeviceNode()
    shadows, put = node.accompanied.shadows, node.kept.put_reported

    def fail(batch: WriteBatch, target: str, shadow: StoredShadow) -> None:
        if target == "gw/bad":
            raise RecursionError("it is too deep")
        put(batch, target, shadow)

    node.pass_time(5)
    with monkeypatch.context() as patched:
        patched.setattr(node.kept, "put_reported", fail)
        for number, target in enumerate(("gw/a", "gw/bad", "gw/c")):
            shadows.report(target, {"t": number, "p": 1}, 1000)
        for _ in range(3):
            node.pass_time(1)
    assert [shadow(node, target)[0].values for target in ("gw/a", "gw/bad", "gw/c")] == [
        {"t": 0, "p": 1},
        {},
        {"t": 2, "p": 1},
    ]
    assert shadows.refused == 2
    (logged,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert "too deep" in logged.getMessage()
    shadows.report("gw/bad", {"t": 9}, 2000)
    node.pass_time(1)
    assert shadow(node, "gw/bad")[0].values == {"t": 9}


def test_a_store_that_does_not_answer_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was reported waits for it."""
    node = DeviceNode()
    shadows = node.accompanied.shadows

    async def away(target: str) -> StoredShadow:
        raise Unavailable("the grid is away")

    node.pass_time(5)
    shadows.report("gw/a", {"t": 1}, 1000)
    with monkeypatch.context() as patched:
        patched.setattr(node.kept, "reported", away)
        node.pass_time(2)
    node.pass_time(2)
    assert (shadow(node, "gw/a")[0].values, shadows.refused) == ({"t": 1}, 0)


def test_a_time_far_ahead_is_not_believed() -> None:
    """It counts as now, and so does one that was kept before; a clock that is a little ahead may be."""
    node = DeviceNode()
    shadows = node.accompanied.shadows
    node.pass_time(1000)
    now = round(node.clock.wall() * 1000)
    ahead = now + TOLERANCE
    for time in (2**48 - 1, ahead + 1, ahead):
        shadows.report("gw/d", {f"t{time}": 1}, time)
    assert list(shadow(node, "gw/d")[0].times.values()) == [now, now, ahead]
    old = WriteBatch()
    node.kept.put_reported(old, "gw/frozen", StoredShadow(1, {"t": 1, "u": 1}, {"t": 2**48 - 1, "u": ahead}))
    run(node.grid.commit(old))
    shadows.report("gw/frozen", {"t": 2, "u": 2}, now)
    node.pass_time(1)
    reported, _ = shadow(node, "gw/frozen")
    assert (reported.values, reported.times) == ({"t": 2, "u": 1}, {"t": now, "u": ahead})


def test_what_is_too_large_for_a_shadow_is_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its device is told; a gateway's reading counts."""
    monkeypatch.setattr("iot_mqtt.devices.shadows.read_json", None)
    node = DeviceNode(DevicesSettings(max_shadow_bytes=100))
    device = node.connect("d")
    device.subscribe("shadow/d/refused", qos=1)
    for half in ("reported", "desired"):
        device.publish(f"shadow/d/{half}", b'{"t": "' + b"x" * 100 + b'"}', qos=1)
    assert [json.loads(one.payload)["error"] for one in device.messages()] == ["it has 109 bytes, more than 100"] * 2
    node.accompanied.devices.values("gw", "d", b'{"t": "' + b"x" * 100 + b'"}', 1)
    assert node.accompanied.shadows.refused == 3


def test_readings_that_a_codec_wrote_as_json_are_reported() -> None:
    """But for what is too deep; nothing is read where nobody keeps shadows."""
    node = DeviceNode()
    node.accompanied.devices.values("gw", "d", b'{"t": 20.5}', 1000)
    node.accompanied.devices.values("gw", "deep", b'{"t": ' + b"[" * 200 + b"]" * 200 + b"}", 1000)
    node.pass_time(1)
    assert (shadow(node, "gw/d")[0].values, shadow(node, "gw/deep")[0].values) == ({"t": 20.5}, {})
    assert node.accompanied.shadows.refused == 1
    without = DeviceNode(DevicesSettings(shadows=False))
    without.accompanied.devices.values("gw", "d", b"no JSON", 1000)
    assert without.accompanied.shadows.refused == 0


def test_what_waits_to_be_written_is_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """In all, and for one client. It is said and counted; a value in the place of another takes no more room."""
    monkeypatch.setattr(reports, "MAX_WAITING", 30_000)
    monkeypatch.setattr(reports, "MAX_WAITING_OF_ONE", 20_000)
    node = DeviceNode()
    client, shadows = node.connect("c"), node.accompanied.shadows
    client.subscribe("shadow/#", qos=1)
    node.pass_time(5)
    for number in range(10):
        shadows.report("gw/same", {"t": "x" * 9000}, 1000 + number)
    assert shadows.refused == 0
    for target in ("gw/a", "gw/b", "other/a", "third/a"):
        shadows.report(target, {"t": "x" * 9000}, 1000)
    node.turn()
    assert [one.topic for one in client.messages()] == [b"shadow/gw/b/refused", b"shadow/third/a/refused"]
    assert shadows.refused == 2
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1
    node.pass_time(1)
    assert [len(shadow(node, one)[0].values) for one in ("gw/same", "gw/a", "gw/b", "other/a", "third/a")] == [
        1,
        1,
        0,
        1,
        0,
    ]
    shadows.report("gw/b", {"t": "x" * 9000}, 2000)
    shadows.report("third/a", {"t": "x" * 9000}, 2000)
    assert shadows.refused == 2


def test_shadows_that_are_not_remembered_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered has so many bytes, however few shadows these are; a large one is as good as a small one."""
    monkeypatch.setattr(reports, "REMEMBERED", 50_000)
    node = DeviceNode()
    client, shadows = node.connect("c"), node.accompanied.shadows
    client.subscribe("shadow/+/+/delta", qos=1)
    targets = [f"gw/{number}" for number in range(10)]
    for tag in ("t", "u"):
        for target in targets:
            shadows.report(target, {tag: "x" * 20_000}, 1000)
            node.pass_time(1)
    assert [sorted(shadow(node, target)[0].values) for target in targets] == [["t", "u"]] * 10
    run(shadows.desire("gw/0", {"t": 1}, None))
    run(shadows.desire("gw/0", {"v": 1}, None))
    node.turn()
    assert [one["delta"] for one in deltas(client)] == [{"t": 1}, {"t": 1, "v": 1}]


def test_what_is_remembered_has_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that came first make room, also with nobody left; what comes again counts once."""
    monkeypatch.setattr(reports, "REMEMBERED", 5000)
    recent: reports.Recent[int] = reports.Recent()
    assert [recent.put(target, 1, 1000) for target in "abcabcd"] == [[]] * 6 + [["a"]]
    assert recent.put("e", 1, 10_000) == ["b", "c", "d", "e"]
    assert (len(recent), recent.put("f", 1, 4000)) == (0, [])
