"""A registry without ZooKeeper: the nodes are listed in the configuration, and who lives is known by hearsay.

A beacon feeds it: ``heard(member)`` for every heartbeat, ``gone(node_id, boot)`` for a farewell. A
node that was not heard of for ``timeout`` seconds is out of the list.

    CONNECTED   more than half of the listed nodes, this one included, were heard of within half the time-out
    SUSPENDED   they were not
    LOST        they were not for all of the time-out, or this process stood still for that long

What it cannot do, and ZooKeeper can:

- Tell a dead node from one that cannot be heard from here. Two nodes may see two different lists, for as long as
  the network is that way. The majority is all there is against a split: at most one side has it, as long as every
  node was given the same list. With two nodes, the end of either suspends the other.
- Be sure that a lease has one holder. The lowest node id in the list of a CONNECTED node may hold leases, nobody
  else. When links fail in one direction only, two nodes can take themselves for the lowest. What is written under
  a lease has to be fenced by the grid.
- Number leases across nodes. A lease's number is the boot number of its holder: it grows over the lives of one
  node, and over all holders only if boot numbers are given out by one counter for all.
- Learn of a node that is not in the configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from iot_mqtt.cluster.registry.lease import Lease
from iot_mqtt.cluster.registry.telling import nobody, tell
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.registry import Member, RegistryState


class StaticRegistry:
    """``Registry`` over a list of node ids and what ``heard`` is told."""

    def __init__(self, node_id: str, nodes: Collection[str], clock: Clock, timeout: float = 6.0) -> None:
        if node_id not in nodes:
            raise ValueError(f"this node, {node_id}, is not among the nodes of the cluster: {', '.join(sorted(nodes))}")
        self.on_state: Callable[[RegistryState], None] = nobody
        self.on_members: Callable[[], None] = nobody
        #: Heartbeats that were not listened to: of nodes that are not listed, or of an earlier life.
        self.refused: Counter[str] = Counter()
        self._node_id = node_id
        self._nodes = frozenset(nodes)
        self._majority = len(self._nodes) // 2 + 1
        self._clock = clock
        self._timeout = timeout
        self._state = RegistryState.LOST
        #: This node's entry, to be told to the others whether or not they can be heard from here.
        self.own: Member | None = None
        self._heard: dict[str, tuple[Member, float]] = {}
        #: Lives that are over; the greatest boot number that ended, by node id.
        self._over: dict[str, int] = {}
        self.members: Mapping[str, Member] = {}
        self._leases: dict[str, Lease] = {}
        self._majority_at = 0.0
        self._looked_at = 0.0
        self._timer: Timer | None = None
        self._closed = False

    @property
    def state(self) -> RegistryState:
        return RegistryState.LOST if self._overdue() else self._state

    @property
    def trouble(self) -> str | None:
        if self._closed:
            return "closed"
        if self.own is None:
            return "this node is not registered"
        if self.state is RegistryState.CONNECTED:
            return None
        missing = ", ".join(sorted(self._nodes - self.members.keys() - {self._node_id}))
        return f"fewer than {self._majority} of {len(self._nodes)} nodes are heard of; not heard of: {missing}"

    async def register(self, member: Member) -> None:
        """Returns at once: nobody can say when others have heard. The state is CONNECTED once a majority was heard
        of, and this node is in its own list by then.
        """
        if self._closed:
            raise Unavailable("the registry is closed")
        if member.node_id != self._node_id:
            raise ValueError(f"this registry is that of {self._node_id}, not of {member.node_id}")
        self._awake()
        self.own = member
        self._looked_at = self._majority_at = self._clock.monotonic()
        if self._timer is None:
            self._wait()
        self._look()

    def update(self, member: Member) -> None:
        """Shown to others by whoever sends the heartbeats: it takes this node's from ``members``."""
        if self.own is None:
            return
        if (member.node_id, member.boot) != (self.own.node_id, self.own.boot):
            raise ValueError("an update is of the life that is registered")
        self.own = member
        self._look()

    async def acquire(self, name: str) -> Lease | None:
        self._awake()
        if self._state is not RegistryState.CONNECTED or self.own is None or name in self._leases:
            return None
        if min(self.members) != self._node_id:
            return None
        lease = self._leases[name] = Lease(name, self.own.boot, self._certain, self._gave_back)
        return lease

    async def evict(self, member: Member) -> None:
        """The list is what was configured, and who is silent leaves it."""

    async def close(self) -> None:
        """``on_state`` is not told. The links say goodbye to the others."""
        self._closed = True
        self._state = RegistryState.LOST
        self.own = None
        self.members = {}
        self._drop_leases()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # For the beacon.

    def heard(self, member: Member) -> None:
        """A heartbeat of another node has come."""
        self._awake()
        if member.node_id == self._node_id:
            if self.own is not None and member.boot > self.own.boot:
                self.refused["own node id"] += 1
                self._lose()
            return
        if member.node_id not in self._nodes:
            self.refused["not listed"] += 1
            return
        known = self._heard.get(member.node_id)
        earliest = known[0].boot if known is not None else self._over.get(member.node_id, -1) + 1
        if member.boot < earliest:
            self.refused["earlier life"] += 1
            return
        self._heard[member.node_id] = member, self._clock.monotonic()
        self._look()

    def gone(self, node_id: str, boot: int) -> None:
        """That life of the node has said goodbye."""
        self._awake()
        known = self._heard.get(node_id)
        if node_id in self._nodes:
            self._over[node_id] = max(boot, self._over.get(node_id, -1))
        if known is not None and known[0].boot <= boot:
            del self._heard[node_id]
            self._look()

    # Its own.

    def _certain(self) -> bool:
        return self.state is RegistryState.CONNECTED

    def _gave_back(self, lease: Lease) -> None:
        del self._leases[lease.name]

    def _overdue(self) -> bool:
        """Since the last look, or since the last majority, the others had time to give us up."""
        if self.own is None:
            return False
        now = self._clock.monotonic()
        stood_still = now - self._looked_at >= self._timeout
        alone = self._state is RegistryState.SUSPENDED and now - self._majority_at >= self._timeout
        return stood_still or alone

    def _awake(self) -> None:
        """Before anything else is done."""
        if self._overdue():
            self._lose()

    def _lose(self) -> None:
        was, self._state = self._state, RegistryState.LOST
        self.own = None
        self._drop_leases()
        own = self.members.get(self._node_id)
        self.members = {name: member for name, member in self.members.items() if name != self._node_id}
        if was is not RegistryState.LOST:
            tell(self.on_state, self._state)
        if own is not None:
            tell(self.on_members)

    def _wait(self) -> None:
        self._timer = self._clock.call_later(self._timeout / 8, self._tick)

    def _tick(self) -> None:
        self._awake()
        self._look()
        if not self._closed:
            self._wait()

    def _look(self) -> None:
        """Who was heard of, and is it enough?"""
        if self.own is None:
            return
        now = self._looked_at = self._clock.monotonic()
        self._heard = {name: known for name, known in self._heard.items() if now - known[1] < self._timeout}
        fresh = 1 + sum(1 for _, at in self._heard.values() if now - at < self._timeout / 2)
        members = {name: known[0] for name, known in self._heard.items()} | {self._node_id: self.own}
        different, self.members = members != self.members, members
        was = self._state
        if fresh >= self._majority:
            self._majority_at = now
            self._state = RegistryState.CONNECTED
        elif was is RegistryState.CONNECTED:
            self._state = RegistryState.SUSPENDED
        if self._state is not RegistryState.CONNECTED or min(members) != self._node_id:
            self._drop_leases()
        if self._state is not was:
            tell(self.on_state, self._state)
        if different:
            tell(self.on_members)

    def _drop_leases(self) -> None:
        leases, self._leases = self._leases, {}
        for lease in leases.values():
            lease.valid = False
