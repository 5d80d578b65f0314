"""Where removed and overwritten entries still take room in RocksDB's tables, and which of them to merge next.

::

    newer levels    ──X────XX─────────X──      a removal, or another value
    deepest level   [─────][─────][─────]      what it stands for is in there until both are merged

RocksDB merges them when so much has been written that a level is full. A full disk takes no such writes: somebody has
to ask. Messages of the log are left out, because a generation that is removed is merged at once (``Engine.reclaim``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from iot_mqtt.grid.tags import TAGS
from iot_mqtt.ports.grid import CacheName

#: Bytes of the deepest level that are merged in one step: commits wait so long.
STEP: Final = 64 << 20
#: Behind every key.
END: Final = b"\xff" * 64
_LOG: Final = TAGS[CacheName.LOG]
_BEHIND_LOG: Final = bytes([_LOG[0] + 1])


class Table(NamedTuple):
    """A file of RocksDB; ``first`` and ``last`` are keys that it has."""

    level: int
    size: int
    first: bytes
    last: bytes


def tables(files: Iterable[dict[str, Any]]) -> list[Table]:
    """As ``live_files`` of rocksdict has them."""
    return [Table(one["level"], one["size"], one["start_key"], one["end_key"]) for one in files]


def next_range(found: Sequence[Table], after: bytes) -> tuple[bytes, bytes] | None:
    """The keys to be merged next, when those up to ``after`` have been; None: nothing stands above anything."""
    deepest = max((table.level for table in found), default=0)
    # Tables of level 0 lie above each other.
    newer = found if not deepest and len(found) > 1 else [table for table in found if table.level < deepest]
    above = [table.first for table in newer if table.last > after]
    if not above:
        return None
    begin = max(after, min(above))
    if begin.startswith(_LOG):
        return next_range(found, _BEHIND_LOG)
    end = _end(sorted((table for table in found if table.level == deepest), key=lambda table: table.first), begin)
    return begin, min(end, _LOG) if begin < _LOG else end


def _end(deepest: Sequence[Table], begin: bytes) -> bytes:
    size = 0
    for table in deepest:
        if table.level and table.last > begin:
            size += table.size
            if size >= STEP:
                return table.last
    return END
