"""A frame is in one commit, with its number: killed between any two commits, nothing of it comes twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any

import pytest

from iot_mqtt.broker.connections.traffic import Rates
from iot_mqtt.broker.publishing import budget
from iot_mqtt.broker.settings import BudgetSettings, MqttSettings
from iot_mqtt.devices.link import DeviceStage
from iot_mqtt.ports.disk import DiskUse
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.sdk import Readings
from tests.unit.broker.harness import CrashingGrid, run
from tests.unit.devices.devicekit import DeviceNode
from tests.unit.devices.link.linkkit import World

FRAMES, DEVICES = 9, 4


class Killed(CrashingGrid):
    """Takes so many commits more, and then its process is killed."""

    left = inf

    def commit_soon(self, batch: WriteBatch, done: Callable[[BaseException | None], None]) -> None:
        if self.left > 0:
            self.left -= 1
            super().commit_soon(batch, done)


class Filling:
    """A disk that is full at some of the looks at it."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> DiskUse:
        self.looks += 1
        return DiskUse(used=100 if self.looks % 9 > 5 else 0, free=1000, passing=0)


def frames(first: int, last: int) -> list[str]:
    """Of all devices, in words of the codec of lines."""
    words: list[str] = []
    for number in range(first, last + 1):
        readings = [f'r d{device} {{"n": {number}}} {number}' for device in range(DEVICES)]
        # Something else in the midst of a frame.
        words += [*readings[:2], "beat", *readings[2:]]
    return words


def left_behind(commits: float, **options: Any) -> tuple[int, Counter[int]]:
    """The number that is called safe, and how many readings of each frame there are, when the node was killed after so
    many commits.
    """
    grid = Killed()
    node = DeviceNode(grid=grid, **options)
    keeper = node.connect("keeper", expiry=3600)
    keeper.subscribe("up/#", qos=1)
    keeper.lose()
    gateway = World(node, devices=node.accompanied.devices).gateway()
    grid.left = commits
    for first in range(1, FRAMES, 3):
        gateway.say(*frames(first, first + 2), "beat")
    for _ in range(20):
        node.advance(0.25)
        node.broker.publishing.budget.measure()
    assert not gateway.closed
    node.restart()
    stored = run(node.kept.sequence("line-1"))
    runs = run(node.broker.log.read(("up/#",), 0, 1000, 1 << 24)).runs
    found = Counter(json.loads(payload)["seq"] for one in runs for payload in one.run.payloads())
    return 0 if stored is None else stored.highest, found


@pytest.mark.parametrize(
    "options",
    [
        {"settings": MqttSettings(receive_maximum=10)},
        {"settings": MqttSettings(receive_maximum=8)},
        {"settings": MqttSettings(receive_maximum=3)},
        {"rates": {"embedded": Rates(messages=10)}},
        {"rates": {"embedded": Rates(bytes=1000)}},
        {"budget": BudgetSettings(uncommitted_bytes=500)},
        {
            "settings": MqttSettings(receive_maximum=6),
            "rates": {"embedded": Rates(messages=7)},
            "budget": BudgetSettings(uncommitted_bytes=900),
        },
        {"budget": BudgetSettings(disk_limit=100), "disk": Filling},
    ],
    ids=["in a frame", "behind a frame", "less than a frame", "messages", "bytes", "uncommitted", "all", "disk"],
)
def test_a_frame_is_in_one_commit_with_its_number(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever holds the gateway off in the middle of it."""
    monkeypatch.setattr(budget, "LOOK_BYTES", 0)
    for commits in count():
        made = {**options, "disk": options["disk"]()} if "disk" in options else options
        safe, found = left_behind(commits, **made)
        assert found == dict.fromkeys(range(1, safe + 1), DEVICES), f"{safe} after {commits} commits"
        if safe == FRAMES:
            break
        assert commits < FRAMES * DEVICES
    assert commits > 1


def test_what_is_said_while_the_broker_holds_a_frame_back_comes_behind_it() -> None:
    """A codec in another process speaks when nobody reads: what it says is not published before what was held."""
    node = DeviceNode(rates={"embedded": Rates(messages=4)})
    reader = node.connect("reader")
    reader.subscribe("up/#", qos=1)
    devices = node.accompanied.devices
    gateway = World(node, devices=devices).gateway()
    gateway.say(*frames(1, 1))
    gateway.say(*frames(2, 2))
    stage = gateway.wire.pipeline.get("device")
    assert isinstance(stage, DeviceStage)
    stage.events([Readings("d", {}, sequence=3)])
    found = []
    for _ in range(20):
        node.advance(0.25)
        found += [json.loads(one.payload)["seq"] for one in reader.messages()]
        assert not found or not devices.is_fresh("line-1", found[-1])
    assert found == [1] * DEVICES + [2] * DEVICES + [3]
