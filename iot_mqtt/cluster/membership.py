"""This life among the members of the registry: whether it may come to own anything new, and who else is there.

A life ends when it was fenced, when the registry has lost it, or because the node stops.
"""

from __future__ import annotations

from collections.abc import Iterable

from iot_mqtt.cluster.roster import Life, Standing
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.registry import Lease, Member, Registry, RegistryState


class Membership:
    """Of one life of a node."""

    def __init__(self, own: Life, registry: Registry, clock: Clock, grace: float) -> None:
        """``grace``: seconds after which a life that the list has never shown counts as dead."""
        self.own = own
        self._registry = registry
        self._clock = clock
        self._grace = grace
        #: The others that are in the list, by number.
        self.members: dict[int, Member] = {}
        #: The greatest boot that was ever listed.
        self._seen: dict[int, int] = {}
        self._doubted: dict[Life, float] = {}
        self._names: dict[int, str] = {}
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

    def latest(self, number: int) -> int:
        """The greatest boot that the list has shown of a node; 0: none."""
        return self._seen.get(number, 0)

    def name(self, number: int) -> str:
        """What the list has called a node, there or not; "": it has never shown it."""
        return self._names.get(number, "")

    def has_followed(self, life: Life) -> bool:
        """Whether that node is in the list, or a later life of it was."""
        return life.number in self.members or self.latest(life.number) > life.boot

    def update(self, members: Iterable[Member]) -> list[Life]:
        """The list as it is now; returns the lives that have gone from it without a later one in their place."""
        before = self.members
        self.members = {member.number: member for member in members if member.number != self.own.number}
        for number, member in self.members.items():
            self._seen[number] = max(member.boot, self._seen.get(number, 0))
            self._names[number] = member.node_id
        return [Life(number, member.boot) for number, member in before.items() if number not in self.members]

    def standing(self, life: Life) -> Standing:
        """Whether a life of another node is alive; see ``roster``."""
        member = self.members.get(life.number)
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
