"""RocksDB through ``rocksdict``: the only module that imports it, and synchronous throughout.

RocksDB is the index, without a write-ahead log of its own. What makes a batch durable is ``commit_log``
(docs/adr/0013). Every batch carries its LSN, under ``APPLIED``, into the memory table and with that into the tables. So
the tables always say which batches they have: those up to that LSN, and no others, because RocksDB writes its memory
tables out in order.

One column family; a cache is one byte in front of the key. ``write`` is for the grid's thread; ``begin`` and reads
are for the reactor, where they cost microseconds: rocksdict holds the interpreter lock while it reads and writes,
so that another thread would win nothing. Only the sync gives it up (docs/adr/0002).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from os import fsync, posix_fallocate
from pathlib import Path
from threading import Event
from typing import Final, cast

from rocksdict import (
    AccessType,
    Checkpoint,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from iot_mqtt import native
from iot_mqtt.errors import Corrupt, Unavailable
from iot_mqtt.grid import engine_options
from iot_mqtt.grid.commit_log import DAMAGED, CommitLog, pending, segments, set_aside
from iot_mqtt.grid.commit_record import decode, encode
from iot_mqtt.grid.engine_faults import damage, open_fault, stalled
from iot_mqtt.grid.engine_format import TAGGED_KEY, missing_format
from iot_mqtt.grid.engine_options import MERGED_BYTES, WRITE_BUFFER_BYTES
from iot_mqtt.grid.faults import Damaged
from iot_mqtt.grid.garbage import next_range, tables
from iot_mqtt.grid.own_directory import OwnDirectory
from iot_mqtt.grid.owner_file import OwnerFile
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.grid import Pair
from iot_mqtt.whole_files import sync_directory

log = logging.getLogger(__name__)

#: RocksDB's file that is there as long as its database is.
CURRENT: Final = "CURRENT"
#: In front of all caches: the LSN of the last batch that is in RocksDB (8 bytes, big-endian).
APPLIED: Final = b"\x00applied"

MIB: Final = 1 << 20
#: RocksDB's names for the closed memory tables that are not in tables, and for the entries of the open one.
UNWRITTEN: Final = "rocksdb.num-immutable-mem-table"
ACTIVE: Final = "rocksdb.num-entries-active-mem-table"
#: Its name for the bytes of all tables, and for how often it could not write one in the background. Then it writes none
#: until it is opened anew: without ``Env`` and a manager of files, which rocksdict has not, it does not try again.
TABLES: Final = "rocksdb.live-sst-files-size"
FAILURES: Final = "rocksdb.background-errors"
#: Level 0 is merged as a whole, which has four memory tables, or some more.
PASSING_BYTES: Final = MERGED_BYTES + 5 * WRITE_BUFFER_BYTES
#: A write that RocksDB holds back (compaction is behind) is tried again after this many seconds, this often.
STALL_PAUSE: Final = 0.005
STALL_LIMIT: Final = 6000


class Engine:
    """One database directory. ``pause`` waits for that many seconds in the calling thread. ``on_lost`` is told, in any
    thread, that another directory is at the path, or none: nothing more must be written then.
    """

    def __init__(
        self,
        directory: Path,
        *,
        pause: Callable[[float], object] | None = None,
        on_lost: Callable[[str], object] | None = None,
    ) -> None:
        self.directory = directory
        self._pause = pause or Event().wait
        self._database: Rdict | None = None
        self._write_options = WriteOptions()
        # A stall must not happen inside rocksdict, where it would hold the interpreter lock.
        self._write_options.no_slowdown = True
        # In truth a property; the stub of rocksdict has it as a method.
        setattr(self._write_options, "disable_wal", True)  # noqa: B010
        self._owner = OwnerFile(directory)
        self._log = CommitLog(directory)
        self._own = OwnDirectory(directory, CURRENT)
        self._on_lost = on_lost
        self._lsn = 0
        self._passing = 0
        #: Segments of the log that are kept for whoever wants to know what became of them.
        self._aside: list[Path] = []
        #: Files that cannot be read.
        self._damaged: dict[str, None] = {}
        #: What was begun and is in the log alone, with its LSN.
        self._begun: tuple[int, dict[bytes, bytes | None]] | None = None

    def open(self) -> None:
        """Open, recover, check the format. Raises ``OpenFault``, or ``OSError`` for the directory itself."""
        self._make_directory()
        self._database = self._connect()
        try:
            self._own.take()
            self._recover()
        except Unavailable as error:
            self.close()
            raise open_fault(self.directory, error.__cause__ or error, self._owner) from error
        except BaseException:
            self.close()
            raise
        self._owner.write()

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator has to know of the files."""
        found = [
            Alarm(AlarmKind.GRID_DAMAGED, f"the grid is damaged: {name} cannot be read, and what is there is lost")
            for name in self._damaged
        ]
        text = "the grid's log was damaged, and batches that were acknowledged may be lost: it is kept as {}"
        found += (Alarm(AlarmKind.GRID_LOG_DAMAGED, text.format(path)) for path in self._aside if path.exists())
        return tuple(found)

    def close(self) -> None:
        """Write the memory table out (so that the next start has no log to replay), give up the lock."""
        if self._database is None:
            return
        self.look()
        needed = True
        try:
            self._catch_up()
            self._settle()
            needed = False
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing more precise
            # What was acknowledged is in the synced log; the next open reads it from there.
            log.warning("the grid's memory could not be written out: %s", error)
        database, self._database = self._database, None
        try:
            database.close()
        except Exception as error:  # noqa: BLE001
            log.warning("the grid's directory was not closed cleanly: %s", error)
        self._begun = None
        self._log.close(needed=needed or not (self._log.begun and self._owner.remove()))
        self._own.let_go()

    def look(self) -> None:
        """Whether the directory is still the one that was opened."""
        if self._own.lost and self._on_lost is not None:
            self._on_lost(
                f"{self.directory} is not the directory any more that this node has opened: it was moved, removed or "
                "emptied, or something else is mounted there. What was acknowledged is where it has gone: put it back, "
                "or restore a backup, and start the node again"
            )

    @property
    def log_removed(self) -> bool:
        """Whether somebody has removed the log that commits go to."""
        return self._log.removed

    def renew_log(self) -> None:
        """Begin another log. Tables have by then what the one of before had."""
        self.follow()
        self._settle()
        self._log.restart(self._lsn + 1)

    def write(self, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes] = ()) -> None:
        """Remove what is under the prefixes, then make the changes: all of it durable, or ``Unavailable`` is raised
        and none, or all, of it is there later.
        """
        self._insist(lambda: self.try_write(changes, prefixes))

    def try_write(self, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes] = ()) -> bool:
        """The same; False, and nothing is done, where it would have to wait for compaction."""
        return self._attempt(lambda: self._write(changes, prefixes))

    def begin(self, changes: dict[bytes, bytes | None]) -> int | None:
        """Write to the log alone. The file that is returned is to be synced: then it is all durable. Nobody reads it
        before ``apply``, for which there is time while the disk works. None: nothing is done, and it needs whoever may
        wait.
        """
        if self._log.full or not self._attempt(partial(self._begin, changes)):
            return None
        return self._log.file

    def apply(self) -> bool:
        """Let what was begun be read; False where it would have to wait for compaction: then ``follow`` does it."""
        return self._attempt(self._catch_up)

    def follow(self) -> None:
        """The same for whoever may wait. Raises ``Unavailable``."""
        self._insist(self.apply)

    @property
    def behind(self) -> bool:
        """Whether what was begun cannot be read yet."""
        return self._begun is not None

    def reclaim(self, prefix: bytes) -> None:
        """Give back the room of what was removed under a prefix. RocksDB by itself does it when it next merges these
        files, which may be never: a full disk takes no writes that would make it. The log gives back its room, too.
        """
        try:
            self._ready().compact_range(prefix, _behind(prefix))
            self._settle()
            self._log.restart(self._lsn + 1)
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing more precise
            log.warning("the room of removed entries was not given back yet: %s", error)

    def merge(self, after: bytes) -> bytes | None:
        """Give back the room of removed and overwritten entries: a step of it, behind the keys up to ``after``.

        Returns the ``after`` of the next step; None: there is none. Raises ``Unavailable`` if the database has to be
        opened anew.
        """
        try:
            if self._damaged:
                return None
            if self._count(FAILURES):
                raise Unavailable("the grid cannot write its tables")
            if not after:
                self.renew_log()
            keys = next_range(tables(self._ready().live_files()), after)
            if keys is None:
                return None
            self._ready().compact_range(*keys)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing more precise
            log.warning("the room of removed entries was not given back yet: %s", error)
            return None
        return keys[1]

    def copy(self, target: Path) -> None:
        """A database of its own in ``target``, which does not exist yet: all that was written so far. Tables are shared
        by hard links, so that it costs no room until one of the two changes. Raises ``OSError``.
        """
        database = self._ready()
        try:
            database.flush(False)  # noqa: FBT003 - rocksdict's signature
            # Not by waiting inside rocksdict, where it would hold the interpreter lock.
            for _ in range(STALL_LIMIT):
                if not self._count(UNWRITTEN):
                    break
                self._pause(STALL_PAUSE)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            Checkpoint(database).create_checkpoint(str(target))
        except Exception as error:
            raise OSError(f"{target} could not be made: {error}") from error

    @property
    def needed_to_open(self) -> int:
        """Bytes that opening anew may have to write: what is in the log, as tables; raises ``OSError``."""
        return MIB + sum(segment.path.stat().st_size for segment in segments(self.directory))

    def probe(self) -> None:
        """Raise ``OSError`` while the disk would not take what opening anew may have to write."""
        self.look()
        path = self.directory / "probe"
        try:
            with path.open("wb") as file:
                posix_fallocate(file.fileno(), 0, self.needed_to_open)
                file.write(b"probe")
                file.flush()
                fsync(file.fileno())
        finally:
            path.unlink(missing_ok=True)

    def _begin(self, changes: dict[bytes, bytes | None]) -> None:
        """One batch at most is in the log alone, and RocksDB gets them in their order."""
        self._catch_up()
        lsn = self._lsn + 1
        self._log.append(self._record(lsn, changes, ()), sync=False)
        self._begun = lsn, changes

    def _catch_up(self) -> None:
        """Nothing else is written before it: should it fail, it is tried again, or a start takes it from the log."""
        if self._begun is not None:
            self._apply(*self._begun, ())
            self._begun = None

    def _write(self, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes]) -> None:
        self._catch_up()
        if self._log.full and not self._log.failed:
            self._begin_segment()
        self._put(changes, prefixes)

    def _insist(self, attempt: Callable[[], bool]) -> None:
        """Until it need not wait for compaction."""
        for _ in range(STALL_LIMIT):
            if attempt():
                return
            self._pause(STALL_PAUSE)
        raise Unavailable("the grid cannot write: compaction is too far behind")

    def _attempt(self, call: Callable[[], None]) -> bool:
        """False: RocksDB would have had to wait. Raises ``Unavailable``."""
        try:
            call()
        except Exception as error:
            if stalled(error):
                return False
            raise self._trouble("write", error) from error
        return True

    def _trouble(self, what: str, error: Exception) -> Unavailable:
        """Why it cannot be read or written. A file that is damaged is remembered: it will not become better."""
        found = damage(str(error))
        if found is None:
            return Unavailable(f"the grid cannot {what}: {error}")
        name, how = found
        if name not in self._damaged:
            log.error("the grid is damaged: %s cannot be read: %s", name, error)
            self._damaged[name] = None
        return Corrupt(f"the grid cannot {what}: {name} is damaged ({how}); restore a backup (iot-mqtt backup restore)")

    def _put(self, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes]) -> None:
        """Into RocksDB first: where it would have to wait, nothing was done. Should the log fail then, nothing more is
        written, and what is in memory is whole, acknowledged or not.
        """
        lsn = self._lsn + 1
        record = self._record(lsn, changes, prefixes)
        self._apply(lsn, changes, prefixes)
        self._log.append(record, sync=True)

    def _record(self, lsn: int, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes]) -> bytes:
        if self._log.failed:
            raise OSError("the log failed, and was not read again since")
        return encode(self._log.salt, lsn, changes, prefixes)

    def _apply(self, lsn: int, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes]) -> None:
        database = self._ready()
        batch = WriteBatch(raw_mode=True)
        for prefix in prefixes:
            batch.delete_range(prefix, _behind(prefix))
        native.put_all(changes, batch.put, batch.delete)
        batch.put(APPLIED, lsn.to_bytes(8))
        database.write(batch, self._write_options)
        self._lsn = lsn

    def _begin_segment(self) -> None:
        """Go on in another segment, and have RocksDB write out what the ended ones hold.

        A memory table leaves the number of those that are not in tables when the manifest that names its table is
        synced, and they leave it in order.
        """
        self.look()
        self._log.begin(self._lsn + 1)
        self._ready().flush(False)  # noqa: FBT003 - rocksdict's signature
        if not self._count(ACTIVE):
            self._log.seal()
        self._log.release(self._count(UNWRITTEN))

    def _settle(self) -> None:
        """Write all memory tables out: all there is, is in tables then."""
        self._ready().flush(True)  # noqa: FBT003 - rocksdict's signature
        if self._count(ACTIVE) or self._count(UNWRITTEN):
            raise OSError("the memory table could not be written out")

    @property
    def passing(self) -> int:
        """Bytes that merging may take for a while."""
        with suppress(Exception):  # while it is opened anew, in another thread
            self._passing = min(self._count(TABLES), PASSING_BYTES)
        return self._passing

    def _count(self, name: str) -> int:
        count = self._ready().property_int_value(name)
        if count is None:
            raise OSError(f"RocksDB does not know {name}")
        return count

    def get(self, key: bytes) -> bytes | None:
        database = self._ready()
        try:
            value: bytes | None = database.get(key)
        except Exception as error:
            raise self._trouble("read", error) from error
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        database = self._ready()
        try:
            values = database.get(list(keys)) if keys else []
        except Exception as error:
            raise self._trouble("read", error) from error
        return cast(list[bytes | None], values)

    def page(self, prefix: bytes, start: bytes, limit: int, strip: int) -> list[Pair]:
        """Entries under ``prefix`` from ``start`` on, without the first ``strip`` bytes of their keys."""
        database = self._ready()
        found: list[Pair] = []
        try:
            options = ReadOptions()
            options.set_iterate_upper_bound(_behind(prefix))
            iterator = database.iter(options)
            iterator.seek(start)
            # Not items(): it ends without a word when a block is unreadable.
            key, value, step, valid = iterator.key, iterator.value, iterator.next, iterator.valid
            while limit > 0 and valid():
                found.append((key()[strip:], value()))
                step()
                limit -= 1
            iterator.status()
            # The iterator reads the bound in its options, and does not keep them.
            del options
        except Exception as error:
            raise self._trouble("read", error) from error
        return found

    # Opening.

    def _ready(self) -> Rdict:
        if self._database is None:
            raise Unavailable("the grid is not open")
        return self._database

    def _make_directory(self) -> None:
        """Its name is durable before anything is in it, and so is that of the data directory, which may be new, too."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for parent in self.directory.parents[:2]:
            # What is above the data directory may be closed to us.
            with suppress(PermissionError):
                sync_directory(parent)

    def _connect(self) -> Rdict:
        settings = engine_options.made()
        # Merging would come to what is damaged again and again, and no write goes on after that.
        settings.set_disable_auto_compactions(bool(self._damaged))
        # Named, or rocksdict would take the column family's options from those the last process saved.
        try:
            return Rdict(str(self.directory), settings, {"default": settings}, AccessType.read_write())
        except Exception as error:
            raise open_fault(self.directory, error, self._owner) from error

    def _recover(self) -> None:
        """Bring everything that is durable into tables, and begin with an empty log.

        Nothing is written behind what a crash has left of the log: what can be read of it may not be on the disk.
        """
        self._lsn = int.from_bytes(self.get(APPLIED) or b"")
        missing = self._missing_format()
        if not any(self.directory.glob("commits-*")) and self._owner.has_log:
            raise Damaged(self.directory, "who had it last did not end cleanly, and its log (commits-*) is gone")
        found = pending(self.directory, self._lsn)
        batches = [(record.lsn, *decode(record.body)) for record in found.records]
        if missing is not None:
            batches.insert(0, (self._lsn, missing, []))
        for batch in batches:
            self._insist(partial(self._attempt, partial(self._apply, *batch)))
        if batches:
            self._insist(partial(self._attempt, self._settle))
        if found.odd is not None:
            log.error("the end of the grid's log is damaged, by no crash: it is kept as %s", set_aside(found.odd))
        self._aside = sorted(self.directory.glob(f"commits-*{DAMAGED}"))
        self._log.restart(self._lsn + 1)

    def _missing_format(self) -> dict[bytes, bytes | None] | None:
        """The format record, unless it is there; raises ``OpenFault``."""
        record = self.get(TAGGED_KEY)
        if record is None and self.page(b"", b"", 1, 0):
            raise Damaged(self.directory, "there are entries but no format record")
        missing = missing_format(self.directory, record)
        return None if missing is None else {TAGGED_KEY: missing}


def _behind(prefix: bytes) -> bytes:
    """The first key after every key with this prefix; a tag byte in front is never 0xFF."""
    bare = prefix.rstrip(b"\xff")
    return bare[:-1] + bytes([bare[-1] + 1]) if bare else b"\xff" * 64
