"""Whether what other nodes have recorded is up: asked for when a client repeats, here, what one of them may have
recorded and not sent up yet.

A look finds out how much each of them had recorded when it began, and is over when so much of it is safe: by the owner
of that log, or by whoever sends up for one that is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from iot_mqtt.broker.driving import RETRY_SECONDS, drive
from iot_mqtt.pause import pause
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.uplink import Place

logger = logging.getLogger(__name__)


class Others:
    """Of one node. Looks have numbers; one that is over covers all before it."""

    def __init__(
        self, places: Callable[[], Awaitable[Mapping[int, Place]]], clock: Clock, moved: Callable[[], None]
    ) -> None:
        """``places``: how far the uplinks of all other nodes are, as they keep it; ``moved`` is told of the end of each
        look.
        """
        self._places = places
        self._clock = clock
        self._moved = moved
        #: The last look that is over; that was begun; that somebody waits for.
        self.seen = self._begun = self._wanted = 0

    def ask(self) -> int:
        """The number of a look that begins now or later."""
        self._wanted = self._begun + 1
        if self._begun == self.seen:
            self._begin()
        return self._wanted

    def _begin(self) -> None:
        self._begun += 1
        self._try()

    def _try(self) -> None:
        drive(self._look(), self._over, self._failed)

    async def _look(self) -> None:
        owed = {writer: place for writer, place in (await self._places()).items() if place.taken < place.recorded}
        while owed:
            await pause(self._clock, RETRY_SECONDS)
            now = await self._places()
            owed = {writer: place for writer, place in owed.items() if writer in now and _is_owed(place, now[writer])}

    def _over(self, _: None) -> None:
        self.seen = self._begun
        self._moved()
        if self._wanted > self._begun:
            self._begin()

    def _failed(self, error: BaseException) -> None:
        logger.warning("how far the uplinks of other nodes are cannot be seen; trying again: %s", error)
        self._clock.call_later(RETRY_SECONDS, self._try)


def _is_owed(before: Place, now: Place) -> bool:
    """Whether some of what was recorded before is not safe. In another spool there is nothing of it."""
    return now.spool == before.spool and now.taken < before.recorded
