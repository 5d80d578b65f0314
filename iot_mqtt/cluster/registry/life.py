"""One life of a node in ZooKeeper: from the beginning of a session to its end.

It enters the list, keeps what it wrote there, proves to itself by heartbeats that the session is alive, and ends
for good when that cannot be believed any more. ``zookeeper`` says what each state means.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Protocol

from kazoo.exceptions import (
    AuthFailedError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NotEmptyError,
)
from twisted.internet.defer import Deferred

from iot_mqtt.cluster.registry.bridge import AWAY, Cross, Session
from iot_mqtt.cluster.registry.lease import Lease
from iot_mqtt.cluster.registry.leases import Leases
from iot_mqtt.cluster.registry.own import Gone, OwnEntry
from iot_mqtt.cluster.registry.roster import Roster
from iot_mqtt.cluster.registry.settings import ZooKeeperSettings
from iot_mqtt.cluster.registry.telling import start
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.registry import Member, RegistryState

log = logging.getLogger(__name__)

#: Seconds that ``close`` waits for the server to hear of it.
FAREWELL = 2.0
#: What trying again does not help against: a person has to change something.
REFUSALS = (AuthFailedError, InvalidACLError, NoAuthError, NoChildrenForEphemeralsError, NotEmptyError)


class Owner(Protocol):
    """Whose life it is."""

    @property
    def state(self) -> RegistryState: ...

    def suspended(self, why: str) -> None: ...

    def connected(self, members: dict[str, Member]) -> None: ...

    def listed(self, members: dict[str, Member]) -> None:
        """The list was read again while connected."""
        ...

    def lost(self, life: Life, why: str) -> None:
        """Calls ``end``, after it has told those who must know first."""
        ...


class Life:
    """From one session's beginning to its end."""

    def __init__(self, owner: Owner, settings: ZooKeeperSettings, clock: Clock, cross: Cross, member: Member) -> None:
        self.node_id = member.node_id
        self._owner = owner
        self._settings = settings
        self._clock = clock
        self._timeout = settings.session_timeout
        self._session = Session(settings, cross, self)
        self._own = OwnEntry(self._session, settings.members, member)
        self.roster = Roster(self._session, settings.members, self._listed)
        self._leases: Leases | None = None
        self._up = False
        self._ended = False
        #: Counts connections and registrations: what was begun under an earlier one is dropped.
        self._round = 0
        self._proof: float | None = None
        self._beating = False
        self._catching_up = False
        self._registering: Deferred[None] | None = None
        self._timer: Timer | None = None

    def begin(self) -> None:
        self._session.start()
        self._wait()

    async def register(self, member: Member) -> None:
        if member.node_id != self.node_id:
            raise ValueError(f"this registry is that of {self.node_id}, not of {member.node_id}")
        self._fail("a later registration took the place of this one")
        registering = self._registering = Deferred()
        self._own.member = member
        if self._own.written != member:
            self._own.written = None
            self._round += 1
        if self._up:
            self._catch_up_soon()
        await registering

    def update(self, member: Member) -> None:
        if member.node_id != self.node_id or member.boot != self._own.member.boot:
            raise ValueError("an update is of the life that is registered")
        self._own.member = member
        self._write_soon()

    async def acquire(self, name: str) -> Lease | None:
        return None if self._leases is None else await self._leases.acquire(name)

    async def evict(self, member: Member) -> None:
        try:
            await self.roster.evict(member)
        except KazooException as error:
            log.warning("the entry of %s cannot be removed; it goes with its session: %r", member.node_id, error)

    async def close(self) -> None:
        was_up = self._up
        told = self._finish("the registry was closed")
        if was_up:
            waited: Deferred[None] = Deferred()
            told.addCallback(lambda _: None if waited.called else waited.callback(None))
            patience = self._clock.call_later(FAREWELL, lambda: None if waited.called else waited.callback(None))
            await waited
            patience.cancel()

    def end(self, why: str) -> None:
        self._finish(why)

    # Time.

    def overdue(self) -> bool:
        """Whether others may have our place by now."""
        return self._proof is not None and self._clock.monotonic() - self._proof >= self._timeout

    def awake(self) -> None:
        """Called before anything else is done."""
        if not self._ended and self.overdue():
            self._lose(f"ZooKeeper has not answered this node for {self._silence():.1f} s")

    def _silence(self) -> float:
        return 0.0 if self._proof is None else self._clock.monotonic() - self._proof

    def _wait(self) -> None:
        delay = self._timeout / 4
        if self._proof is not None:
            delay = min(delay, max(0.0, self._proof + self._timeout - self._clock.monotonic()))
        self._timer = self._clock.call_later(delay, self._tick)

    def _tick(self) -> None:
        """Four times in a session: a heartbeat, and another try at whatever did not work."""
        self.awake()
        if self._ended:
            return
        if self._up:
            if not self._beating:
                start(self._beat())
            if self._silence() >= self._timeout / 2:
                self._suspend(f"ZooKeeper at {self._settings.servers} does not answer")
            elif self._owner.state is not RegistryState.CONNECTED:
                self._catch_up_soon()
            else:
                self._write_soon()
                if self.roster.old:
                    self.roster.catch_up()
                if self._leases is not None:
                    self._leases.clean_soon()
        if not self._ended:
            self._wait()

    async def _beat(self) -> None:
        """A question that is answered when a majority of the servers has agreed: what a server or a leader answers by
        itself, cut off from the rest, proves nothing. What is left open is half a tick of the servers, in which a
        server may die before it has told the leader that it heard of us.
        """
        self._beating = True
        sent = self._clock.monotonic()
        try:
            await self._session.prove(self._settings.members)
            self._proof = sent if self._proof is None else max(sent, self._proof)
            await self._own.look()
        except Gone as gone:
            self._lose(str(gone))
            return
        except KazooException as error:
            if not isinstance(error, AWAY):
                log.warning("ZooKeeper refuses a heartbeat: %r", error)
            return
        finally:
            self._beating = False
        if not self._ended and self._up and self._owner.state is RegistryState.SUSPENDED:
            self._catch_up_soon()

    # Told by the session.

    def granted(self, seconds: float) -> None:
        if seconds < self._timeout:
            log.warning("ZooKeeper keeps a session for %.1f s, not %.1f s: maxSessionTimeout", seconds, self._timeout)
            self._timeout = seconds

    def connected(self, session_id: int) -> None:
        if self._leases is None:
            note = json.dumps({"node_id": self.node_id, "boot": self._own.member.boot}).encode()
            self._own.owner = session_id
            self._leases = Leases(self._session, self._settings.leases, note, session_id, self._certain)
        elif session_id != self._own.owner:
            self._lose("the ZooKeeper session has expired")
            return
        self._up = True
        self._round += 1
        self._catch_up_soon()

    def disconnected(self) -> None:
        self._up = False
        self._round += 1
        self._suspend(f"the connection to ZooKeeper at {self._settings.servers} is lost")

    def expired(self, why: str) -> None:
        self._lose(why)

    def changed(self, path: str) -> None:
        if path.startswith(self._settings.leases + "/"):
            if self._leases is not None:
                self._leases.watch_fired(path)
        else:
            self.roster.watch_fired(path)

    # From a connection to CONNECTED.

    def _catch_up_soon(self) -> None:
        if not self._catching_up:
            start(self._catch_up())

    async def _catch_up(self) -> None:
        self._catching_up = True
        done = -1
        try:
            while done != self._round and self._up:
                done = self._round
                await self._catch_up_once()
        except AWAY:
            return  # there will be another connection, or another tick
        except Gone as gone:
            self._lose(str(gone))
            return
        except REFUSALS as error:
            self._lose(f"ZooKeeper does not allow this node to register under {self._settings.members}: {error!r}")
            return
        except KazooException as error:
            log.warning("ZooKeeper does not take the registration: %r", error)
            self._suspend(f"ZooKeeper at {self._settings.servers} refuses: {error!r}")
            return
        finally:
            self._catching_up = False
        if self._ended or not self._up or self._silence() >= self._timeout / 2:
            return
        if self._owner.state is not RegistryState.CONNECTED:
            self._owner.connected(self.roster.members)
        else:
            self._owner.listed(self.roster.members)
        registering, self._registering = self._registering, None
        if registering is not None and not self._ended:
            registering.callback(None)
        if not self._ended:
            self._write_soon()

    async def _catch_up_once(self) -> None:
        sent = self._clock.monotonic()
        await self._make(self._settings.members)
        await self._make(self._settings.leases)
        await self._session.prove(self._settings.members)
        self._proof = sent if self._proof is None else max(sent, self._proof)
        if self._own.written is None:
            await self._own.enter()
        else:
            await self._own.look()
        if self._leases is not None:
            await self._leases.clean()
        await self.roster.read_all()

    async def _make(self, path: str) -> None:
        """The path and those above it; only what is missing, for the rest may belong to others."""
        if await self._session.exists(path) is not None:
            return
        above = path.rpartition("/")[0]
        if above:
            await self._make(above)
        with suppress(NodeExistsError):
            await self._session.create(path, b"", ephemeral=False)

    # Our entry.

    def _write_soon(self) -> None:
        if self._up and self._own.is_old:
            start(self._write())

    async def _write(self) -> None:
        try:
            await self._own.write()
        except Gone as gone:
            self._lose(str(gone))
        except AWAY:
            pass  # the next tick or connection tries again

    def _listed(self) -> None:
        """The list has been read again."""
        if self._ended:
            return
        entry = self.roster.entries.get(self._own.name)
        if self._own.is_lost(entry):
            start(self._look_again())
            return
        if self._own.is_spoilt(entry):
            log.warning("somebody wrote into this node's entry: it is written anew")
            self._own.written = None
            self._round += 1
            self._catch_up_soon()
        self._owner.listed(self.roster.members)

    async def _look_again(self) -> None:
        """Before it is believed."""
        try:
            await self._own.look()
        except Gone as gone:
            self._lose(str(gone))
            return
        except KazooException:
            return
        if not self._ended:
            self.roster.watch_fired(self._own.path)

    # Ends.

    def _certain(self) -> bool:
        """Whether what this session holds can be relied on at this moment."""
        return not self._ended and self._owner.state is RegistryState.CONNECTED

    def _suspend(self, why: str) -> None:
        if self._leases is not None:
            self._leases.suspend()
        self._owner.suspended(why)

    def _lose(self, why: str) -> None:
        if not self._ended:
            self._stop()
            self._owner.lost(self, why)

    def _stop(self) -> None:
        self._ended = True
        self._up = False
        if self._leases is not None:
            self._leases.suspend()
        if self._timer is not None:
            self._timer.cancel()

    def _finish(self, why: str) -> Deferred[None]:
        self._stop()
        told = self._session.end()
        self._fail(why)
        return told

    def _fail(self, why: str) -> None:
        registering, self._registering = self._registering, None
        if registering is not None:
            registering.errback(Unavailable(why))
