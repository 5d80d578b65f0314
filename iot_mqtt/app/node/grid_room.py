"""Fits the log of a node to the room that its shared grid has, so that the oldest goes before anything is refused.

::

    the servers say how full they are ─▶ the log's share: of what all offer, by the nodes that are there
                                      ─▶ the budget: whether what is published is taken
                                      ─▶ nearly full: the oldest generation goes now
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.publishing.fullness import DiskLevel
from iot_mqtt.broker.upkeep import Upkeep
from iot_mqtt.grid.ignite import IgniteGrid
from iot_mqtt.grid.log import GridLog
from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: Of what the servers offer, the part that the logs of all nodes may have. An entry takes more than its bytes, and
#: sessions and retained messages want room, too: the alarm (at 80 %) is for what comes beside this.
LOG_SHARE: Final = 0.6
#: Seconds between two generations that go because the grid is nearly full: until then the servers have not said what
#: the first one made of it.
PAUSE: Final = 1.5


class GridRoom:
    """One life of a node. Everything runs in the reactor's thread."""

    def __init__(
        self,
        grid: IgniteGrid,
        messages: GridLog,
        budget: Budget,
        upkeep: Upkeep,
        nodes: Callable[[], int],
        clock: Clock,
    ) -> None:
        self._grid = grid
        self._messages = messages
        self._budget = budget
        self._upkeep = upkeep
        self._nodes = nodes
        self._clock = clock
        self._pressed_at = clock.monotonic() - PAUSE

    def begin(self) -> None:
        """From now on."""
        self._messages.ceiling.pressed = self._pressed
        self._grid.on_room = self._changed
        self._changed()
        if self._messages.ceiling.bytes:
            log.info("the log has a share of the grid", extra={"bytes": self._messages.ceiling.bytes})

    def _changed(self) -> None:
        if self._grid.capacity:
            self._messages.limit(int(self._grid.capacity * LOG_SHARE) // self._nodes())
        budget = self._budget
        budget.measure()
        over = 0 < self._messages.ceiling.bytes < self._messages.size
        pressed = budget.level is not DiskLevel.NONE and self._clock.monotonic() - self._pressed_at >= PAUSE
        if over or pressed:
            self._upkeep.begin()

    def _pressed(self) -> bool:
        """Asked when there is something that could go, which then does."""
        now = self._clock.monotonic()
        if self._budget.level is DiskLevel.NONE or now - self._pressed_at < PAUSE:
            return False
        self._pressed_at = now
        return True
