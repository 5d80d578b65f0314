"""The registry as it is meant, in one process: for tests, and for simulations of a whole cluster.

Several registries share an ``Ensemble``, which keeps entries and leases by session and lets sessions run out by
the clock it is given. Trouble is made by hand:

    suspend(node)   its connection is lost; after the session's time it is gone for the others, and LOST for itself
    expire(node)    the same, at once
    pause(node)     its process stands still: nothing is told to it, and the others see it go
    heal(node)      the connection is back, or the process runs again
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from twisted.internet.defer import Deferred

from iot_mqtt.cluster.registry.lease import Lease
from iot_mqtt.cluster.registry.telling import nobody, tell
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.registry import Member, RegistryState


class MemoryEnsemble:
    """What the registries share. ``latency`` is between a change and its being seen."""

    def __init__(self, clock: Clock, session_timeout: float = 6.0, latency: float = 0.0) -> None:
        self.clock = clock
        self.session_timeout = session_timeout
        self._latency = latency
        self._registries: dict[str, MemoryRegistry] = {}
        self._entries: dict[str, tuple[Member, _Session]] = {}
        self._leases: dict[str, tuple[int, _Session]] = {}
        self._transaction = 0
        self._away: set[str] = set()
        self._paused: set[str] = set()

    def registry(self, node_id: str) -> MemoryRegistry:
        """That of a process which starts now; of an earlier one nothing is heard any more."""
        earlier = self._registries.get(node_id)
        if earlier is not None:
            earlier.abandon()
        self._away.discard(node_id)
        self._paused.discard(node_id)
        registry = self._registries[node_id] = MemoryRegistry(node_id, self)
        return registry

    def suspend(self, node_id: str) -> None:
        self._away.add(node_id)
        self._registries[node_id].disconnected()

    def expire(self, node_id: str) -> None:
        registry = self._registries[node_id]
        if registry.session is not None:
            self.end(registry.session)
        registry.expired("its session has expired")

    def pause(self, node_id: str) -> None:
        self._away.add(node_id)
        self._paused.add(node_id)
        self._registries[node_id].disconnected(in_silence=True)

    def heal(self, node_id: str) -> None:
        """After a pause, a node that lost its session learns that before anything else."""
        self._away.discard(node_id)
        self._paused.discard(node_id)
        self._registries[node_id].reconnected()

    def away(self, node_id: str) -> bool:
        """Suspended or paused."""
        return node_id in self._away

    # For the registries.

    def reachable(self, node_id: str) -> bool:
        return node_id not in self._away

    def awake(self, node_id: str) -> bool:
        return node_id not in self._paused

    def later(self, call: Callable[[], None]) -> None:
        self.clock.call_later(self._latency, call)

    def enter(self, member: Member, session: _Session) -> None:
        """``Unavailable``: a later life is there."""
        present = self._entries.get(member.node_id)
        if present is not None and present[1] is not session and present[0].boot > member.boot:
            raise Unavailable(f"a later life of {member.node_id} is registered: is its name used twice?")
        self._entries[member.node_id] = member, session
        self._changed()
        if present is not None and present[1] is not session:
            present[1].registry.replaced(present[1])

    def take(self, name: str, session: _Session) -> int | None:
        """The number of the lease, if nobody has it."""
        if name in self._leases:
            return None
        self._transaction += 1
        self._leases[name] = self._transaction, session
        return self._transaction

    def give_back(self, name: str, number: int) -> None:
        if name in self._leases and self._leases[name][0] == number:
            del self._leases[name]

    def give_back_all(self, session: _Session) -> None:
        self._leases = {name: lease for name, lease in self._leases.items() if lease[1] is not session}

    def end(self, session: _Session) -> None:
        """The session has run out, or was closed: what goes with it goes."""
        if session.ended:
            return
        session.ended = True
        if session.timer is not None:
            session.timer.cancel()
        self.give_back_all(session)
        entries = {node_id: entry for node_id, entry in self._entries.items() if entry[1] is not session}
        if len(entries) != len(self._entries):
            self._entries = entries
            self._changed()

    def evict(self, member: Member) -> None:
        """Its entry goes; its session stays, and what else it holds."""
        present = self._entries.get(member.node_id)
        if present is not None and present[0].boot == member.boot:
            del self._entries[member.node_id]
            self._changed()
            present[1].registry.replaced(present[1])

    def listing(self) -> dict[str, Member]:
        return {node_id: member for node_id, (member, _) in self._entries.items()}

    def _changed(self) -> None:
        for registry in tuple(self._registries.values()):
            self.later(registry.listed)


class _Session:
    """Ends on its own when its node is away for long."""

    __slots__ = ("registry", "ended", "timer")

    def __init__(self, registry: MemoryRegistry) -> None:
        self.registry = registry
        self.ended = False
        self.timer: Timer | None = None


class MemoryRegistry:
    """``Registry`` over a shared ``MemoryEnsemble``, which makes it."""

    def __init__(self, node_id: str, ensemble: MemoryEnsemble) -> None:
        self.on_state: Callable[[RegistryState], None] = nobody
        self.on_members: Callable[[], None] = nobody
        self.session: _Session | None = None
        self._node_id = node_id
        self._ensemble = ensemble
        self._state = RegistryState.LOST
        self._members: dict[str, Member] = {}
        self._member: Member | None = None
        self._trouble: str | None = "not registered yet"
        self._registering: Deferred[None] | None = None
        self._leases: list[Lease] = []
        self._away_since: float | None = None
        self._closed = False

    @property
    def state(self) -> RegistryState:
        return RegistryState.LOST if self._overdue() else self._state

    @property
    def members(self) -> Mapping[str, Member]:
        return self._members

    @property
    def trouble(self) -> str | None:
        return self._trouble

    async def register(self, member: Member) -> None:
        if self._closed:
            raise Unavailable("the registry is closed")
        self._fail("a later registration took the place of this one")
        self._member = member
        registering = self._registering = Deferred()
        if self.session is None:
            self.session = _Session(self)
        self._ensemble.later(self._enter)
        await registering

    def update(self, member: Member) -> None:
        if self._member is None:
            return
        if (member.node_id, member.boot) != (self._member.node_id, self._member.boot):
            raise ValueError("an update is of the life that is registered")
        self._member = member
        self._ensemble.later(self._write)

    async def acquire(self, name: str) -> Lease | None:
        if self.state is not RegistryState.CONNECTED or self.session is None:
            return None
        number = self._ensemble.take(name, self.session)
        if number is None:
            return None
        lease = Lease(name, number, lambda: self.state is RegistryState.CONNECTED, self.gave_back)
        self._leases.append(lease)
        return lease

    async def evict(self, member: Member) -> None:
        if self.state is RegistryState.CONNECTED:
            self._ensemble.later(lambda: self._ensemble.evict(member))

    async def close(self) -> None:
        """``on_state`` is not told: whoever closes it knows."""
        session = self.session
        self.abandon()
        if session is not None and self._ensemble.reachable(self._node_id):
            self._ensemble.end(session)
        self._fail("the registry was closed")

    # For the ensemble.

    def abandon(self) -> None:
        """The process has died: no word from here any more, while the session lives on until it runs out."""
        session, self.session = self.session, None
        if session is not None and not session.ended and session.timer is None:
            self._run_out(session)
        self._drop_leases()
        self._closed = True
        self._state = RegistryState.LOST
        self._members = {}
        self._member = None
        self._trouble = "closed"

    def gave_back(self, lease: Lease) -> None:
        self._leases.remove(lease)
        self._ensemble.give_back(lease.name, lease.number)

    def disconnected(self, in_silence: bool = False) -> None:
        if self.session is None:
            return
        if self._away_since is None:
            self._away_since = self._ensemble.clock.monotonic()
            self._run_out(self.session)
        if not in_silence:
            self._suspend()

    def reconnected(self) -> None:
        if self._overdue() or (self.session is not None and self.session.ended):
            self.expired("its session has expired")
            return
        self._away_since = None
        if self.session is not None:
            if self.session.timer is not None:
                self.session.timer.cancel()
                self.session.timer = None
            self._suspend()  # a paused node learns of it now
            self._ensemble.give_back_all(self.session)
            self._ensemble.later(self._enter)

    def expired(self, why: str) -> None:
        """Told before anything else."""
        if self.session is None or not self._ensemble.awake(self._node_id):
            return
        self._ensemble.end(self.session)
        self.session = None
        self._away_since = None
        self._member = None
        self._drop_leases()
        self._trouble = f"{why}; this node is not in the list"
        was, self._state = self._state, RegistryState.LOST
        own = self._members.get(self._node_id)
        self._members = {name: member for name, member in self._members.items() if name != self._node_id}
        registering, self._registering = self._registering, None
        if was is not RegistryState.LOST:
            tell(self.on_state, self._state)
        if registering is not None:
            registering.errback(Unavailable(why))
        if own is not None:
            tell(self.on_members)

    def replaced(self, session: _Session) -> None:
        if self.session is session:
            self.expired(f"another process has registered as {self._node_id}")

    def listed(self) -> None:
        """Look at the list again."""
        if self.state is RegistryState.CONNECTED and self._ensemble.reachable(self._node_id):
            members = self._ensemble.listing()
            if members != self._members:
                self._members = members
                tell(self.on_members)

    # Its own.

    def _overdue(self) -> bool:
        since = self._away_since
        return since is not None and self._ensemble.clock.monotonic() - since >= self._ensemble.session_timeout

    def _run_out(self, session: _Session) -> None:
        """The node itself knows first, as long as its process runs."""

        def run_out() -> None:
            if self.session is session:
                self.expired("ZooKeeper has not answered this node for too long")
            self._ensemble.end(session)

        session.timer = self._ensemble.clock.call_later(self._ensemble.session_timeout, run_out)

    def _enter(self) -> None:
        if self.session is None or self._member is None or not self._ensemble.reachable(self._node_id):
            return
        try:
            self._ensemble.enter(replace(self._member), self.session)
        except Unavailable as error:
            self.expired(error.detail)
            return
        different = self._members != (members := self._ensemble.listing())
        self._members = members
        self._trouble = None
        if self._state is not RegistryState.CONNECTED:
            self._state = RegistryState.CONNECTED
            tell(self.on_state, self._state)
        if different:
            tell(self.on_members)
        registering, self._registering = self._registering, None
        if registering is not None:
            registering.callback(None)

    def _write(self) -> None:
        connected = self._state is RegistryState.CONNECTED and self._ensemble.reachable(self._node_id)
        if connected and self.session is not None and self._member is not None:
            self._ensemble.enter(self._member, self.session)

    def _suspend(self) -> None:
        self._drop_leases()
        self._trouble = "the connection is lost; the list of nodes may be old"
        if self._state is RegistryState.CONNECTED:
            self._state = RegistryState.SUSPENDED
            tell(self.on_state, self._state)

    def _drop_leases(self) -> None:
        leases, self._leases = self._leases, []
        for lease in leases:
            lease.valid = False

    def _fail(self, why: str) -> None:
        registering, self._registering = self._registering, None
        if registering is not None:
            registering.errback(Unavailable(why))
