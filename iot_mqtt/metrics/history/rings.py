"""Samples in a file that never grows: rings of slots, each slot's place given by its time.

::

    header   magic, version, number of series, their names        one block of 4096 bytes
    ring     10 s × 360    60 s × 1440    600 s × 1008            one after the other
    slot     begin of its time (i64) | values (f64 each) | CRC-32 of these

Nothing says where a ring begins: slot ``(time // step) % slots`` holds this time, or that of a round before and is
empty. So a kill at any moment costs no more than the slot that was being written. Longer steps are made of the shorter
ones, again with each sample.
"""

from __future__ import annotations

import json
import logging
import math
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from iot_mqtt.metrics.history.series import Series

log = logging.getLogger(__name__)

MAGIC = b"iot-mqtt history\x00\x01"
HEADER = 4096
_CRC = struct.Struct("<I")
Values = tuple[float, ...]


class Ring(NamedTuple):
    """Seconds of one slot, and how many there are."""

    step: int
    slots: int

    @property
    def span(self) -> int:
        """Seconds of all of them."""
        return self.step * self.slots


#: An hour, a day, a week; the finest first. Each step is a multiple of the one before.
RINGS = (Ring(10, 360), Ring(60, 1440), Ring(600, 1008))


class RingFile:
    """One node's. Raises ``OSError`` where the file cannot be used."""

    def __init__(self, path: Path, series: Sequence[Series], rings: Sequence[Ring] = RINGS) -> None:
        self._path = path
        self._series = tuple(series)
        self.rings = tuple(rings)
        self._slot = struct.Struct(f"<q{len(self._series)}d")
        self._size = self._slot.size + _CRC.size
        self._file: int | None = None

    def open(self) -> None:
        """Go on with what is there; anything else than a history of these series is begun anew."""
        if self._file is not None:
            return
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.pread(file, HEADER, 0) != self._header():
                self._begin(file)
        except OSError:
            os.close(file)
            raise
        self._file = file

    def _header(self) -> bytes:
        names = json.dumps([self.rings, [one.name for one in self._series]]).encode()
        return (MAGIC + names).ljust(HEADER, b"\0")

    def _begin(self, file: int) -> None:
        if os.fstat(file).st_size:
            log.warning("%s holds other series or is damaged: the history begins anew", self._path)
        os.ftruncate(file, 0)
        os.ftruncate(file, HEADER + self._size * sum(ring.slots for ring in self.rings))
        os.pwrite(file, self._header(), 0)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def add(self, at: float, values: Sequence[float]) -> None:
        """The sample of the finest step that ``at`` lies in. Steps that end with it are made of their parts."""
        self.open()
        finest = self.rings[0]
        begin = int(at // finest.step) * finest.step
        self._write(0, begin, values)
        for number, ring in enumerate(self.rings[1:], 1):
            over = begin // ring.step * ring.step
            self._write(number, over, self._made_of(number - 1, over, over + ring.step))

    def _made_of(self, number: int, begin: int, end: int) -> Values:
        rows = list(self._rows(number, begin, end).values())
        return self._together(rows)

    def _together(self, rows: Sequence[Values]) -> Values:
        columns = zip(zip(*rows, strict=True), self._series, strict=True)
        return tuple(max(one) if series.over_time == "max" else math.fsum(one) / len(one) for one, series in columns)

    # Slots.

    def _offset(self, number: int, begin: int) -> int:
        before = sum(ring.slots for ring in self.rings[:number])
        ring = self.rings[number]
        return HEADER + self._size * (before + begin // ring.step % ring.slots)

    def _write(self, number: int, begin: int, values: Sequence[float]) -> None:
        assert self._file is not None
        packed = self._slot.pack(begin, *values)
        os.pwrite(self._file, packed + _CRC.pack(crc32(packed)), self._offset(number, begin))

    def _rows(self, number: int, begin: int, end: int) -> Mapping[int, Values]:
        """By the begin of their time, in order; what is missing or damaged is left out."""
        assert self._file is not None
        ring = self.rings[number]
        first = begin // ring.step * ring.step
        wanted = -(-(end - first) // ring.step)
        if wanted > ring.slots:
            first, wanted = first + (wanted - ring.slots) * ring.step, ring.slots
        found: dict[int, Values] = {}
        while wanted > 0:
            # Up to the end of the ring in one read, then from its beginning.
            many = min(wanted, ring.slots - first // ring.step % ring.slots)
            data = os.pread(self._file, many * self._size, self._offset(number, first))
            for place in range(len(data) // self._size):
                at = first + place * ring.step
                packed = data[place * self._size : (place + 1) * self._size]
                body = packed[: self._slot.size]
                time, *values = self._slot.unpack(body)
                if time == at and _CRC.unpack(packed[self._slot.size :])[0] == crc32(body):
                    found[at] = tuple(values)
            first, wanted = first + many * ring.step, wanted - many
        return found

    # Reading.

    def fitting(self, begin: float, now: float) -> Ring:
        """The finest one that reaches back so far; else the longest. Time passes between a question and its answer: a
        step more is no reason for a coarser one, though its first value may be gone.
        """
        return next((ring for ring in self.rings if begin >= now - ring.span - ring.step), self.rings[-1])

    def read(self, ring: Ring, begin: int, end: int, step: int) -> dict[int, Values]:
        """Rows of ``step`` seconds, a multiple of the ring's, from ``begin`` (a multiple of it) up to ``end``."""
        self.open()
        grouped: dict[int, list[Values]] = {}
        for at, values in self._rows(self.rings.index(ring), begin, end).items():
            grouped.setdefault(at // step * step, []).append(values)
        return {at: self._together(rows) for at, rows in grouped.items()}
