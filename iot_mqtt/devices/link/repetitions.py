"""Devices whose readings are repetitions and nothing else, for longer than a gateway sends again what it has kept.

After a reconnect a gateway sends again what was not acknowledged, and then goes on with new numbers. Where its numbers
begin again (they were too narrow, it was restarted) or are those of each device, the readings are new and their numbers
are not: they are lost until the numbers are higher than any before, and somebody has to be told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from iot_mqtt.devices.link.messages import LONGEST_NAME

log = logging.getLogger(__name__)

#: What is remembered of it.
REPEATED: Final = "repeated_readings"
#: For so many milliseconds, and so many readings at least.
LONG: Final = 30_000
MANY: Final = 10
#: Devices of one connection that are watched at once.
WATCHED: Final = 256

#: Gateway, code, topic, how often, what else there is to say: as ``ports.recent`` remembers it.
Note = Callable[[str, str, str, int, str], None]


class Repetitions:
    """Of one connection. ``now``: milliseconds since 1970."""

    __slots__ = ("_gateway", "_now", "_note", "_watched", "_is_logged")

    def __init__(self, gateway: str, now: Callable[[], int], note: Note) -> None:
        self._gateway = gateway
        self._now = now
        self._note = note
        #: Device → when the first of its repetitions came, how many came since, and how many of them were noted.
        self._watched: dict[str, tuple[int, int, int]] = {}
        self._is_logged = False

    def ended(self, device: str) -> None:
        """A reading of this device is new."""
        self._watched.pop(device, None)

    def came(self, device: str, sequence: int, taken: int) -> None:
        """A reading of this device has a number that was taken before; ``taken`` is the highest that was."""
        device, watched, now = device[:LONGEST_NAME], self._watched, self._now()
        since, count, noted = watched.get(device, (now, 0, 0))
        if not count and len(watched) >= WATCHED:
            return
        count += 1
        if count >= MANY and now - since >= LONG:
            self._tell(device, count - noted, f"it counts {sequence}, and {taken} was taken before")
            noted = count
        watched[device] = since, count, noted

    def _tell(self, device: str, count: int, why: str) -> None:
        self._note(self._gateway, REPEATED, f"up/{self._gateway}/{device}", count, why)
        if not self._is_logged:
            self._is_logged = True
            told = {"gateway": self._gateway, "device": device}
            log.warning("readings are not published, for their numbers were taken before: %s", why, extra=told)
