"""When a full disk is to give back what removed entries take: at once, and then not too often."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred

from iot_mqtt.app.node.disk_room import DiskRoom
from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.disk import DiskUse


class Scene:
    """A disk whose fullness, and a grid whose merging, a test decides on."""

    def __init__(self) -> None:
        self.lacks_bytes = True
        self.used = 100
        self.merges: list[Deferred[None]] = []
        self.clock = ManualClock()
        self.counters = Counters()
        self.room = DiskRoom(cast(EmbeddedGrid, self), cast(Any, self), self.counters, self.clock)

    def measure(self) -> None:
        """The budget's."""

    def check(self) -> None:
        """The grid's."""

    def disk_use(self) -> DiskUse:
        return DiskUse(self.used, 0)

    async def make_room(self) -> None:
        self.merges.append(Deferred())
        await self.merges[-1]

    def look(self, seconds: float) -> int:
        """So much later; returns how many merges were begun so far."""
        self.clock.advance(seconds)
        self.room.look()
        return len(self.merges)


def test_only_a_full_disk_is_merged() -> None:
    """It is work that writes everything anew; elsewhere it is left to the database."""
    scene = Scene()
    scene.lacks_bytes = False
    assert scene.look(0) == 0
    scene.lacks_bytes = True
    assert scene.look(0) == 1


def test_there_is_one_merge_at_a_time_and_then_a_rest() -> None:
    """Of five times as long as it took; what it gave back is counted."""
    scene = Scene()
    assert [scene.look(0), scene.look(1), scene.look(1)] == [1, 1, 1]
    scene.used = 30
    scene.merges[0].callback(None)
    assert (scene.counters.disk_merges, scene.counters.disk_given_back_bytes) == (1, 70)
    assert scene.look(9.9) == 1
    assert scene.look(0.2) == 2


def test_a_merge_that_failed_is_tried_again() -> None:
    """It is not counted."""
    scene = Scene()
    scene.look(0)
    scene.merges[0].errback(Unavailable("the grid cannot write its tables"))
    assert scene.look(0.1) == 2
    assert scene.counters.disk_merges == 0
