"""The log that a commit is written to before it is acknowledged: segments of records in the grid's directory.

A batch is one write to the newest segment, and one ``fdatasync`` of it. The next batch is written only after that, so
a crash can spoil the last record and no other. The tables of RocksDB hold the LSN of the last batch that they have
(``engine``), so a start reads the records behind it, and nothing else (``pending``).

The name of a segment holds the LSN of its first record and the salt of all of them. It is durable before the first
record is written. A segment takes records until it has ``SEGMENT`` bytes; it is written once, from its beginning to
its end, and removed as it is. Zeros go ahead of its records, ``STEP`` bytes at a time, because to sync a file that
grows is to sync its size as well, which takes twice as long.

Nothing here knows RocksDB. Whoever writes says when a memory table is closed (``seal``) and how many of those are not
in tables yet (``release``). A segment is removed when all its batches are in tables.
"""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from iot_mqtt.grid.commit_record import Record, records, told_end
from iot_mqtt.grid.faults import Damaged
from iot_mqtt.native import write_at
from iot_mqtt.whole_files import sync_directory

log = logging.getLogger(__name__)

#: A segment that has so many bytes takes no further record.
SEGMENT: Final = 16 << 20
#: So many zeros at a time: a millisecond's work for a disk, done once for some hundred commits.
STEP: Final = 512 << 10
#: A record larger than this takes its time on the disk anyway.
LARGE: Final = STEP // 4
_ZEROS: Final = bytes(STEP)
_NAME: Final = re.compile(r"commits-(\d{16})-([0-9a-f]{16})")
_CLOSED: Final = -1
#: Behind the name of a segment that is kept for whoever wants to know what became of it.
DAMAGED: Final = ".damaged"
#: What a disk may leave in disorder where it was writing when the power went.
PAGE: Final = 4096


class Segment(NamedTuple):
    """A file of the log: the LSN that it begins with, and the salt of its records."""

    first: int
    salt: bytes
    path: Path


def segments(directory: Path) -> list[Segment]:
    """All of them, oldest first."""
    named = ((_NAME.fullmatch(path.name), path) for path in directory.glob("commits-*"))
    return sorted(Segment(int(name[1]), bytes.fromhex(name[2]), path) for name, path in named if name)


class Found(NamedTuple):
    """What a start finds: the batches that tables do not have, and a segment whose end no crash explains."""

    records: list[Record]
    odd: Path | None


def pending(directory: Path, applied: int) -> Found:
    """The batches behind LSN ``applied``, in their order. Raises ``Damaged`` or ``OSError``; changes nothing.

    They must follow each other without a gap. Where one is not whole, the log ends: a crash has torn the batch that was
    being written, and nobody was told that it was durable. But a batch is written only after the one before it was
    synced. So *a record behind a spot that is not whole* proves that something was there and was acknowledged, be that
    record whole or not: to go on without that would hide its loss.
    """
    found: list[Record] = []
    odd = None
    parts = segments(directory)
    for part, following in zip_longest(parts, parts[1:]):
        # Tables have all of a segment if the next one begins with what they have, or right behind it.
        if following is None or following.first > applied + 1:
            odd = _collect(found, part, applied + 1)
    return Found(found, odd)


def _collect(found: list[Record], part: Segment, first: int) -> Path | None:
    """Add what a segment has behind what was found before, which began with that LSN; its path, if its end is odd."""
    data, end = part.path.read_bytes(), 0
    if part.first > first + len(found):
        raise Damaged(part.path.parent, f"batch {first + len(found)} is missing in front of {part.path.name}")
    for record in records(data, part.salt):
        if record.lsn > first + len(found):
            where = f"{part.path.name} at byte {end}"
            raise Damaged(part.path.parent, f"{where} is damaged and acknowledged batches follow it")
        if record.lsn == first + len(found):
            found.append(record)
        end = record.end
    if data.find(part.salt, end + 1) >= 0:
        where = f"{part.path.name} at byte {end}"
        raise Damaged(part.path.parent, f"{where} is damaged, and another batch was begun behind it")
    rest = data[end:].rstrip(b"\0")
    if not _is_torn(rest, part.salt):
        return part.path
    if rest:
        log.warning("the grid's log ends in a batch that is not whole; it is dropped")
    return None


def _is_torn(rest: bytes, salt: bytes) -> bool:
    """Whether one batch that was being written explains what is behind the last whole one. A disk writes sectors, in
    any order: the salt in front is there or is zeros, and nothing is behind its end. Less than a page explains itself.
    """
    if any(byte not in (0, wanted) for byte, wanted in zip(rest, salt, strict=False)):
        return len(rest) <= PAGE
    end = told_end(rest) if rest.startswith(salt) else None
    return end is None or len(rest) <= max(PAGE, end)


def set_aside(path: Path) -> Path:
    """Keep a segment under a name that is none of a segment; returns it."""
    return path.rename(path.with_name(path.name + DAMAGED))


class CommitLog:
    """The newest segment, and those before it that may still be needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory
        #: That of the records.
        self.salt = b""
        self._offset = self._end = 0
        #: Segments that ended since the last seal, and those before each seal.
        self._ended: list[Path] = []
        self._sealed: deque[list[Path]] = deque()
        #: A write or a sync failed: what the file holds is not certain until a start has read it. Nothing may follow.
        self.failed = False
        #: What is to be synced after ``append``.
        self.file = _CLOSED

    @property
    def begun(self) -> bool:
        """Whether there is a segment of this process."""
        return self.file != _CLOSED

    @property
    def full(self) -> bool:
        """Whether the next record belongs into another segment."""
        return self._offset >= SEGMENT

    @property
    def removed(self) -> bool:
        """Whether the newest segment has no name any more: a start would not find it."""
        with suppress(OSError):  # none is open, or another is begun in another thread
            return os.fstat(self.file).st_nlink == 0
        return False

    def begin(self, first: int) -> None:
        """Begin a segment with the batch of this LSN. Raises ``OSError``, with ``failed``."""
        self.failed = True
        self.salt = os.urandom(8)
        path = self._directory / f"commits-{first:016}-{self.salt.hex()}"
        before, self.file = self.file, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if before != _CLOSED:
            os.close(before)
            self._ended.append(self._path)
        self._path, self._offset, self._end = path, 0, 0
        sync_directory(self._directory)
        self.failed = False

    def restart(self, first: int) -> None:
        """Begin a segment, and remove all others before it takes a record: tables have them. Raises ``OSError``."""
        self.begin(first)
        self._remove_all(but=self._path)

    def append(self, record: bytes, *, sync: bool) -> None:
        """Write a record; it is durable when ``file`` is synced, here or later. Raises ``OSError``, with ``failed``.

        With the sync it is one call, because to get the interpreter lock back may take longer than both.
        """
        size = len(record)
        if self._offset + size > self._end and size <= LARGE:
            # A disk that has no room for zeros is left to the record to tell.
            with suppress(OSError):
                self._end += os.pwrite(self.file, _ZEROS, self._end)
        self.failed = True
        if number := write_at(self.file, record, self._offset, sync):
            raise OSError(number, os.strerror(number))
        self.failed = False
        self._offset += size
        self._end = max(self._end, self._offset)

    def seal(self) -> None:
        """The memory table that holds the last batch of the ended segments is closed: later batches go to another."""
        self._sealed.append(self._ended)
        self._ended = []

    def release(self, unwritten: int) -> None:
        """All but so many closed memory tables are in RocksDB's tables, the oldest first.

        Every seal has closed a memory table. So those that are left belong to the last ``unwritten`` seals at most,
        whatever others RocksDB has closed between them.
        """
        while len(self._sealed) > unwritten:
            for path in self._sealed.popleft():
                path.unlink()

    def close(self, *, needed: bool) -> None:
        """Let go of the file; remove all segments if tables have what they hold."""
        if self.file == _CLOSED:
            return
        os.close(self.file)
        self.file = _CLOSED
        if not needed:
            with suppress(OSError):
                self._remove_all()

    def _remove_all(self, but: Path | None = None) -> None:
        self._ended, self._sealed = [], deque()
        for segment in segments(self._directory):
            if segment.path != but:
                segment.path.unlink()
        sync_directory(self._directory)
