"""How many shadows there are.

The store is counted a page at a time, after a start and every hour, because other nodes make shadows, too. What this
node makes or forgets is counted at once; while a round is under way also in that, unless its turn is still to come.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from iot_mqtt.broker.driving import drive
from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.ports.devices import DeviceStore, Half

if TYPE_CHECKING:
    from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: Records that are read in one turn.
PAGE = 250
#: Seconds between two rounds, and until a store that does not answer is asked again.
AGAIN = 3600.0
LATER = 10.0


class _Tally:
    """Of one half."""

    __slots__ = ("total", "behind")

    def __init__(self) -> None:
        self.total = 0
        #: Of each client, without its own.
        self.behind: dict[str, int] = {}

    def add(self, target: str, count: int = 1) -> None:
        self.total += count
        client, slash, _ = target.partition("/")
        if slash:
            self.behind[client] = self.behind.get(client, 0) + count
            if self.behind[client] <= 0:
                del self.behind[client]


class ShadowCount:
    """``sweep`` it now and then."""

    def __init__(self, store: DeviceStore, clock: Clock, settings: DevicesSettings) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        #: As the last round found it, and what is different since.
        self._counted = {half: _Tally() for half in Half}
        #: The round that is under way, and its place.
        self._round = {half: _Tally() for half in Half}
        self._half, self._after = Half.REPORTED, ""
        self._reading = False
        self._next = 0.0

    def total(self, half: Half) -> int:
        """As far as is known: in the first round there are as many as were found."""
        return max(self._counted[half].total, self._round[half].total)

    def full(self, half: Half, target: str) -> str | None:
        """Why there may not be one more; None: there may."""
        total, settings = self.total(half), self._settings
        if total >= settings.max_shadows:
            return f"there are {total} shadows; more are not allowed (devices.max_shadows)"
        client, slash, _ = target.partition("/")
        behind = max(tally[half].behind.get(client, 0) for tally in (self._counted, self._round))
        if slash and behind >= settings.max_shadows_behind:
            return f"there are {behind} shadows behind {client}; more are not allowed (devices.max_shadows_behind)"
        return None

    def made(self, half: Half, target: str) -> None:
        """There is one more."""
        self._add(half, target, 1)

    def forgot(self, half: Half, target: str) -> None:
        """There is one less."""
        self._add(half, target, -1)

    def _add(self, half: Half, target: str, count: int) -> None:
        self._counted[half].add(target, count)
        passed = target.encode() <= self._after.encode() if half is self._half else half is Half.REPORTED
        if passed:
            self._round[half].add(target, count)

    def sweep(self) -> None:
        """Read the next page, if it is time."""
        if not self._reading and self._clock.monotonic() >= self._next:
            self._reading = True
            drive(self._store.shadows_after(self._half, self._after, PAGE), self._read, self._not_read)

    def _read(self, targets: list[str]) -> None:
        self._reading = False
        tally = self._round[self._half]
        for target in targets:
            tally.add(target)
        if len(targets) == PAGE:
            self._after = targets[-1]
            return
        self._after = ""
        if self._half is Half.REPORTED:
            self._half = Half.DESIRED
            return
        self._half = Half.REPORTED
        self._counted, self._round = self._round, {half: _Tally() for half in Half}
        self._next = self._clock.monotonic() + AGAIN

    def _not_read(self, error: BaseException) -> None:
        self._reading = False
        self._next = self._clock.monotonic() + LATER
        log.warning("shadows cannot be counted now; trying again: %s", error)
