"""What an archive says, in order: a header, the entries of each cache by key, files of the node, and the sums.

::

    record:  tag (1) │ length of the name (4) │ length of the value (4) │ name │ value
    0x00 header    value: JSON
    0x01 … 0xDF    an entry; the tag is that of its cache (``grid.tags``)
    0xF0 file      name: a path below the data directory, with slashes
    0xFF sums      value: JSON, per cache how many entries, how many bytes, and the sum of the SHA-256 of its records

Readers take each entry into the same sums, and refuse an archive whose sums differ, or that goes on behind them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from struct import Struct
from typing import BinaryIO, Final

from iot_mqtt.grid.archive.sealing import BadArchive, PieceWriter, Secret, read_pieces
from iot_mqtt.grid.tags import TAGS
from iot_mqtt.ports.grid import CacheName

FORMAT: Final = 1
HEADER: Final = 0x00
FILE: Final = 0xF0
SUMS: Final = 0xFF
#: A value of the grid is at most a frame of the gateway long; a file, as long as a plugin's wheel may be.
MOST: Final = 1 << 28

_MODULUS: Final = 1 << 256
_HEAD: Final = Struct(">BII")
_CACHES: Final = {tag[0]: cache for cache, tag in TAGS.items()}
_FILES: Final = "files"

#: (cache, key, value), or (None, path, content) for a file.
Entry = tuple[CacheName | None, bytes, bytes]


@dataclass(frozen=True, slots=True)
class Header:
    """Where an archive comes from."""

    #: ``embedded`` or ``ignite``: it goes back into a grid of its own kind.
    grid: str
    #: Of the iot-mqtt that made it.
    version: str
    #: Seconds since 1970.
    made_at: float
    node: str = ""
    format: int = FORMAT


@dataclass(slots=True)
class Counted:
    """The sum over the entries of a cache, whatever their order: SHA-256 of each, added up."""

    entries: int = 0
    size: int = 0
    _sum: int = 0

    def add(self, record: bytes) -> None:
        self.entries += 1
        self.size += len(record) - _HEAD.size
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(record).digest())) % _MODULUS

    def told(self) -> dict[str, object]:
        return {"entries": self.entries, "bytes": self.size, "sum": f"{self._sum:064x}"}


class Sums:
    """By cache; ``files`` are the files."""

    def __init__(self) -> None:
        self.of: dict[str, Counted] = {}

    def add_entry(self, cache: CacheName, key: bytes, value: bytes) -> None:
        self.add(cache, _record(TAGS[cache][0], key, value))

    def add(self, cache: CacheName | None, record: bytes) -> None:
        name = _FILES if cache is None else cache.value
        counted = self.of.get(name)
        if counted is None:
            counted = self.of[name] = Counted()
        counted.add(record)

    def told(self) -> dict[str, dict[str, object]]:
        return {name: counted.told() for name, counted in self.of.items()}


class ArchiveWriter:
    """Entries in the order of caches and keys, then ``close``."""

    def __init__(self, file: BinaryIO, header: Header, secret: Secret | None = None) -> None:
        self._pieces = PieceWriter(file, secret)
        self._sums = Sums()
        self._pieces.write(_record(HEADER, b"", json.dumps(asdict(header)).encode()))

    def add(self, cache: CacheName, key: bytes, value: bytes) -> None:
        self._add(cache, TAGS[cache][0], key, value)

    def add_file(self, path: str, content: bytes) -> None:
        self._add(None, FILE, path.encode(), content)

    def close(self) -> dict[str, dict[str, object]]:
        """The sums, which are written now."""
        told = self._sums.told()
        self._pieces.write(_record(SUMS, b"", json.dumps(told).encode()))
        self._pieces.close()
        return told

    def _add(self, cache: CacheName | None, tag: int, name: bytes, value: bytes) -> None:
        record = _record(tag, name, value)
        self._sums.add(cache, record)
        self._pieces.write(record)


class ArchiveReader:
    """``header``, then all entries by iteration; the last step checks the sums. Raises ``BadArchive``."""

    def __init__(self, file: BinaryIO, secret: Secret | None = None) -> None:
        self._records = _records(read_pieces(file, secret))
        #: Over what was read so far.
        self.sums = Sums()
        self.header = self._read_header()

    def __iter__(self) -> Iterator[Entry]:
        for tag, name, value in self._records:
            if tag == SUMS:
                if _object(value) != self.sums.told():
                    raise BadArchive("the sums at the end of the backup differ from what is in it")
                if next(self._records, None) is not None:
                    raise BadArchive("there is something behind the sums of the backup")
                return
            cache = None if tag == FILE else _CACHES.get(tag)
            if cache is None and tag != FILE:
                raise BadArchive(f"the backup has a cache that this version does not know (tag {tag:#04x})")
            if cache is None:
                _check_path(name)
            self.sums.add(cache, _record(tag, name, value))
            yield cache, name, value
        raise BadArchive("the backup ends without its sums")

    def _read_header(self) -> Header:
        tag, _, value = next(self._records, (SUMS, b"", b""))
        found = _object(value) if tag == HEADER else {}
        form = found.get("format")
        if not isinstance(form, int):
            raise BadArchive("the backup has no header")
        if form > FORMAT:
            raise BadArchive(f"a later iot-mqtt has made this backup (format {form}; this one reads {FORMAT})")
        grid, version, made_at, node = (found.get(name) for name in ("grid", "version", "made_at", "node"))
        if not isinstance(grid, str) or not isinstance(version, str) or not isinstance(made_at, int | float):
            raise BadArchive("the header of the backup is wrong")
        return Header(grid, version, float(made_at), str(node or ""), form)


def _record(tag: int, name: bytes, value: bytes) -> bytes:
    if len(name) + len(value) > MOST:
        raise ValueError(f"{len(name) + len(value)} bytes are too many for one entry of a backup")
    return _HEAD.pack(tag, len(name), len(value)) + name + value


def _records(pieces: Iterator[bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        at = 0
        while len(waiting) - at >= _HEAD.size:
            tag, name, value = _HEAD.unpack_from(waiting, at)
            if name + value > MOST:
                raise BadArchive("an entry of the backup is longer than any can be")
            begin = at + _HEAD.size
            end = begin + name + value
            if len(waiting) < end:
                break
            yield tag, bytes(waiting[begin : begin + name]), bytes(waiting[begin + name : end])
            at = end
        del waiting[:at]
    if waiting:
        raise BadArchive("the last entry of the backup is cut short")


def _object(value: bytes) -> dict[str, object]:
    try:
        found = json.loads(value)
    except ValueError as error:
        raise BadArchive("the backup has something else in the place of JSON") from error
    if not isinstance(found, dict):
        raise BadArchive("the backup has something else in the place of an object")
    return found


def _check_path(name: bytes) -> None:
    """It is to be written below a directory, and nowhere else."""
    try:
        path = PurePosixPath(name.decode())
    except UnicodeDecodeError as error:
        raise BadArchive("a file of the backup has a name that is not UTF-8") from error
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in str(path):
        raise BadArchive(f"a file of the backup has the name {str(path)!r}, which leads elsewhere")
