"""Durable groups while this node does not give out its own log yet, and who waits until it does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from iot_mqtt.broker.shared_groups.node import Group
from iot_mqtt.ports.clock import Clock

#: Seconds that subscribers wait at most until a group has its place in the log.
OPEN_WITHIN = 5.0


class WaitingGroups:
    """With the place in the log from where on each is owed what is published."""

    def __init__(self, clock: Clock, want: Callable[[], None]) -> None:
        """``want`` is called when there is one."""
        self._clock = clock
        self._want = want
        self._places: dict[Group, int] = {}
        # Who is to hear that none waits any more.
        self._calls: deque[Callable[[], None]] = deque()

    def __contains__(self, group: Group) -> bool:
        return group in self._places

    def __len__(self) -> int:
        return len(self._places)

    def add(self, group: Group, position: int) -> None:
        """One more."""
        self._places[group] = position
        self._want()

    def take(self) -> dict[Group, int]:
        """They can be given out now."""
        places, self._places = self._places, {}
        return places

    def drop_empty(self) -> None:
        """Without members there is no group."""
        for group in [group for group in self._places if not len(group)]:
            del self._places[group]
        self.tell()

    def when_open(self, call: Callable[[], None]) -> None:
        """``call`` once every durable group has a place of its own in this node's log, which is staged then, or after a
        bounded time: what was published for one that is only in memory is lost to it if this node dies.
        """
        if not self._places:
            call()
            return
        if not self._calls:
            self._clock.call_later(OPEN_WITHIN, self._call)
        self._calls.append(call)

    def tell(self) -> None:
        """Call those who wait, if no group does."""
        if not self._places:
            self._call()

    def _call(self) -> None:
        calls, self._calls = self._calls, deque()
        for call in calls:
            call()
