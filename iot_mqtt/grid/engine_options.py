"""How RocksDB is set: how much memory it may take, when it writes tables, and how it finds its way in them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
)

_MIB: Final = 1 << 20
_CACHE_BYTES: Final = 8 * _MIB
#: More than a segment of the log takes as entries, mostly: a memory table is closed with its segment.
WRITE_BUFFER_BYTES: Final = 24 * _MIB
#: Tables that are merged at once have about so many bytes at most, and so have what they become.
MERGED_BYTES: Final = 256 * _MIB

#: What rocksdict has no call for, as RocksDB writes its options down. In a stream of the log each key comes behind the
#: one before it: with a note of where that was, for all that begins as they do (``log.keys``, behind a tag), to find
#: its place takes a third of the time.
_MORE: Final = Path(__file__).with_name("rocksdb")


def made() -> Options:
    """All of them."""
    _, families = Options.load_latest(str(_MORE))
    options = families["default"]
    table = BlockBasedOptions()
    table.set_block_cache(Cache(_CACHE_BYTES))
    table.set_bloom_filter(10, False)  # noqa: FBT003 - rocksdict's signature
    table.set_cache_index_and_filter_blocks(True)
    # In parts: whole, those of a big table would drive everything else out of the cache (reading the log: 3 times
    # as fast).
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    options.create_if_missing(True)  # noqa: FBT003
    # For directories of versions that left the log to RocksDB.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    # One thread writes; to leave room for more would take it half as long again.
    options.set_allow_concurrent_memtable_write(False)
    options.set_max_compaction_bytes(MERGED_BYTES)
    options.set_max_background_jobs(2)
    options.set_max_open_files(128)
    # RocksDB's own text log and statistics: kept small, written rarely.
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_MIB)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options
