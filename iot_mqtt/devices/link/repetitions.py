"""Devices whose readings are repetitions and nothing else, for longer than a gateway sends again what it has kept.

After a reconnect a gateway sends again what was not acknowledged, and then goes on with new numbers. Where its numbers
begin again (they were too narrow, it was restarted) or are those of each device, the readings are new and their numbers
are not: they are lost until the numbers are higher than any before, and somebody has to be told.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from iot_mqtt.devices.link.messages import LONGEST_NAME

log = logging.getLogger(__name__)

#: What is remembered of it.
REPEATED: Final = "repeated_readings"
#: For so many milliseconds, and so many times at least. What comes together, as after a reconnect, is one time.
LONG: Final = 30_000
MANY: Final = 3
APART: Final = 1_000
#: Devices of one gateway that are watched at once, and gateways.
WATCHED: Final = 256
GATEWAYS: Final = 1_000

#: Gateway, code, topic, how often, what else there is to say: as ``ports.recent`` remembers it.
Note = Callable[[str, str, str, int, str], None]


class _Row:
    """Repetitions of one device, and no new reading between them."""

    __slots__ = ("since", "last", "times", "count", "noted")

    def __init__(self, now: int) -> None:
        self.since = now
        #: When it came the last time, as far as that was counted among the times.
        self.last = now - APART
        self.times = 0
        #: Readings, and how many of them were noted.
        self.count = self.noted = 0


class _Gateway:
    """Its devices that are watched."""

    __slots__ = ("rows", "is_logged")

    def __init__(self) -> None:
        self.rows: dict[str, _Row] = {}
        self.is_logged = False


class Repetitions:
    """Of one node: also of gateways that connect anew for each reading. ``now``: milliseconds since 1970."""

    __slots__ = ("_now", "_note", "_gateways")

    def __init__(self, now: Callable[[], int], note: Note) -> None:
        self._now = now
        self._note = note
        #: Those that have repetitions; which had one last stands last.
        self._gateways: OrderedDict[str, _Gateway] = OrderedDict()

    def ended(self, gateway: str, device: str) -> None:
        """A reading of this device is new."""
        found = self._gateways.get(gateway)
        if found is not None and found.rows.pop(device, None) is not None and not found.rows:
            del self._gateways[gateway]

    def came(self, gateway: str, device: str, sequence: int, taken: int) -> None:
        """A reading of this device has a number that was taken before; ``taken`` is the highest that was."""
        device, now, found = device[:LONGEST_NAME], self._now(), self._watched(gateway)
        row = found.rows.get(device)
        if row is None:
            if len(found.rows) >= WATCHED:
                return
            row = found.rows[device] = _Row(now)
        row.count += 1
        if now - row.last >= APART:
            row.last = now
            row.times += 1
        if row.times < MANY or now - row.since < LONG:
            return
        why = f"it counts {sequence}, and {taken} was taken before"
        self._note(gateway, REPEATED, f"up/{gateway}/{device}", row.count - row.noted, why)
        row.noted = row.count
        if not found.is_logged:
            found.is_logged = True
            told = {"gateway": gateway, "device": device}
            log.warning("readings are not published, for their numbers were taken before: %s", why, extra=told)

    def _watched(self, gateway: str) -> _Gateway:
        gateways = self._gateways
        found = gateways.get(gateway)
        if found is None:
            if len(gateways) >= GATEWAYS:
                gateways.popitem(last=False)
            found = gateways[gateway] = _Gateway()
        else:
            gateways.move_to_end(gateway)
        return found
