"""The rules every record keeps, so that the next version reads what this one wrote.

    byte 0       version: major in the high four bits, minor in the low four
    the rest     the fields of that major version, then fields that later minors added

A reader refuses a newer major (``Unreadable``) and accepts any minor: fields it does not know stand behind
those it knows, or carry a tag it skips. A field is never taken away, changed or given another tag.
Integers are big-endian. Layouts are frozen: see the golden samples in ``tests/unit/grid``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct, error

__all__ = ["VERSION", "StructError", "Unreadable", "check_version", "read_fields", "write_fields"]

#: Major 1, minor 0: what this version writes in front of every record.
VERSION = 0x10

StructError = error
_FIELD = Struct(">BI")


class Unreadable(Exception):
    """A record that this version cannot read: written by a newer major, cut short, or no record at all."""


def check_version(record: bytes) -> None:
    """Refuse an empty record and another major version."""
    if not record:
        raise Unreadable("an empty record")
    if record[0] >> 4 != VERSION >> 4:
        raise Unreadable(f"a record of format {record[0] >> 4}.{record[0] & 15}; this version reads 1.x")


def write_fields(fields: Iterable[tuple[int, bytes | None]]) -> bytes:
    """A tagged record: version, then tag (1), length (4), value per field. None is left out."""
    parts = [bytes((VERSION,))]
    for tag, value in fields:
        if value is not None:
            parts += (_FIELD.pack(tag, len(value)), value)
    return b"".join(parts)


def read_fields(record: bytes) -> dict[int, bytes]:
    """Tag to value, unknown tags included."""
    check_version(record)
    return dict(_fields(record))


def _fields(record: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 1
    while offset < len(record):
        try:
            tag, length = _FIELD.unpack_from(record, offset)
        except StructError as cut:
            raise Unreadable("a record cut short") from cut
        offset += _FIELD.size
        if offset + length > len(record):
            raise Unreadable("a record cut short")
        yield tag, record[offset : offset + length]
        offset += length
