"""The registry over ZooKeeper: an ephemeral node for each member, and what its session allows us to believe.

    LOST ── register: a session, our entry, the whole list ──▶ CONNECTED
    CONNECTED ── connection lost, or no answer for half the session's time ──▶ SUSPENDED
    SUSPENDED ── connected again, entry still ours, list read anew ──▶ CONNECTED
    any ── session expired, entry gone or taken, or no answer for all of the session's time ──▶ LOST

"No answer" is by our own clock, from the sending of the last heartbeat that was answered. The server counts from
when it had that, which was later; so we know before it lets anybody have what was ours. Asking for ``state`` or
for a lease looks at the clock, and so does everything that comes from ZooKeeper before it is dealt with: a
process that was stopped for long, or whose reactor stood still, finds out first.

LOST is the end of a life here: nothing is registered again until ``register`` is called, which opens a new
session. Whether that needs a greater boot number is the caller's to know.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from iot_mqtt.cluster.registry.bridge import Cross
from iot_mqtt.cluster.registry.lease import Lease
from iot_mqtt.cluster.registry.life import Life
from iot_mqtt.cluster.registry.settings import ZooKeeperSettings
from iot_mqtt.cluster.registry.telling import nobody, tell
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.registry import Member, RegistryState

log = logging.getLogger(__name__)


class ZooKeeperRegistry:
    """``Registry`` over a ZooKeeper ensemble."""

    def __init__(self, settings: ZooKeeperSettings, clock: Clock, cross: Cross) -> None:
        self.on_state: Callable[[RegistryState], None] = nobody
        self.on_members: Callable[[], None] = nobody
        self._settings = settings
        self._clock = clock
        self._cross = cross
        self._state = RegistryState.LOST
        self.members: Mapping[str, Member] = {}
        self._trouble: str | None = "not registered yet"
        self._life: Life | None = None
        self._closed = False

    @property
    def state(self) -> RegistryState:
        life = self._life
        return RegistryState.LOST if life is None or life.overdue() else self._state

    @property
    def trouble(self) -> str | None:
        life = self._life
        if self._trouble is not None or life is None:
            return self._trouble
        if bad := self.not_understood:
            return f"entries under {self._settings.members} that are not understood: {', '.join(bad[:5])}"
        return None

    @property
    def not_understood(self) -> list[str]:
        """The names of entries that are there now and describe no member."""
        return [] if self._life is None else self._life.roster.not_understood

    async def register(self, member: Member) -> None:
        """``Unavailable``: closed, the session ended meanwhile, ZooKeeper refuses it, or a later life of this
        node is registered. Waits for ZooKeeper as long as it takes, with ``trouble`` saying so.
        """
        if self._closed:
            raise Unavailable("the registry is closed")
        if self._life is not None:
            self._life.awake()
        if self._life is None:
            self._life = self._begin(member)
            self._trouble = f"ZooKeeper at {self._settings.servers} has not answered yet"
        await self._life.register(member)

    def update(self, member: Member) -> None:
        if self._life is not None:
            self._life.update(member)

    async def acquire(self, name: str) -> Lease | None:
        if self._life is not None:
            self._life.awake()
        if self._life is None or self._state is not RegistryState.CONNECTED:
            return None
        return await self._life.acquire(name)

    async def evict(self, member: Member) -> None:
        if self.state is RegistryState.CONNECTED and self._life is not None:
            await self._life.evict(member)

    async def close(self) -> None:
        """``on_state`` is not told: whoever closes it knows."""
        self._closed = True
        life, self._life = self._life, None
        self._state = RegistryState.LOST
        self.members = {}
        self._trouble = "closed"
        if life is not None:
            await life.close()

    def _begin(self, member: Member) -> Life:
        life = Life(self, self._settings, self._clock, self._cross, member)
        try:
            life.begin()
        except (OSError, RuntimeError) as error:
            raise Unavailable(f"no connection to ZooKeeper can be begun: {error}") from error
        return life

    # For the present life.

    def suspended(self, why: str) -> None:
        self._trouble = f"{why}; the list of nodes may be old"
        if self._state is RegistryState.CONNECTED:
            log.warning("the registry is suspended: %s", why)
            self._state = RegistryState.SUSPENDED
            tell(self.on_state, self._state)

    def connected(self, members: dict[str, Member]) -> None:
        # The end of what was a warning is one, too.
        level = logging.WARNING if self._state is RegistryState.SUSPENDED else logging.INFO
        log.log(level, "the registry is connected: %d nodes", len(members))
        different, self.members = members != self.members, members
        self._trouble = None
        self._state = RegistryState.CONNECTED
        tell(self.on_state, self._state)
        if different:
            tell(self.on_members)

    def listed(self, members: dict[str, Member]) -> None:
        if self._state is RegistryState.CONNECTED and members != self.members:
            self.members = members
            tell(self.on_members)

    def lost(self, life: Life, why: str) -> None:
        """Its end is told before anything that follows from it."""
        if self._life is not life:
            return
        self._life = None
        self._trouble = f"{why}; this node is not in the list"
        was, self._state = self._state, RegistryState.LOST
        own = self.members.get(life.node_id)
        if own is not None:
            self.members = {name: member for name, member in self.members.items() if name != life.node_id}
        if was is not RegistryState.LOST:
            log.error("the registry has lost this node's entry: %s", why)
            tell(self.on_state, self._state)
        life.end(why)
        if own is not None:
            tell(self.on_members)
