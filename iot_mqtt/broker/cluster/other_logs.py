"""The logs of other nodes: each is read from when its node becomes known, whether that node is there or not.

A log that cannot be opened is tried again until it can: what is in it may be owed to somebody.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.log import Followed

log = logging.getLogger(__name__)

#: Opens a reader of the log of another node.
Follow = Callable[[int], Awaitable[Followed]]


class OtherLogs:
    """Opens readers, one for each number."""

    def __init__(self, logs: Logs, clock: Clock, follow: Follow) -> None:
        self._logs = logs
        self._clock = clock
        self._follow = follow
        self._opening: set[int] = set()
        #: What was announced of logs that are not open yet: what is before it was offered when nobody was there to take
        #: it, and the grid may have been asked for the end before that.
        self._announced: dict[int, int] = {}
        logs.missed = self.follow

    def follow(self, number: int) -> None:
        """Read a node's log from now on."""
        logs = self._logs
        if number != logs.own.writer and logs.of(number) is None and number not in self._opening:
            self._opening.add(number)
            drive(self.open(number), done, partial(self._not_open, number))

    def announce(self, number: int, end: int) -> None:
        """The node says how far its log is."""
        reader = self._logs.of(number)
        if reader is not None:
            reader.announce(end)
        else:
            self._announced[number] = max(end, self._announced.get(number, 0))

    async def open(self, number: int) -> Followed:
        """The reader of a node's log; raises what opening it raises."""
        if self._logs.of(number) is None:
            opened = await self._follow(number)
            opened.announce(self._announced.pop(number, 0))
            self._logs.add(opened)
        self._opening.discard(number)
        reader = self._logs.of(number)
        assert reader is not None, "a node's own log is not opened here"
        return reader

    def ended(self, number: int, found: Callable[[int], None]) -> None:
        """A node is dead, so its log has an end: ``found`` is called when that is known to its reader, if there is one;
        whoever opens one finds it.
        """
        reader = self._logs.of(number)
        if reader is None:
            self.follow(number)
            found(number)
        else:
            drive(reader.refresh(), lambda _: found(number), partial(self._end_not_found, number, found))

    def _end_not_found(self, number: int, found: Callable[[int], None], error: BaseException) -> None:
        log.error("the end of the log of a node (number %d) cannot be read, trying again: %s", number, error)
        self._clock.call_later(RETRY_SECONDS, partial(self.ended, number, found))

    def _not_open(self, number: int, error: BaseException) -> None:
        self._opening.discard(number)
        log.error("the log of a node (number %d) cannot be opened, trying again: %s", number, error)
        self._clock.call_later(RETRY_SECONDS, partial(self.follow, number))
