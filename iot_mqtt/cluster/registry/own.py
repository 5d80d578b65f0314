"""This node's own entry: put in its place, kept as it should be, and looked after.

The place may hold what an earlier life has left: an ephemeral node whose session the server has not given up yet.
That is replaced, in one transaction, so that the others see one life after the other and no gap.
"""

from __future__ import annotations

import logging

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from iot_mqtt.cluster.registry.bridge import AWAY, Session, Stat
from iot_mqtt.cluster.registry.entry import BadEntry, dump, load, segment
from iot_mqtt.cluster.registry.roster import Entry
from iot_mqtt.ports.registry import Member

log = logging.getLogger(__name__)


class Gone(Exception):
    """The entry is not ours any more, or cannot be; says why."""


class OwnEntry:
    """``member`` is what it should say, ``written`` what it says, or None as long as it is not ours."""

    def __init__(self, session: Session, path: str, member: Member) -> None:
        self.name = segment(member.node_id)
        self.path = f"{path}/{self.name}"
        self.member = member
        self.written: Member | None = None
        #: The session it belongs to.
        self.owner = 0
        self._session = session
        self._version = 0
        self._writing = False

    @property
    def is_old(self) -> bool:
        """It should say something else, and nobody sees to that."""
        return self.written is not None and self.written != self.member and not self._writing

    async def enter(self) -> None:
        """``Gone`` if a later life of this node is there."""
        while True:
            member = self.member
            data = dump(member)
            try:
                await self._session.create(self.path, data, ephemeral=True)
                self._wrote(member, 0)
                return
            except NodeExistsError:
                pass
            try:
                found, stat = await self._session.get(self.path)
                if stat.owner == self.owner:
                    stat = await self._session.set(self.path, data, stat.version)
                    self._wrote(member, stat.version)
                    return
                if self._boot(found) > member.boot:
                    raise Gone(f"a later life of {member.node_id} is registered: is its name used twice?")
                if await self._session.replace(self.path, stat.version, data):
                    self._wrote(member, 0)
                    return
            except (NoNodeError, BadVersionError):
                pass  # somebody was faster; look again

    async def look(self) -> None:
        """``Gone`` if it is not ours any more."""
        if self.written is not None:
            self._check(await self._session.exists(self.path))

    async def write(self) -> None:
        """Make it say what it should. What fails because the connection is away is tried again by the caller."""
        if not self.is_old:
            return
        self._writing = True
        try:
            while self.written is not None and self.written != self.member:
                member = self.member
                stat = await self._session.set(self.path, dump(member), self._version)
                if self.written is not None:  # else a new life is being entered, which reads the version
                    self._wrote(member, stat.version)
        except (NoNodeError, BadVersionError):
            stat_now = await self._session.exists(self.path)
            self._check(stat_now)
        except AWAY:
            pass
        except KazooException as error:
            log.warning("this node's entry cannot be refreshed: %r", error)
        finally:
            self._writing = False

    def is_lost(self, entry: Entry | None) -> bool:
        """By what was read, which may be older than what was written since."""
        return self.written is not None and (entry is None or entry.owner != self.owner)

    def is_spoilt(self, entry: Entry | None) -> bool:
        """It is ours, and somebody else has written into it."""
        if self.written is None or entry is None or entry.version < self._version:
            return False
        return entry.member is None or entry.member.boot != self.written.boot

    def _wrote(self, member: Member, version: int) -> None:
        self.written = member
        self._version = version

    def _check(self, stat: Stat | None) -> None:
        if stat is None:
            raise Gone("somebody removed this node's entry from ZooKeeper")
        if stat.owner != self.owner:
            raise Gone(f"another process has registered as {self.member.node_id}")
        self._version = max(self._version, stat.version)

    def _boot(self, data: bytes) -> int:
        try:
            return load(self.name, data).boot
        except BadEntry:
            return -1
