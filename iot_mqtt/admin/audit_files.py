"""The chains of an audit log, read as one: listed the last first, verified from the first on.

::

    <data_dir>/audit/0000000001.jsonl              changes
    <data_dir>/audit/access/0000000002.jsonl       refused calls, and what people do to their own logins
    <data_dir>/audit/messages/0000000003.jsonl     messages, commands, what is desired of devices

What may come without end has a chain of its own, so that it cannot push out what comes seldom. Numbers are those of
all chains together. A record behind one of another chain has the hash of that one, too, as ``after``: whoever forges
the end of a chain has to forge what was written behind it in the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import merge
from pathlib import Path

from iot_mqtt.admin.audit_beginnings import Beginnings
from iot_mqtt.admin.audit_chain import Record, backwards, first, hash_of, paths, read


class Room(StrEnum):
    """What has a chain of its own."""

    CHANGES = "changes"
    ACCESS = "access"
    MESSAGES = "messages"

    def folder(self, log: Path) -> Path:
        """Changes are where the one chain was that held everything."""
        return log if self is Room.CHANGES else log / self.value

    def size(self, of_changes: int) -> int:
        """Bytes of its chain."""
        return of_changes if self is Room.CHANGES else of_changes // 4


@dataclass(frozen=True, slots=True)
class Kept:
    """From when on the records of a chain are there."""

    chain: str
    #: The time of the first that is left.
    since: str
    #: No older ones were removed to make room.
    complete: bool


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of looking at all chains."""

    whole: bool
    records: int
    first: int
    last: int
    #: Of the last change: note it, and ask for it another time.
    head: str
    #: What is wrong, and where, or "".
    fault: str
    #: Whether the hash is there that was asked for; None: none was.
    found: bool | None
    kept: tuple[Kept, ...]


def records_before(log: Path, before: int | None) -> Iterator[Record]:
    """Of all chains those with numbers below ``before``, the last first."""
    return merge(*(backwards(room.folder(log), before) for room in Room), key=lambda record: -record["seq"])


def kept(log: Path, beginnings: Beginnings) -> tuple[Kept, ...]:
    """Of each chain that has records."""
    return _kept(_oldest(log), beginnings)


def verify(log: Path, beginnings: Beginnings, expected: str | None = None) -> Verified:
    """Hold every record against its hash, its number and those before, and the first against what the node has removed.

    ``expected``: a hash that has to be there.
    """
    fault, found = "", None if expected is None else False
    there: tuple[Kept, ...] = ()
    walk = _Walk()
    try:
        oldest = _oldest(log)
        there = _kept(oldest, beginnings)
        fault = _lost(log, beginnings)
        walk.begin(oldest)
        for room, record in _in_order(log):
            walk.step(room, record)
            found = found if found is None else found or record["hash"] == expected
    except (OSError, ValueError) as error:
        fault = fault or str(error)
    head = walk.heads.get(Room.CHANGES, "")
    return Verified(not fault, walk.records, walk.first, walk.last, head, fault, found, there)


class _Walk:
    """From record to record, in the order of their numbers."""

    def __init__(self) -> None:
        self.records = self.first = self.last = 0
        #: The last hash of each chain, and of all.
        self.heads: dict[Room, str] = {}
        self._head = ""
        self._dense_from = 0

    def begin(self, oldest: Mapping[Room, Record]) -> None:
        """No number is missing from where no chain has lost its beginning any more."""
        self._dense_from = max((one["seq"] for one in oldest.values() if one["previous"]), default=0)

    def step(self, room: Room, record: Record) -> None:
        """``ValueError`` for a record that was changed, or is not the next one."""
        if record["hash"] != hash_of(record):
            raise ValueError(f"record {record['seq']} was changed")
        if not self._follows(room, record):
            raise ValueError(f"record {record['seq']} does not follow record {self.last}")
        self.records, self.first, self.last = self.records + 1, self.first or record["seq"], record["seq"]
        self.heads[room] = self._head = record["hash"]

    def _follows(self, room: Room, record: Record) -> bool:
        previous = record["previous"]
        if previous != self.heads.get(room, previous):
            return False
        if record["seq"] == self.last + 1:
            return record.get("after", previous) == self._head
        return record["seq"] > self.last and self.last < self._dense_from


def _in_order(log: Path) -> Iterator[tuple[Room, Record]]:
    return merge(*(_of(room, log) for room in Room), key=lambda one: one[1]["seq"])


def _of(room: Room, log: Path) -> Iterator[tuple[Room, Record]]:
    return ((room, record) for record in read(room.folder(log)))


def _oldest(log: Path) -> dict[Room, Record]:
    found = ((room, first(paths(room.folder(log)))) for room in Room)
    return {room: record for room, record in found if record is not None}


def _kept(oldest: Mapping[Room, Record], beginnings: Beginnings) -> tuple[Kept, ...]:
    return tuple(Kept(room, str(one.get("time", "")), not beginnings.of(room)) for room, one in oldest.items())


def _lost(log: Path, beginnings: Beginnings) -> str:
    """Which records are not there any more that should be, in words. Older ones may be: a power cut has left them."""
    for room in Room:
        previous = beginnings.of(room)
        if previous is not None and all(record["previous"] != previous for record in read(room.folder(log))):
            return f"records of {room} are gone, and it was not the node that removed them"
    return ""
