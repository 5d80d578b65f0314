"""What the log keeps beside its pages, generations and streams; versioned as all records are (``grid.records.base``).

turn         version (1) │ turn (8) │ wall clock (8, float) │ count (4)
             │ per page: generation (4) │ stream (4) │ messages (4) │ bytes (4)
             │ since 1.1: shards that the turn wrote to (2)
index        version (1) │ the last byte of each turn in which the stream has a page
directory    version (1) │ count (4) │ per stream: stream (4) │ turns (2) │ their last bytes
begun        version (1) │ first turn of the last start (8) │ since 1.1: shards that were ever written to (2)
times        version (1) │ wall clock at the first turn of each sixteenth of the block (8 each; 0: no turn)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct, iter_unpack
from typing import Final, NamedTuple

from iot_mqtt.grid.records.base import VERSION, StructError, Unreadable, check_version

_U16 = Struct(">H")
_TURN = Struct(">BQdI")
_TURN_PAGE = Struct(">IIII")
_BEGUN = Struct(">BQ")
_DIRECTORY = Struct(">BI")
_DIRECTORY_STREAM = Struct(">IH")
#: Parts of a block whose beginning in time is kept.
TIMES: Final = 16
_TIMES = Struct(f">B{TIMES}d")

#: States of a generation.
OPEN: Final = 0
CLOSED: Final = 1
#: Its entries are being removed; nobody reads them any more.
DROPPING: Final = 2

_VERSION_BYTE = bytes((VERSION,))
#: The minor of the records that say how many shards there are.
_WITH_SHARDS: Final = VERSION | 1


class WrittenPage(NamedTuple):
    """One page of a turn's summary."""

    generation: int
    stream: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What one turn wrote to one shard. ``shards``: so many have a record of this turn; 0: that was not noted."""

    turn: int
    wall: float
    pages: tuple[WrittenPage, ...]
    shards: int = 0


class Begun(NamedTuple):
    """Where a start began. ``shards``: all shards are below it, of this start and of those before; 0: not noted."""

    turn: int
    shards: int = 0


def encode_turn(turn: int, wall: float, pages: bytes | bytearray, shards: int) -> bytes:
    """``pages``: the fields of each ``WrittenPage``, as the record has them."""
    head = _TURN.pack(_WITH_SHARDS, turn, wall, len(pages) // _TURN_PAGE.size)
    return b"".join((head, pages, _U16.pack(shards)))


def decode_turn(record: bytes) -> TurnRecord:
    check_version(record)
    try:
        _, turn, wall, count = _TURN.unpack_from(record)
    except StructError as cut:
        raise Unreadable("a turn cut short") from cut
    end = _TURN.size + count * _TURN_PAGE.size
    if len(record) < end:
        raise Unreadable("a turn cut short")
    pages = tuple(WrittenPage(*page) for page in iter_unpack(_TURN_PAGE.format, record[_TURN.size : end]))
    return TurnRecord(turn, wall, pages, _shards(record, end))


def encode_index(turns: bytes) -> bytes:
    return _VERSION_BYTE + turns


def decode_index(record: bytes) -> bytes:
    check_version(record)
    return record[1:]


def encode_directory(entries: Sequence[tuple[int, bytes]]) -> bytes:
    pack = _DIRECTORY_STREAM.pack
    parts = [_DIRECTORY.pack(VERSION, len(entries))]
    for stream, turns in entries:
        parts += (pack(stream, len(turns)), turns)
    return b"".join(parts)


def decode_directory(record: bytes) -> dict[int, bytes]:
    check_version(record)
    found = {}
    try:
        _, count = _DIRECTORY.unpack_from(record)
        offset = _DIRECTORY.size
        for _ in range(count):
            stream, turns = _DIRECTORY_STREAM.unpack_from(record, offset)
            offset += _DIRECTORY_STREAM.size
            found[stream] = record[offset : offset + turns]
            offset += turns
    except StructError as cut:
        raise Unreadable("a directory cut short") from cut
    if offset > len(record):
        raise Unreadable("a directory cut short")
    return found


def encode_begun(begun: Begun) -> bytes:
    return _BEGUN.pack(_WITH_SHARDS, begun.turn) + _U16.pack(begun.shards)


def decode_begun(record: bytes) -> Begun:
    check_version(record)
    try:
        turn = _BEGUN.unpack_from(record)[1]
    except StructError as cut:
        raise Unreadable("a beginning cut short") from cut
    return Begun(turn, _shards(record, _BEGUN.size))


def _shards(record: bytes, offset: int) -> int:
    """What minor 1 added; 0 if a predecessor wrote the record."""
    if record[0] < _WITH_SHARDS:
        return 0
    try:
        return int(_U16.unpack_from(record, offset)[0])
    except StructError as cut:
        raise Unreadable("a record cut short") from cut


def encode_times(times: Iterable[float]) -> bytes:
    return _TIMES.pack(VERSION, *times)


def decode_times(record: bytes) -> tuple[float, ...]:
    check_version(record)
    try:
        return _TIMES.unpack_from(record)[1:]
    except StructError as cut:
        raise Unreadable("times cut short") from cut
