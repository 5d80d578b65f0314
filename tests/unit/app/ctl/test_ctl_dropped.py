"""``ctl dropped``: a table of the last ones, and the sums."""

from __future__ import annotations

import pytest

from iot_mqtt.admin.dropped_resources import DroppedResources
from iot_mqtt.broker.facade import DroppedInfo, DroppedWanted
from iot_mqtt.ports.counters import Counters, Drop
from tests.unit.admin.adminkit import FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl


class Remembering:
    """A node that has dropped one message, and says what it was asked."""

    def __init__(self) -> None:
        self.counters = Counters(lambda: 0.0)
        self.counters.dropped[Drop.QUEUE_FULL] += 3
        self.wanted: list[DroppedWanted] = []

    async def dropped(self, wanted: DroppedWanted, limit: int) -> list[DroppedInfo]:
        self.wanted.append(wanted)
        return [DroppedInfo("dropped", "queue_full", "press-7", "gateway", "hall/9", 3, 1.0, 2.0, "", None, "")]


def test_what_did_not_arrive_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the sums below it; what narrows it goes with the question."""
    remembering = Remembering()
    ctl = Ctl(monkeypatch, make_browser(FakeView(), further=(DroppedResources(lambda: remembering),)))
    head, line, total = ctl.lines("dropped", "--kind", "dropped", "--publisher", "gate")
    assert head.split() == ["AGO", "KIND", "REASON", "CLIENT", "TOPIC", "PUBLISHER", "COUNT", "DETAIL", "NODE"]
    assert "dropped queue_full press-7 hall/9 gateway 3" in " ".join(line.split())
    assert total == "dropped in all: queue_full 3"
    assert remembering.wanted == [DroppedWanted("dropped", publisher="gate")]
    assert '"totals"' in "".join(ctl.lines("dropped", "--json"))
