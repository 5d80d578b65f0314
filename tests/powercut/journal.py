"""The journal that ``recorder.c`` writes: what a process did to its files, one record after the other."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

_HEADER: Final = Struct("=IiiiqqQII")


class Kind(IntEnum):
    """As ``enum kind`` of the recorder."""

    BEGIN = 0
    OPEN = 1
    CLOSE = 2
    WRITE = 3
    ZEROS = 4
    TRUNCATE = 5
    SYNC_BEGINS = 6
    SYNC_ENDS = 7
    RENAME = 8
    UNLINK = 9
    LINK = 10
    MKDIR = 11
    RMDIR = 12


class Step(NamedTuple):
    """One record. ``file`` and ``other`` are descriptors, or the number of a sync; ``first`` and ``second`` are paths
    below the root, or the bytes of a write; ``offset`` holds the flags of an open.
    """

    kind: Kind
    pid: int
    file: int
    other: int
    offset: int
    length: int
    nanoseconds: int
    first: bytes
    second: bytes


def build_recorder(folder: Path) -> Path:
    """Compile the recorder; needs ``gcc``."""
    library = folder / "recorder.so"
    source = Path(__file__).with_name("recorder.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


def read_journals(folder: Path) -> Iterator[Step]:
    """All records, in the order of what happened. The last one of a process that was killed may be torn."""
    for path in sorted(folder.iterdir()):
        yield from _read(path.read_bytes())


def _read(data: bytes) -> Iterator[Step]:
    at = 0
    while at + _HEADER.size <= len(data):
        kind, pid, file, other, offset, length, nanoseconds, first, second = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        middle, end = at + first, at + first + second
        if end > len(data):
            return
        yield Step(Kind(kind), pid, file, other, offset, length, nanoseconds, data[at:middle], data[middle:end])
        at = end
