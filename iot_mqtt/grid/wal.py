"""Tell a torn end of the write-ahead log from damage inside it, which RocksDB alone does not.

RocksDB reads the log until something does not fit. A flipped length in the last 32 KiB, or a zeroed header,
looks to it like a writer that died there, so it would start without the acknowledged batches behind the
spot and say nothing. This grid writes a batch only after the one before it was synced; so a crash can
spoil the last batch and nothing else, and *a batch that begins behind a damaged spot* proves that the
spot was once whole.

    file    = blocks of 32768 bytes; a fragment never crosses a block; fewer than 7 bytes left: padding
    fragment= crc32c, masked (4) │ length (2) │ type (1) │ data
    type    = 1 full, 2 first, 3 middle, 4 last; others carry no batch
    batch   = first sequence number (8) │ count (4) │ operations, over one full or first..last fragments

All integers are little-endian. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

BLOCK = 32768
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
#: Whether a batch is whole with this fragment; others say nothing about it.
_ENDS = {FULL: True, FIRST: False, MIDDLE: False, LAST: True}
#: Their twins in a log file that is used again, which ours never are. RocksDB reads one at the end of a log for ever.
RECYCLED = frozenset(range(5, 9))
#: Everything RocksDB writes today: the four, and marks about the file itself.
KNOWN = frozenset(range(1, 12)) - RECYCLED | {130, 131}

_FRAGMENT = Struct("<IHB")
_BATCH = Struct("<QI")
#: How far ahead of the last batch a sequence number can be and still be believed.
_NEAR = 1 << 32


@dataclass(frozen=True, slots=True)
class Survey:
    """What a walk along all logs found.

    Every operation up to number ``safe`` was acknowledged: a batch begins behind it. ``hidden`` names the file
    and offset of a damaged spot with such a batch behind it; RocksDB may not notice, and stop there. ``endless`` is the
    file and offset of a spot that RocksDB must not get to see: it would never come back.
    """

    safe: int = 0
    hidden: str | None = None
    endless: tuple[str, int] | None = None


def survey(directory: Path) -> Survey:
    """Walk every log in the order it was written, reading headers only."""
    walk = _Walk()
    broken: str | None = None
    endless: tuple[str, int] | None = None
    newest = ""
    for name, data in _logs(directory):
        batches = walk.batches
        spot = walk.along(data)
        if walk.batches != batches:
            newest = name
        if spot is not None:
            if endless is None and data[spot + 6 : spot + 7] and data[spot + 6] in RECYCLED:
                endless = name, spot
            if broken is None:
                broken, batches = f"{name} at byte {spot}", walk.batches
            walk.behind(data, spot)
        if broken is not None and walk.batches != batches:
            return Survey(walk.safe, broken, endless)
    doubtful = walk.doubtful()
    if doubtful is None:
        return Survey(walk.safe, endless=endless)
    # Torn, or its length is damaged and others are within it.
    if walk.is_hiding(*doubtful):
        return Survey(walk.safe, f"{newest} at byte {doubtful[1]}", endless)
    return Survey(walk.before, endless=endless)


def _logs(directory: Path) -> Iterator[tuple[str, bytes]]:
    paths = [path for path in directory.glob("*.log") if path.stem.isdigit()]
    for path in sorted(paths, key=lambda path: int(path.stem)):
        # A running owner may have just removed it; that the directory is held is noticed at the open.
        with suppress(FileNotFoundError):
            yield path.name, path.read_bytes()


class _Walk:
    """Where a walk stands: how many batches it has met, and the newest of them."""

    def __init__(self) -> None:
        self.batches = 0
        self.safe = 0
        self._end = 0
        self._whole = True
        # The newest batch as it stands in the logs, and what was safe without it.
        self._newest: list[tuple[bytes, int, int]] = []
        self.before = 0

    def along(self, data: bytes, offset: int = 0) -> int | None:
        """Go on from a fragment; returns where that is impossible, or None at the end."""
        size = len(data)
        while offset + _FRAGMENT.size <= size:
            room = BLOCK - offset % BLOCK
            if room < _FRAGMENT.size:
                offset += room
                continue
            _, length, kind = _FRAGMENT.unpack_from(data, offset)
            body = offset + _FRAGMENT.size
            if kind not in KNOWN or length > room - _FRAGMENT.size:
                return None if _is_zeros(data, offset) else self._stop(offset)
            if body + length > size:
                return self._stop(offset)
            if kind in (FULL, FIRST) and length >= _BATCH.size:
                sequence, count = _BATCH.unpack_from(data, body)
                if not self._follows(sequence):
                    return self._stop(offset)
                self._begin(sequence, count)
                self._newest.clear()
            if kind in _ENDS:
                self._newest.append((data, offset, body + length))
            self._whole = (self._whole and kind != FIRST) or kind in (FULL, LAST)
            offset = body + length
        return None if _is_zeros(data, offset) else self._stop(offset)

    def behind(self, data: bytes, spot: int) -> None:
        """Look for a batch that begins behind a damaged spot."""
        batches = self.batches
        stopped: int | None = spot
        while stopped is not None:
            block = (stopped // BLOCK + 1) * BLOCK
            for offset in range(stopped + 1, min(block, len(data)) - _FRAGMENT.size - _BATCH.size + 1):
                if self._begins_at(data, offset):
                    self._begin(*_BATCH.unpack_from(data, offset + _FRAGMENT.size))
                    return
            # Every block begins with a fragment, so the walk can take up there, unless that is damaged, too.
            stopped = self.along(data, block) if block < len(data) else None
            if self.batches != batches:
                return

    def doubtful(self) -> tuple[bytes, int] | None:
        """Where the newest batch is not what was written, if so: its numbers say nothing then. That it stands there
        still says that the one before it was acknowledged: everything up to ``before``.
        """
        for data, start, end in self._newest:
            if _FRAGMENT.unpack_from(data, start)[0] != masked_crc(data[start + 6 : end]):
                return data, start
        return None

    def is_hiding(self, data: bytes, spot: int) -> bool:
        """Whether a batch begins behind the spot, after those up to ``before``."""
        self._end, batches = self.before, self.batches
        self.behind(data, spot)
        return self.batches != batches

    def _follows(self, sequence: int) -> bool:
        return self._end < sequence and (not self.batches or sequence < self._end + _NEAR)

    def _begin(self, sequence: int, count: int) -> None:
        self.batches += 1
        self.before = max(self.safe, self._end)
        self.safe = max(self.safe, sequence - 1)
        self._end = sequence + count - 1

    def _stop(self, offset: int) -> int:
        # The torn bytes are the rest of the newest batch, or another one behind it.
        if self._whole:
            self.safe = max(self.safe, self._end)
        return offset

    def _begins_at(self, data: bytes, offset: int) -> bool:
        crc, length, kind = _FRAGMENT.unpack_from(data, offset)
        body = offset + _FRAGMENT.size
        if kind not in (FULL, FIRST) or length < _BATCH.size or body + length > len(data):
            return False
        if length > BLOCK - offset % BLOCK - _FRAGMENT.size or not self._follows(_BATCH.unpack_from(data, body)[0]):
            return False
        return bool(crc == masked_crc(data[offset + 6 : body + length]))


def _is_zeros(data: bytes, offset: int) -> bool:
    """Whether nothing else follows; half a MiB may (``ahead``)."""
    return not data[offset:].strip(b"\0")


def masked_crc(data: bytes) -> int:
    """RocksDB's checksum of a fragment: crc32c of type and data, rotated and shifted."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFF_FFFF
    return ((crc >> 15 | crc << 17) + 0xA282_EAD8) & 0xFFFF_FFFF


def _table() -> list[int]:
    table = []
    for index in range(256):
        for _ in range(8):
            index = index >> 1 ^ (0x82F6_3B78 if index & 1 else 0)
        table.append(index)
    return table


_TABLE = _table()
