"""What was changed, by whom: a log that is only appended to, in which each record names the hash of the one before.

It has chains of files (``audit_files``), each with its own bound. Whoever changes, inserts or takes out a record breaks
the chain behind it. Somebody who can write the files can write all of them anew: note the hash of the last change
elsewhere, and ``verify`` tells whether it is still there.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred

from iot_mqtt.admin.audit_beginnings import Beginnings
from iot_mqtt.admin.audit_chain import Chain, Record, hash_of
from iot_mqtt.admin.audit_files import Kept, Room, Verified, kept, records_before, verify
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.alarms import Alarm, AlarmKind

log = logging.getLogger(__name__)

#: Bytes that the file system must have left after it was full.
_LEFT = 1024 * 1024
#: Records that one search looks at: it goes on where it has ended.
LOOKED_AT = 20_000
#: The first status of an answer that is a refusal.
_REFUSED = 400

_HELD_UP: Final = "nothing is changed by the API until the audit log can be written"

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records; an empty text: any."""

    #: Of whom.
    who: str = ""
    #: A part of the path or of the body, whatever the case of its letters.
    contains: str = ""
    #: Only what was refused.
    refused: bool = False

    def fits(self, record: Record) -> bool:
        """Whether it is one of these."""
        text = self.contains.casefold()
        return (
            self.who in ("", record.get("who"))
            and (not self.refused or int(record.get("status", 0)) >= _REFUSED)
            and (not text or text in f"{record.get('path')}\n{record.get('body')}".casefold())
        )


ANYTHING: Final = Wanted()


@dataclass(frozen=True, slots=True)
class Latest:
    """Records that were found, the last first."""

    records: list[Record]
    #: The number down to which all records were looked at; None: all there are.
    down_to: int | None
    kept: tuple[Kept, ...]


class AuditLog:
    """The log of one node. Files are read and written on one thread, in order; ``cross`` comes back from it."""

    def __init__(
        self, folder: Path, executor: Executor, cross: Callable[[Callable[[], None]], object], size: int
    ) -> None:
        """``size``: bytes of the records of changes."""
        self._folder = folder
        self._executor = executor
        self._cross = cross
        #: Why the last record could not be written, or None.
        self.trouble: str | None = None
        #: The thread's.
        self._beginnings = beginnings = Beginnings(folder)
        self._chains = {room: Chain(room.folder(folder), room.size(size), room, beginnings) for room in Room}
        last = max(self._chains.values(), key=lambda chain: chain.seq)
        self._seq, self._head = last.seq, last.head

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should do something about."""
        return () if self.trouble is None else (Alarm(AlarmKind.AUDIT, f"{_HELD_UP}: {self.trouble}", self.trouble),)

    async def look(self) -> None:
        """See whether a change could be written down. Called now and then, so that nobody has to try."""
        with suppress(Unavailable):
            await self._writing(self._probe)

    async def check(self) -> None:
        """Raise ``Unavailable`` where a change could not be written down: then it is not made."""
        if self.trouble is not None:
            await self._writing(self._probe)

    async def write(self, room: Room, told: Mapping[str, Any]) -> None:
        """Append a record; returns when it is on the disk. Raises ``Unavailable``."""
        await self._writing(lambda: self._append(room, told))

    async def latest(self, before: int | None, limit: int, wanted: Wanted = ANYTHING) -> Latest:
        """Up to ``limit`` records that are wanted, the last first; those with numbers below ``before``."""
        return await self._aside(lambda: self._latest(before, limit, wanted))

    async def verify(self, expected: str | None = None) -> Verified:
        """Read all of it. ``expected``: a hash that was the last one once, perhaps of another node's log."""
        return await self._aside(lambda: verify(self._folder, self._beginnings, expected))

    async def _writing(self, call: Callable[[], None]) -> None:
        try:
            await self._aside(call)
        except Exception as error:
            if self.trouble is None:
                unexpected = None if isinstance(error, OSError) else error
                log.error("%s: %s", _HELD_UP, error, exc_info=unexpected)
            self.trouble = str(error) or type(error).__name__
            raise Unavailable(f"the audit log cannot be written: {error}") from error
        self.trouble = None

    async def _aside(self, call: Callable[[], Found]) -> Found:
        """Do something on the thread, after all that it has to do before: nobody reads what is half written."""
        done: Deferred[Found] = Deferred()

        def work() -> None:
            try:
                found = call()
            except Exception as error:  # noqa: BLE001 - whoever waits is told
                told = error
                self._cross(lambda: done.errback(told))
            else:
                self._cross(lambda: done.callback(found))

        self._executor.submit(work)
        return await done

    # On the thread.

    def _probe(self) -> None:
        if shutil.disk_usage(self._folder).free < _LEFT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for chain in self._chains.values():
            chain.probe(self._seq + 1)

    def _append(self, room: Room, told: Mapping[str, Any]) -> None:
        chain = self._chains[room]
        plain = {name: _writable(value) for name, value in told.items()}
        record = {"seq": self._seq + 1, **plain, "previous": chain.head}
        if self._head != chain.head:
            record["after"] = self._head
        record["hash"] = hash_of(record)
        chain.append(record)
        self._seq, self._head = chain.seq, chain.head

    def _latest(self, before: int | None, limit: int, wanted: Wanted) -> Latest:
        found, down_to = _found(records_before(self._folder, before), limit, wanted)
        return Latest(found, down_to, kept(self._folder, self._beginnings))


def _writable(value: Any) -> Any:
    """A text without what UTF-8 cannot hold. It goes before the hash is made: two halves of a character that are read
    again are a whole one.
    """
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _found(records: Iterable[Record], limit: int, wanted: Wanted) -> tuple[list[Record], int | None]:
    found: list[Record] = []
    for number, record in enumerate(records, 1):
        if wanted.fits(record):
            found.append(record)
        if len(found) == limit or number == LOOKED_AT:
            return found, int(record["seq"])
    return found, None
