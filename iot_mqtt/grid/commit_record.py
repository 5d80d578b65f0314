"""The bytes of a record of the commit log (``commit_log``), and what it says.

    record = salt (8) │ LSN (8) │ length (4) │ crc32 of LSN, length and body (4) │ body
    body   = number of prefixes (4) │ number of keys (4) │ all lengths (4 each) │ prefixes │ keys │ values

All integers are little-endian. The lengths are those of the prefixes, the keys and the values, in this order; a value
whose length is ``ABSENT`` is a removal. The LSN of a batch is one more than that of the batch before it.

The salt is that of the segment, drawn anew for each. It tells a record from whatever a client may put into a message,
for no client can know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from struct import Struct, pack, unpack_from
from typing import Final, NamedTuple, cast
from zlib import crc32

from iot_mqtt import native

ABSENT: Final = 0xFFFF_FFFF

_HEAD: Final = Struct("<8sQII")


class Record(NamedTuple):
    """A whole record: where it begins and ends in its segment, and what it holds."""

    start: int
    end: int
    lsn: int
    body: memoryview


def encode(salt: bytes, lsn: int, changes: dict[bytes, bytes | None], prefixes: Sequence[bytes]) -> bytes:
    """A batch: it removes what is under the prefixes, then makes the changes; None removes a key."""
    return native.record(salt, lsn, changes, prefixes)


def decode(body: memoryview) -> tuple[dict[bytes, bytes | None], list[bytes]]:
    """The changes and the prefixes of a batch."""
    removed, changed = unpack_from("<II", body)
    lengths = unpack_from(f"<{removed + 2 * changed}I", body, 8)
    rest = BytesIO(body[8 + 4 * len(lengths) :])
    parts = [None if length == ABSENT else rest.read(length) for length in lengths]
    names = cast(list[bytes], parts[: removed + changed])
    return dict(zip(names[removed:], parts[removed + changed :], strict=True)), names[:removed]


def records(data: bytes, salt: bytes) -> Iterator[Record]:
    """Every whole record of a segment in its order, also those behind a spot that is damaged."""
    offset = 0
    while offset >= 0:
        record = _record_at(data, salt, offset)
        if record is not None:
            yield record
        offset = record.end if record is not None else data.find(salt, offset + 1)


def told_end(data: bytes) -> int | None:
    """Where a record ends by what its head says, be it whole or not; None where not all of the head is there."""
    if len(data) < _HEAD.size:
        return None
    _, _, length, crc = _HEAD.unpack_from(data)
    return _HEAD.size + length if crc else None


def _record_at(data: bytes, salt: bytes, offset: int) -> Record | None:
    start = offset + _HEAD.size
    if start > len(data):
        return None
    found, lsn, length, crc = _HEAD.unpack_from(data, offset)
    body = memoryview(data)[start : start + length]
    if found != salt or len(body) != length or crc32(body, crc32(pack("<QI", lsn, length))) != crc:
        return None
    return Record(offset, start + length, lsn, body)
