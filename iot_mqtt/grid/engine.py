"""RocksDB through ``rocksdict``: the only module that imports it, and synchronous throughout.

One column family; a cache is one byte in front of the key. ``write`` is for the grid's thread; ``begin`` and reads
are for the reactor, where they cost microseconds: rocksdict holds the interpreter lock while it reads and writes,
so that another thread would win nothing. Only the sync gives it up (docs/adr/0002).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import fsync, getpid, posix_fallocate
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, cast

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ahead import Ahead
from iot_mqtt.grid.faults import Damaged, InUse, OpenFault, TooNew
from iot_mqtt.grid.tags import TAGS
from iot_mqtt.grid.wal import survey
from iot_mqtt.ports.grid import CacheName, Pair

log = logging.getLogger(__name__)

#: Major: an older version cannot read it. Minor: it can, and skips what it does not know.
FORMAT: Final = (1, 0)
FORMAT_KEY: Final = b"format"
_FORMAT = Struct(">4sHH")
_MAGIC: Final = b"IMQG"

MIB: Final = 1 << 20
CACHE_BYTES: Final = 8 * MIB
WRITE_BUFFER_BYTES: Final = 16 * MIB
#: A write that RocksDB holds back (compaction is behind) is tried again after this many seconds, this often.
STALL_PAUSE: Final = 0.005
STALL_LIMIT: Final = 6000


class Begun(NamedTuple):
    """A batch that is written, or not: then nothing was done, and it needs whoever has time for it."""

    written: bool
    #: What is to be synced; None: it is.
    file: int | None = None


class Engine:
    """One database directory. ``pause`` waits for that many seconds in the calling thread."""

    def __init__(self, directory: Path, pause: Callable[[float], object]) -> None:
        self.directory = directory
        self._pause = pause
        self._database: Rdict | None = None
        self._write_options = WriteOptions()
        # A stall must not happen inside rocksdict, where it would hold the interpreter lock.
        self._write_options.no_slowdown = True
        self._ahead = Ahead(directory)

    @property
    def opened(self) -> bool:
        return self._database is not None

    def open(self) -> None:
        """Open, recover, check the format. Raises ``OpenFault``, or ``OSError`` for the directory itself."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._database = self._recover()
        try:
            self._check_format()
        except Unavailable as error:
            self.close()
            raise self._fault(error.__cause__ or error) from error
        except BaseException:
            self.close()
            raise
        with suppress(OSError):
            self._owner.write_text(f"{getpid()}\n")

    def close(self) -> None:
        """Sync, write the memory table out (so that the next start has no log to replay), give up the lock."""
        database, self._database = self._database, None
        self._ahead.close()
        if database is None:
            return
        try:
            database.close()
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing more precise
            # What was acknowledged is in the synced log; the next open reads it from there.
            log.warning("the grid's directory was not closed cleanly: %s", error)

    def write(self, changes: Mapping[bytes, bytes | None], prefixes: Sequence[bytes] = ()) -> None:
        """Remove what is under the prefixes, then make the changes: all of it durable, or ``Unavailable`` is raised
        and none, or all, of it is there later.
        """
        for _ in range(STALL_LIMIT):
            if self.try_write(changes, prefixes):
                return
            self._pause(STALL_PAUSE)
        raise Unavailable("the grid cannot write: compaction is too far behind")

    def try_write(self, changes: Mapping[bytes, bytes | None], prefixes: Sequence[bytes] = ()) -> bool:
        """The same; False, and nothing is done, where it would have to wait for compaction."""
        return self._attempt(lambda: self._write(changes, prefixes))

    def begin(self, changes: Mapping[bytes, bytes | None]) -> Begun:
        """``try_write`` without the sync, which is to be done for the file that is returned: then it is all durable."""
        if self._ahead.steady() is None or not self._attempt(lambda: self._put(changes, ())):
            return Begun(written=False)
        file = self._ahead.steady()
        # If not: RocksDB has begun another log, and knows what else that needs.
        if file is None and not self._attempt(self._sync):
            return Begun(written=False)
        return Begun(written=True, file=file)

    def reclaim(self, prefix: bytes) -> None:
        """Give back the room of what was removed under a prefix. RocksDB by itself does it when it next merges these
        files, which may be never: a full disk takes no writes that would make it.
        """
        try:
            self._ready().compact_range(prefix, _behind(prefix))
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing more precise
            log.warning("the room of removed entries was not given back yet: %s", error)

    def probe(self) -> None:
        """Raise ``OSError`` while the disk would not take what opening anew may have to write."""
        wanted = MIB + sum(path.stat().st_size for path in self.directory.glob("*.log"))
        path = self.directory / "probe"
        try:
            with path.open("wb") as file:
                posix_fallocate(file.fileno(), 0, wanted)
                file.write(b"probe")
                file.flush()
                fsync(file.fileno())
        finally:
            path.unlink(missing_ok=True)

    def _write(self, changes: Mapping[bytes, bytes | None], prefixes: Sequence[bytes]) -> None:
        self._put(changes, prefixes)
        self._sync()

    @staticmethod
    def _attempt(call: Callable[[], None]) -> bool:
        """False: RocksDB would have had to wait. Raises ``Unavailable``."""
        try:
            call()
        except Exception as error:
            if _stalled(error):
                return False
            raise Unavailable(f"the grid cannot write: {error}") from error
        return True

    def _sync(self) -> None:
        # write(sync=True) would keep the interpreter lock for the length of the fdatasync; this does not.
        self._ready().flush_wal(True)  # noqa: FBT003 - rocksdict's signature

    def _put(self, changes: Mapping[bytes, bytes | None], prefixes: Sequence[bytes]) -> None:
        database = self._ready()
        batch = WriteBatch(raw_mode=True)
        for prefix in prefixes:
            batch.delete_range(prefix, _behind(prefix))
        put, delete = batch.put, batch.delete
        for key, value in changes.items():
            if value is None:
                delete(key)
            else:
                put(key, value)
        self._ahead.make(batch.size_in_bytes())
        database.write(batch, self._write_options)

    def get(self, key: bytes) -> bytes | None:
        database = self._ready()
        try:
            value: bytes | None = database.get(key)
        except Exception as error:
            raise Unavailable(f"the grid cannot read: {error}") from error
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        database = self._ready()
        try:
            values = database.get(list(keys)) if keys else []
        except Exception as error:
            raise Unavailable(f"the grid cannot read: {error}") from error
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
        except Exception as error:
            raise Unavailable(f"the grid cannot read: {error}") from error
        return found

    # Opening.

    @property
    def _owner(self) -> Path:
        return self.directory / "owner.pid"

    def _ready(self) -> Rdict:
        if self._database is None:
            raise Unavailable("the grid is not open")
        return self._database

    def _recover(self) -> Rdict:
        """Open by the strict rule; by the lenient one only after a proof that just the last batch is torn."""
        found = survey(self.directory)
        if found.endless is not None:
            if found.hidden is not None:
                raise Damaged(self._damage(f"{found.hidden} is damaged and acknowledged batches follow it"))
            self._cut(*found.endless)
        # A log that is damaged but whose entries have long been in tables hides nothing.
        if found.hidden is not None and self._readable_sequence() < found.safe:
            raise Damaged(self._damage(f"{found.hidden} is damaged and acknowledged batches follow it"))
        try:
            return self._connect(DBRecoveryMode.tolerate_corrupted_tail_records())
        except Exception as error:
            if not str(error).startswith("Corruption") or self._readable_sequence() < found.safe:
                raise self._fault(error) from error
        log.warning("the grid's log ends in a torn batch that was never acknowledged; it is dropped")
        return self._connect(DBRecoveryMode.point_in_time())

    def _cut(self, name: str, offset: int) -> None:
        """Take a torn end off a log, which RocksDB would otherwise do itself."""
        log.warning("the grid's log ends in a torn batch that was never acknowledged; it is cut off")
        with (self.directory / name).open("r+b") as file:
            file.truncate(offset)
            fsync(file.fileno())

    def _readable_sequence(self) -> int:
        """The number of the last operation before the first unreadable spot; changes nothing on disk."""
        mode, access = DBRecoveryMode.point_in_time(), AccessType.read_only(False)  # noqa: FBT003 - its signature
        try:
            database = self._connect(mode, access)
        except Exception as error:
            raise self._fault(error) from error
        try:
            return int(database.latest_sequence_number())
        finally:
            database.close()

    def _connect(self, mode: DBRecoveryMode, access: AccessType | None = None) -> Rdict:
        settings = _options(mode)
        # Named, or rocksdict would take the column family's options from those the last process saved.
        families = {"default": settings}
        return Rdict(str(self.directory), settings, families, access or AccessType.read_write())

    def _fault(self, error: BaseException) -> OpenFault:
        text = str(error)
        if "/LOCK:" in text:
            return InUse(f"{self.directory} is in use{self._holder()}: two brokers cannot share a data directory")
        if text.startswith(("Corruption", "Invalid argument")):
            return Damaged(self._damage(text))
        return OpenFault(f"{self.directory} cannot be opened: {text}")

    def _holder(self) -> str:
        with suppress(OSError, ValueError):
            return f" by process {int(self._owner.read_text())}"
        return ""

    def _damage(self, what: str) -> str:
        return f"{self.directory}: {what}. Nothing was changed; restore a copy or move the directory away"

    def _check_format(self) -> None:
        key = TAGS[CacheName.META] + FORMAT_KEY
        record = self.get(key)
        if record is None:
            if self.page(b"", b"", 1, 0):
                raise Damaged(self._damage("there are entries but no format record"))
            self.write({key: _FORMAT.pack(_MAGIC, *FORMAT)})
            return
        if len(record) < _FORMAT.size or not record.startswith(_MAGIC):
            raise Damaged(self._damage("the format record is unreadable"))
        _, major, minor = _FORMAT.unpack_from(record)
        if major > FORMAT[0]:
            raise TooNew(
                f"{self.directory} was written by a later iot-mqtt (format {major}.{minor}; this one reads up to "
                f"{FORMAT[0]}.x): start that version, or another data directory"
            )


def _options(mode: DBRecoveryMode) -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(Cache(CACHE_BYTES))
    table.set_bloom_filter(10, False)  # noqa: FBT003 - rocksdict's signature
    table.set_cache_index_and_filter_blocks(True)
    # In parts: whole, those of a big table would drive everything else out of the cache (reading the log: 3 times
    # as fast).
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003
    options.set_wal_recovery_mode(mode)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    options.set_max_total_wal_size(4 * WRITE_BUFFER_BYTES)
    options.set_max_background_jobs(2)
    options.set_max_open_files(128)
    # RocksDB's own text log and statistics: kept small, written rarely.
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(MIB)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


def _behind(prefix: bytes) -> bytes:
    """The first key after every key with this prefix; a tag byte in front is never 0xFF."""
    bare = prefix.rstrip(b"\xff")
    return bare[:-1] + bytes([bare[-1] + 1]) if bare else b"\xff" * 64


def _stalled(error: Exception) -> bool:
    return "incomplete" in str(error).lower()
