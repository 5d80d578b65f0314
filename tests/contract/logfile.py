"""How far RocksDB has written a log that is longer than that."""

from __future__ import annotations

from struct import unpack_from

from iot_mqtt.grid.wal import BLOCK

HEADER = 7


def used(log: bytes) -> int:
    """Where its last fragment ends; zeros behind it are room. A log that is whole up to there."""
    offset = end = 0
    while offset + HEADER <= len(log):
        room = BLOCK - offset % BLOCK
        if room < HEADER:
            offset += room
            continue
        length, kind = unpack_from("<HB", log, offset + 4)
        if not kind:
            break
        offset = end = offset + HEADER + length
    return end
