"""Files of JSON lines that a reader finds whole or not at all, each record in them exactly once.

Records gather in a *round*: one hidden file for each topic and day, which nobody reads. A round is finished as a whole:

    1. every file is synced
    2. ``state.json`` is replaced: the round's end, and which file gets which name   ◀── from here on the round exists
    3. every file is renamed into ``<topic>/dt=<day>/<spool>-<first>-<end>.jsonl``

A start that finds hidden files renames those that the state names and removes the rest: these records are not safe, so
they are still owed by the log. The state says where to go on, even when whoever reads the files has removed them all.

Everything here runs in the sink's thread.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from iot_mqtt.ports.uplink import Place, Record
from iot_mqtt.uplink.settings import FileSettings
from iot_mqtt.whole_files import sync_directory

#: Readers of Spark and its like pass over names that begin with a dot.
HIDDEN = ".open"
STATE = ".state.json"
LOCK = ".lock"
SUFFIX = ".jsonl"
#: Characters of a topic in the name of a hidden file.
SHOWN = 100
DAY_MS = 86_400_000
#: The files are measured anew after so many seconds: whoever reads them may remove them.
MEASURE_SECONDS = 10.0

#: Bytes free of a path's file system; a test has its own.
Free = Callable[[Path], int]


class NoRoom(Exception):
    """There is no room for more records now; what was written is safe."""


class _State(NamedTuple):
    """What is kept of the rounds so far."""

    spool: str
    end: int
    #: (hidden name, final path), both relative, of the last round.
    names: list[tuple[str, str]]


class _Segment:
    """One file of the round."""

    __slots__ = ("file", "hidden", "folder", "first", "end")

    def __init__(self, file: BinaryIO, hidden: str, folder: str, first: int) -> None:
        self.file, self.hidden, self.folder, self.first, self.end = file, hidden, folder, first, first


def free_bytes(path: Path) -> int:
    """What an ordinary user may still write there."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


class Rounds:
    """The files of one node. ``OSError`` from any call but ``open`` ends the round: ``abandon`` it."""

    def __init__(self, root: Path, settings: FileSettings, free: Free = free_bytes) -> None:
        self._root = root
        self._settings = settings
        self._free = free
        self._segments: dict[tuple[str, int], _Segment] = {}
        self._spool = ""
        self._end = 0
        self._bytes = 0
        self._finished_bytes = 0
        self._measured_at: float | None = None
        #: Bytes that there was no room for: there is none before these fit.
        self._refused = 0
        self._lock: int | None = None
        #: When the round that is being written is over, by the clock that ``write`` is told; None: there is none.
        self.due_at: float | None = None

    # Beginning.

    def open(self, place: Place, now: float) -> int:
        """Put right what an earlier life left; where to begin. Can be called again."""
        self.abandon()
        hidden = self._root / HIDDEN
        hidden.mkdir(parents=True, exist_ok=True)
        # All that is finished here is as durable as the name of the directory. What it lies in may be closed to us.
        with suppress(PermissionError):
            sync_directory(self._root.parent)
        self._take_lock()
        state = self._read_state()
        if state is not None:
            self._rename(state.names)
        for left in hidden.iterdir():
            left.unlink()
        # That it can be written to shows now, and not with the first records.
        probe = hidden / "probe"
        probe.write_bytes(b"")
        probe.unlink()
        self._spool = place.spool
        self._end = (
            max(place.position, state.end) if state is not None and state.spool == place.spool else place.position
        )
        self._measured_at = None
        self._check_room(self._refused, now)
        return self._end

    def _take_lock(self) -> None:
        path = self._root / LOCK
        if self._lock is not None:
            if path.exists() and os.path.samestat(path.stat(), os.fstat(self._lock)):
                return
            # Somebody has removed it, and with it what it kept others from.
            os.close(self._lock)
            self._lock = None
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise OSError(errno.EBUSY, "another process writes to it") from None
        self._lock = lock

    def _read_state(self) -> _State | None:
        try:
            text = (self._root / STATE).read_bytes()
        except FileNotFoundError:
            return None
        try:
            fields = json.loads(text)
            # Earlier versions wrote no checksum.
            crc = fields.pop("crc", None)
            if crc is not None and crc != _crc(fields):
                raise ValueError("the checksum does not fit")
            names = [(str(hidden), str(final)) for hidden, final in fields["names"]]
            return _State(str(fields["spool"]), int(fields["end"]), names)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # It is replaced whole, so this was no crash. Going on might write records twice.
            raise OSError(errno.EIO, f"{STATE} is unreadable ({error}); remove it to begin at the kept place") from None

    # Records.

    def write(self, records: Sequence[Record], now: float) -> None:
        """Add records to the round. ``NoRoom``: none of them was."""
        if not self._segments:
            self._begin(now)
        by_file: dict[tuple[str, int], list[Record]] = {}
        for record in records:
            key = record.topic, record.timestamp // DAY_MS
            found = by_file.get(key)
            if found is None:
                by_file[key] = [record]
            else:
                found.append(record)
        parts = {}
        for key, some in by_file.items():
            lines = [record.value for record in some if record.position >= self._end]
            if lines:
                lines.append(b"")
                parts[key] = b"\n".join(lines)
        self._check_room(sum(map(len, parts.values())), now)
        for key, part in parts.items():
            segment = self._segments.get(key) or self._segment(key, by_file[key][0].position)
            segment.file.write(part)
            segment.end = by_file[key][-1].position + 1
            self._bytes += len(part)
        self._end = max(self._end, records[-1].position + 1)

    def _begin(self, now: float) -> None:
        self.due_at = now + self._settings.rotate_seconds
        self._bytes = 0

    def _segment(self, key: tuple[str, int], first: int) -> _Segment:
        topic, day = key
        date = datetime.fromtimestamp(day * 86_400, UTC).date().isoformat()
        # Never a name of an earlier round: the state may still speak of that. No two files begin with one record, so
        # the topic may be cut: the whole would be longer than a file's name can be.
        hidden = f"{topic[:SHOWN]}.{date}.{self._spool}-{first:020d}{SUFFIX}"
        file = (self._root / HIDDEN / hidden).open("wb", buffering=1 << 16)
        segment = self._segments[key] = _Segment(file, hidden, f"{topic}/dt={date}", first)
        return segment

    def is_due(self, now: float) -> bool:
        """Whether the round should be finished."""
        return self.due_at is not None and (now >= self.due_at or self._bytes >= self._settings.rotate_bytes)

    # Room.

    def _check_room(self, size: int, now: float) -> None:
        settings = self._settings
        free = self._free(self._root)
        self._refused = size
        if free - size < settings.reserve:
            raise NoRoom(
                f"{self._root}: what comes next has {size} bytes, {free} are free, and uplink.file.reserve keeps "
                f"{settings.reserve} of them"
            )
        if settings.limit:
            if self._measured_at is None or now - self._measured_at >= MEASURE_SECONDS:
                self._finished_bytes, self._measured_at = self._measure(), now
            used = self._finished_bytes + self._bytes
            # Empty, they take whatever comes at once, or a limit that is too small would stop everything.
            if used and used + size > settings.limit:
                raise NoRoom(
                    f"{self._root}: the files take {used} bytes, and what comes next {size}: that is more than "
                    f"uplink.file.limit {settings.limit}"
                )
        self._refused = 0

    def _measure(self) -> int:
        total = 0
        for folder, _, names in os.walk(self._root):
            for name in names:
                if name.endswith(SUFFIX) and not folder.endswith(HIDDEN):
                    with suppress(FileNotFoundError):
                        total += os.stat(os.path.join(folder, name)).st_size  # noqa: PTH116, PTH118 - for many files
        return total

    # The end of a round.

    def finish(self) -> None:
        """Everything that was written is safe, and can be read."""
        names = []
        for segment in self._segments.values():
            segment.file.flush()
            os.fsync(segment.file.fileno())
            segment.file.close()
            name = f"{self._spool}-{segment.first:020d}-{segment.end:020d}{SUFFIX}"
            names.append((segment.hidden, f"{segment.folder}/{name}"))
        # From here on these files are not ours to remove: if anything fails, the next ``open`` asks the state.
        self._segments, self.due_at = {}, None
        if names:
            sync_directory(self._root / HIDDEN)
            self._write_state(_State(self._spool, self._end, names))
            self._rename(names)
        self._finished_bytes += self._bytes
        self._bytes = 0

    def _write_state(self, state: _State) -> None:
        written = self._root / HIDDEN / "state"
        fields = state._asdict()
        with written.open("wb") as file:
            file.write(json.dumps(fields | {"crc": _crc(fields)}).encode())
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._root / STATE)
        sync_directory(self._root)

    def _rename(self, names: Sequence[tuple[str, str]]) -> None:
        """Give files their names; those that have them already are not there any more."""
        folders = set()
        for hidden, final in names:
            source, target = self._root / HIDDEN / hidden, self._root / final
            if not source.exists():
                continue
            if not target.parent.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                folders |= {self._root, target.parent.parent}
            source.replace(target)
            folders.add(target.parent)
        for folder in folders:
            sync_directory(folder)

    def abandon(self) -> None:
        """Forget the round."""
        for segment in self._segments.values():
            with suppress(OSError):
                segment.file.close()
            with suppress(OSError):
                (self._root / HIDDEN / segment.hidden).unlink()
        self._segments, self.due_at, self._bytes = {}, None, 0

    def close(self) -> None:
        """Let another process have the directory."""
        self.abandon()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _crc(fields: dict[str, object]) -> int:
    """The checksum of what a state says."""
    return crc32(json.dumps(fields, sort_keys=True).encode())
