"""Which lives of which nodes are alive, by the registry's list and by what it has shown before.

    ALIVE    the list has that node with that boot
    DEAD     the list has shown it, or a later life of the node, and does not have it now
    UNSEEN   the list has never shown it: it may be about to appear; after a grace it counts as dead

Only asked while the registry is connected. To be wrong about DEAD spoils nothing: it is fenced before anything is
taken from it, and a node that was alive after all begins a new life.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import NamedTuple

from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.registry import Member


class Standing(Enum):
    """Of one life of one node."""

    ALIVE = auto()
    DEAD = auto()
    UNSEEN = auto()


class Life(NamedTuple):
    """One life of one node."""

    number: int
    boot: int


class Roster:
    """The other nodes; this one is never in it."""

    def __init__(self, own: int, clock: Clock, grace: float) -> None:
        self._own = own
        self._clock = clock
        self._grace = grace
        self._members: dict[int, Member] = {}
        #: The greatest boot that was ever listed.
        self._seen: dict[int, int] = {}
        self._doubted: dict[Life, float] = {}
        self._names: dict[int, str] = {}

    def update(self, members: Iterable[Member]) -> list[Life]:
        """The list as it is now; returns the lives that have gone from it without a later one in their place."""
        before = self._members
        self._members = {member.number: member for member in members if member.number != self._own}
        for number, member in self._members.items():
            self._seen[number] = max(member.boot, self._seen.get(number, 0))
            self._names[number] = member.node_id
        return [Life(number, member.boot) for number, member in before.items() if number not in self._members]

    @property
    def members(self) -> dict[int, Member]:
        """By number."""
        return self._members

    def latest(self, number: int) -> int:
        """The greatest boot that the list has shown of a node; 0: none."""
        return self._seen.get(number, 0)

    def name(self, number: int) -> str:
        """What the list has called a node, there or not; "": it has never shown it."""
        return self._names.get(number, "")

    def standing(self, life: Life) -> Standing:
        member = self._members.get(life.number)
        if member is not None and member.boot == life.boot:
            return Standing.ALIVE
        if life.boot <= self.latest(life.number):
            self._doubted.pop(life, None)
            return Standing.DEAD
        now = self._clock.monotonic()
        # A bound, should records name thousands of lives that never were.
        if len(self._doubted) >= 1_000 and life not in self._doubted:
            self._doubted.clear()
        since = self._doubted.setdefault(life, now)
        return Standing.DEAD if now - since >= self._grace else Standing.UNSEEN
