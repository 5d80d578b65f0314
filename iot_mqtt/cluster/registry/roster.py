"""The list of members as ZooKeeper has it, followed by reading it again.

A watch fires once, may stand for several changes, and is gone with the connection. So nothing is counted: a
watch that fires says what to read again, which sets the next one, and after a lost connection all is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, KazooException, NoNodeError
from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from iot_mqtt.cluster.registry.bridge import AWAY, Session
from iot_mqtt.cluster.registry.entry import BadEntry, load, segment
from iot_mqtt.cluster.registry.telling import start
from iot_mqtt.ports.registry import Member

log = logging.getLogger(__name__)

#: Nodes have numbers from 1 to 255; more entries than this are not ours, and are not read.
MAXIMUM = 1024


class Entry(NamedTuple):
    """One child of the path."""

    member: Member | None
    owner: int
    version: int


class Roster:
    """One session's view of the children of ``path``. ``changed`` is called when it is whole and different."""

    def __init__(self, session: Session, path: str, changed: Callable[[], None]) -> None:
        self._session = session
        self._path = path
        self._changed = changed
        self._list_is_old = True
        self._old: set[str] = set()
        self._reading = False
        self._waiting: list[Deferred[None]] = []
        self.entries: dict[str, Entry] = {}

    @property
    def members(self) -> dict[str, Member]:
        members = (entry.member for entry in self.entries.values())
        return {member.node_id: member for member in members if member is not None}

    @property
    def not_understood(self) -> list[str]:
        return sorted(name for name, entry in self.entries.items() if entry.member is None)

    @property
    def old(self) -> bool:
        """Something is to be read, because reading it has failed."""
        return (self._list_is_old or bool(self._old)) and not self._reading

    async def read_all(self) -> None:
        """Returns when everything was read; with an error of ``AWAY`` or another one of ZooKeeper's."""
        self._list_is_old = True
        self._old.update(self.entries)
        if self._reading:
            whole: Deferred[None] = Deferred()
            self._waiting.append(whole)
            await whole
        else:
            await self._read()

    async def evict(self, member: Member) -> None:
        """Remove its entry, unless somebody else's is in its place or it has gone."""
        path = f"{self._path}/{segment(member.node_id)}"
        with suppress(NoNodeError, BadVersionError):
            data, stat = await self._session.get(path)
            present = self._understand(member.node_id, data)
            if present is not None and present.boot == member.boot:
                await self._session.delete(path, stat.version)

    def watch_fired(self, path: str) -> None:
        if path == self._path:
            self._list_is_old = True
        else:
            self._old.add(path.rpartition("/")[2])
        self.catch_up()

    def catch_up(self) -> None:
        """Read what is old, if nobody does."""
        if not self._reading:
            start(self._follow())

    async def _follow(self) -> None:
        before = dict(self.entries)
        try:
            await self._read()
        except AWAY:
            return
        except KazooException as error:
            log.warning("the list of nodes at %s cannot be read: %r", self._path, error)
            return
        if self.entries != before:
            self._changed()

    async def _read(self) -> None:
        self._reading = True
        failed: KazooException | None = None
        try:
            while self._list_is_old or self._old:
                if self._list_is_old:
                    await self._read_list()
                else:
                    await self._read_entries()
        except KazooException as error:
            failed = error
            raise
        finally:
            self._reading = False
            waiting, self._waiting = self._waiting, []
            for whole in waiting:
                if failed is None:
                    whole.callback(None)
                else:
                    whole.errback(failed)

    async def _read_list(self) -> None:
        self._list_is_old = False
        try:
            names = await self._session.children(self._path)
        except KazooException:
            self._list_is_old = True
            raise
        if len(names) > MAXIMUM:
            log.error("%s has %d entries; only the first %d are read", self._path, len(names), MAXIMUM)
            names = sorted(names)[:MAXIMUM]
        present = set(names)
        self.entries = {name: entry for name, entry in self.entries.items() if name in present}
        self._old = (self._old & present) | (present - self.entries.keys())

    async def _read_entries(self) -> None:
        """All that are old, in one go."""
        names, self._old = sorted(self._old), set()
        reads: list[Deferred[Any]] = [self._session.get(f"{self._path}/{name}") for name in names]
        answers: list[tuple[bool, Any]] = await DeferredList(reads, consumeErrors=True)
        failed: Failure | None = None
        for name, (_, answer) in zip(names, answers, strict=True):
            if not isinstance(answer, Failure):
                data, stat = answer
                self.entries[name] = Entry(self._understand(name, data), stat.owner, stat.version)
            elif answer.check(NoNodeError):
                self.entries.pop(name, None)
            else:
                self._old.add(name)
                failed = answer
        if failed is not None:
            failed.raiseException()

    def _understand(self, name: str, data: bytes) -> Member | None:
        try:
            return load(name, data)
        except BadEntry as error:
            log.warning("the entry %s/%s %s: it is left out", self._path, name, error)
            return None
