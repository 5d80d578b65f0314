"""How far RocksDB has written a log that is longer than that."""

from __future__ import annotations

from struct import unpack_from

from iot_mqtt.grid.wal import BLOCK

HEADER = 7


def headers(log: bytes | bytearray) -> list[int]:
    """Where each fragment begins, in a log that is whole."""
    found: list[int] = []
    offset = 0
    while offset + HEADER <= len(log):
        room = BLOCK - offset % BLOCK
        if room < HEADER:
            offset += room
            continue
        length, kind = unpack_from("<HB", log, offset + 4)
        if not kind:
            break
        found.append(offset)
        offset += HEADER + length
    return found


def used(log: bytes) -> int:
    """Where the last fragment ends; zeros behind it are room."""
    last = max(headers(log), default=None)
    return 0 if last is None else last + HEADER + int(unpack_from("<H", log, last + 4)[0])
