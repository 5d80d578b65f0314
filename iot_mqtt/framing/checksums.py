"""Checksums that frames end with: the fast ones are the standard library's, the others look up tables.

::

    kind            bytes   what it is                                        of b"123456789"
    sum8            1       sum of all bytes                                  dd
    xor8            1       all bytes, exclusive or                           31
    crc8            1       polynomial 07, begins with 00                     f4
    crc16-modbus    2       polynomial 8005 reflected, begins with ffff       4b37
    crc16-ccitt     2       polynomial 1021, begins with ffff                 29b1
    crc32           4       that of Ethernet, zip and zlib                    cbf43926
"""

from __future__ import annotations

import sys
import zlib
from array import array
from binascii import crc_hqx
from collections.abc import Callable
from functools import cache, reduce
from operator import xor
from typing import Final

from iot_mqtt.framing.declare import ChecksumKind

#: How many bytes each has.
SIZES: Final[dict[str, int]] = {
    "sum8": 1,
    "xor8": 1,
    "crc8": 1,
    "crc16-modbus": 2,
    "crc16-ccitt": 2,
    "crc32": 4,
}


def checksum_of(kind: ChecksumKind) -> Callable[[bytes], int]:
    """The function for a kind. Tables are made with its first sum and kept for the process."""
    if kind == "crc8":
        return lambda data: _crc8(data, _crc8_table())
    if kind == "crc16-modbus":
        return lambda data: _crc16_modbus(data, *_modbus_tables())
    return _READY[kind]


def _sum8(data: bytes) -> int:
    return sum(data) & 0xFF


def _xor8(data: bytes) -> int:
    return reduce(xor, data, 0)


def _crc8(data: bytes, table: tuple[int, ...]) -> int:
    crc = 0
    for byte in data:
        crc = table[crc ^ byte]
    return crc


def _crc16_modbus(data: bytes, bytewise: tuple[int, ...], pairwise: tuple[int, ...]) -> int:
    """Two bytes a step: together they shift out all of the 16 bits, so that one look-up is the next state."""
    crc = 0xFFFF
    even = len(data) & ~1
    pairs = array("H", data[:even])
    if sys.byteorder == "big":
        pairs.byteswap()
    for pair in pairs:
        crc = pairwise[crc ^ pair]
    if even != len(data):
        crc = crc >> 8 ^ bytewise[(crc ^ data[-1]) & 0xFF]
    return crc


def _crc16_ccitt(data: bytes) -> int:
    return crc_hqx(data, 0xFFFF)


def _crc32(data: bytes) -> int:
    return zlib.crc32(data)


_READY: Final[dict[str, Callable[[bytes], int]]] = {
    "sum8": _sum8,
    "xor8": _xor8,
    "crc16-ccitt": _crc16_ccitt,
    "crc32": _crc32,
}


@cache
def _crc8_table() -> tuple[int, ...]:
    return tuple(
        _shifted(byte, lambda crc: (crc << 1 ^ 0x07) & 0xFF if crc & 0x80 else crc << 1) for byte in range(256)
    )


@cache
def _modbus_tables() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What one byte does to a state, and what two do. The latter is 2 MiB, once, if anybody uses it at all."""
    bytewise = tuple(_shifted(byte, lambda crc: crc >> 1 ^ 0xA001 if crc & 1 else crc >> 1) for byte in range(256))
    once = (state >> 8 ^ bytewise[state & 0xFF] for state in range(65_536))
    return bytewise, tuple(state >> 8 ^ bytewise[state & 0xFF] for state in once)


def _shifted(crc: int, step: Callable[[int], int]) -> int:
    for _ in range(8):
        crc = step(crc)
    return crc
