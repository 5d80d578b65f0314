"""This life among the members of the registry: whether it may come to own anything new, and who else is there.

A life ends when it was fenced, when the registry has lost it, or because the node stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iot_mqtt.cluster.roster import Life, Roster, Standing
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.registry import Lease, Member, Registry, RegistryState


class Membership:
    """Of one life of a node."""

    def __init__(self, own: Life, registry: Registry, roster: Roster) -> None:
        self.own = own
        self._registry = registry
        self._roster = roster
        #: Why this life is over; None: it is not, or the node stops.
        self.over: str | None = None
        self._stopping = False

    # Its own life.

    @property
    def is_over(self) -> bool:
        """It ended, or the node stops."""
        return self.over is not None or self._stopping

    def connected(self) -> bool:
        """Whether this life may come to own anything new."""
        return not self.is_over and self._registry.state is RegistryState.CONNECTED

    def end(self, reason: str) -> bool:
        """It is over. False: it was before."""
        if self.is_over:
            return False
        self.over = reason
        return True

    def stop(self) -> bool:
        """The node stops. False: it did before."""
        if self._stopping:
            return False
        self._stopping = True
        return True

    def check(self) -> None:
        """``Unavailable``: the life has ended although the node does not stop."""
        if self.over is not None:
            raise Unavailable(f"the life of this node is over: {self.over}")

    async def acquire(self, name: str) -> Lease | None:
        """An exclusive right among the members; see ``ports.registry.Registry``."""
        return await self._registry.acquire(name)

    # The others.

    @property
    def members(self) -> Mapping[int, Member]:
        """The others that are in the list, by number."""
        return self._roster.members

    def standing(self, life: Life) -> Standing:
        """Whether a life of another node is alive; see ``roster``."""
        return self._roster.standing(life)

    def name(self, number: int) -> str:
        """What the list has called a node, there or not; "": it has never shown it."""
        return self._roster.name(number)

    def latest(self, number: int) -> int:
        """The greatest boot that the list has shown of a node; 0: none."""
        return self._roster.latest(number)

    def has_followed(self, life: Life) -> bool:
        """Whether that node is in the list, or a later life of it was."""
        return life.number in self._roster.members or self._roster.latest(life.number) > life.boot

    def update(self, members: Iterable[Member]) -> list[Life]:
        """The list as it is now; returns the lives that have gone from it without a later one in their place."""
        return self._roster.update(members)
