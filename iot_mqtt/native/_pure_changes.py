"""A batch of the grid on its way to the disk: the twin of ``_changes``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from struct import Struct, pack
from typing import Any, Final, cast
from zlib import crc32

ABSENT: Final = 0xFFFF_FFFF

_HEAD: Final = Struct("<8sQII")


def merge(
    changes: dict[bytes, bytes | None], operations: Sequence[tuple[Any, bytes, bytes | None]], tags: Mapping[Any, bytes]
) -> int:
    """Add operations, each a cache, a key, and a value or None; a later one on a key takes the place of an earlier one.
    Returns the bytes of all their values.
    """
    size, last, tag = 0, None, b""
    for cache, key, value in operations:
        if cache is not last:  # a batch comes in stretches of one cache, and an enum's hash is a call
            last, tag = cache, tags[cache]
        if value is not None:
            size += len(value)
        changes[tag + key] = value
    return size


def record(salt: bytes, lsn: int, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes]) -> bytes:
    """See ``grid.commit_record``."""
    values = changes.values()
    try:
        sizes = [*map(len, cast(Collection[bytes], values))]
    except TypeError:  # something is removed
        sizes = [ABSENT if value is None else len(value) for value in values]
    lengths = [*map(len, prefixes), *map(len, changes), *sizes]
    counts = pack(f"<II{len(lengths)}I", len(prefixes), len(changes), *lengths)
    body = b"".join([counts, *prefixes, *changes, *filter(None, values)])
    return _HEAD.pack(salt, lsn, len(body), crc32(body, crc32(pack("<QI", lsn, len(body))))) + body


def put_all(
    changes: dict[bytes, bytes | None], put: Callable[[bytes, bytes], object], remove: Callable[[bytes], object]
) -> None:
    """Put what has a value, remove what has none."""
    for key, value in changes.items():
        if value is None:
            remove(key)
        else:
            put(key, value)
