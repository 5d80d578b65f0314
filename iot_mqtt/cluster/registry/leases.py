"""Exclusive rights: a node of ZooKeeper's that goes with the session of its holder.

The number of a lease is that of the transaction that made its node, so every later holder has a greater one.

A lease that was doubtful for a moment (the connection was away) is never held again, even when the session
lives: its holder has let go by then. Its node is removed once the connection is back; so is what a request
without an answer may have made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from iot_mqtt.cluster.registry.bridge import AWAY, Session, Stat
from iot_mqtt.cluster.registry.entry import segment
from iot_mqtt.cluster.registry.lease import Lease
from iot_mqtt.cluster.registry.telling import start

log = logging.getLogger(__name__)


class Leases:
    """Those of one session. ``certain`` says, by the clock too, whether what it holds can be relied on."""

    def __init__(self, session: Session, path: str, note: bytes, session_id: int, certain: Callable[[], bool]) -> None:
        self._session = session
        self._path = path
        self._note = note
        self._session_id = session_id
        self.certain = certain
        self._held: dict[str, Lease] = {}
        self._asked: set[str] = set()
        #: Names whose node may be ours although nobody holds the lease.
        self._doubtful: set[str] = set()

    async def acquire(self, name: str) -> Lease | None:
        place = segment(name)
        if place in self._held or place in self._asked:
            return None
        self._asked.add(place)
        self._doubtful.add(place)  # until the opposite is known
        try:
            stat = await self._take(place)
        except AWAY:
            return None
        except KazooException as error:
            log.warning("the lease %s cannot be asked for: %r", place, error)
            return None
        finally:
            self._asked.discard(place)
        if stat is None:
            self._doubtful.discard(place)
            return None
        if not self.certain():
            return None
        self._doubtful.discard(place)
        lease = self._held[place] = Lease(place, stat.created, self.certain, self._gave_back)
        return lease

    def _gave_back(self, lease: Lease) -> None:
        del self._held[lease.name]
        self._doubtful.add(lease.name)
        start(self._remove(lease.name))

    def suspend(self) -> None:
        """Nothing is held any more."""
        for place, lease in self._held.items():
            lease.valid = False
            self._doubtful.add(place)
        self._held.clear()

    async def clean(self) -> None:
        """Remove what is ours and held by nobody."""
        for place in sorted(self._doubtful - self._asked):
            await self._clean(place)

    def clean_soon(self) -> None:
        """The same, by itself, if there is any."""
        if self._doubtful - self._asked:
            start(self._try_to_clean())

    def watch_fired(self, path: str) -> None:
        """Not believed, for it may be about the lease before this one: look."""
        lease = self._held.get(path.rpartition("/")[2])
        if lease is not None:
            start(self._check(lease))

    async def _take(self, place: str) -> Stat | None:
        with suppress(NodeExistsError):  # it may be ours: from a request whose answer was lost
            await self._session.create(f"{self._path}/{place}", self._note, ephemeral=True)
        stat = await self._session.exists(f"{self._path}/{place}", watch=True)
        return stat if stat is not None and stat.owner == self._session_id else None

    async def _remove(self, place: str) -> None:
        """Sent at once, so that an ``acquire`` after it finds the place free."""
        try:
            await self._session.delete(f"{self._path}/{place}")
        except NoNodeError:
            pass
        except AWAY:
            return
        except KazooException as error:
            log.warning("the lease %s cannot be given back: %r", place, error)
            return
        if place not in self._asked:
            self._doubtful.discard(place)

    async def _clean(self, place: str) -> None:
        stat = await self._session.exists(f"{self._path}/{place}")
        if place in self._asked or place in self._held:
            return  # somebody wants it meanwhile, and will have it
        if stat is not None and stat.owner == self._session_id:
            await self._remove(place)
        else:
            self._doubtful.discard(place)

    async def _try_to_clean(self) -> None:
        try:
            await self.clean()
        except AWAY:
            pass
        except KazooException as error:
            log.warning("leases cannot be given back: %r", error)

    async def _check(self, lease: Lease) -> None:
        """Is it still ours? Somebody may have written into it, or taken it away."""
        try:
            stat = await self._session.exists(f"{self._path}/{lease.name}", watch=True)
        except KazooException:
            return  # a lost connection ends it anyway
        if lease.valid and (stat is None or stat.created != lease.number):
            log.warning("the lease %s was taken away by somebody", lease.name)
            lease.valid = False
            del self._held[lease.name]
