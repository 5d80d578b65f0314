"""A chain of records in files: each record names the hash of the one before, and the oldest files go.

::

    0000000001.jsonl     {"seq": 1, "time": …, "who": …, …, "previous": "", "hash": "9f…"}

A file is begun when the one before has its size; the oldest go when the chain has its size, and it then begins with
what the first that is left calls the previous one. Files are named by a number that no record in them is below.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from iot_mqtt.admin.audit_beginnings import Beginnings
from iot_mqtt.whole_files import sync_directory

#: Bytes after which a file is full, and the least files that a chain has before its oldest goes.
FILE_BYTES = 4 * 1024 * 1024
FILES = 16
#: What the first record calls the previous one where those are gone that were before, and nobody knows their hash.
LOST: Final = "lost"

Record = dict[str, Any]


class Chain:
    """One folder's, as it is written. ``OSError`` and ``ValueError`` if it cannot be."""

    def __init__(self, folder: Path, size: int, name: str, beginnings: Beginnings) -> None:
        """``size``: bytes of all of its files. ``name``: of the chain, among the ``beginnings``."""
        self._folder = folder
        self._name = name
        self._beginnings = beginnings
        self._size = size
        self._file_bytes = min(FILE_BYTES, size // FILES)
        #: Of the last record.
        self.seq, self.head = 0, ""
        self._open()

    def append(self, record: Record) -> None:
        """Write one with number and hash; it is on the disk then."""
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        with _opened(self._file_for(record["seq"], len(line))) as descriptor:
            size = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
                if not size:
                    sync_directory(self._folder)  # the name of the file is to survive a power cut, too
            except Exception:
                os.ftruncate(descriptor, size)  # half a record would be one that nobody can read
                raise
        self.seq, self.head = record["seq"], record["hash"]
        self._note_first(record)

    def probe(self, seq: int) -> None:
        """Whether a record with this number could be written now."""
        with _opened(self._file_for(seq, 0)) as descriptor:
            os.fsync(descriptor)

    def _open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_directory(self._folder.parent)
        files = paths(self._folder)
        if files:
            whole = files[-1].read_bytes()
            # A record that a power cut has torn was acknowledged to nobody.
            if (end := whole.rfind(b"\n") + 1) < len(whole):
                os.truncate(files[-1], end)
        for record in islice(backwards(self._folder), 1):
            self.seq, self.head = record["seq"], str(record["hash"])
        oldest = first(files)
        if oldest is not None:
            self._note_first(oldest)
        elif self._beginnings.of(self._name) is not None:
            self.head = LOST

    def _note_first(self, record: Record) -> None:
        """Of a chain that is new, or that a release before has written: what there is now is all that there was."""
        if self._beginnings.of(self._name) is None:
            self._beginnings.keep(self._name, record["previous"])

    def _file_for(self, seq: int, size: int) -> Path:
        files = paths(self._folder)
        sizes = [path.stat().st_size for path in files]
        if files and sizes[-1] + size <= self._file_bytes:
            return files[-1]
        total = sum(sizes) + self._file_bytes
        going = 0
        while going < len(files) and total > self._size:
            total -= sizes[going]
            going += 1
        if going:
            self._remove(files[:going], first(files[going:]))
        return self._folder / f"{seq:010d}.jsonl"

    def _remove(self, files: Iterable[Path], then: Record | None) -> None:
        """``then`` is the first record, which is noted before: what is missing behind it was not removed here."""
        self._beginnings.keep(self._name, self.head if then is None else then["previous"])
        for path in files:
            path.unlink()


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def paths(folder: Path) -> list[Path]:
    """The files, oldest first."""
    return sorted(folder.glob("[0-9]*.jsonl"))


def read(folder: Path) -> Iterator[Record]:
    """All records, oldest first; ``ValueError`` for a line that is none."""
    for path in paths(folder):
        yield from _records(path, path.read_bytes().splitlines())


def first(files: Iterable[Path]) -> Record | None:
    """The first record, if there is one."""
    for path in files:
        with path.open("rb") as file:
            for record in _records(path, islice(file, 1)):
                return record
    return None


def backwards(folder: Path, before: int | None = None) -> Iterator[Record]:
    """The last record first; those with numbers below ``before``. Files that are not come to are not read."""
    for path in reversed(paths(folder)):
        if before is not None and path.stem.isdecimal() and int(path.stem) >= before:
            continue
        for record in _records(path, reversed(path.read_bytes().splitlines())):
            if before is None or record["seq"] < before:
                yield record


def _records(path: Path, lines: Iterable[bytes]) -> Iterator[Record]:
    for line in lines:
        try:
            record = json.loads(line)
        except (RecursionError, ValueError):
            record = None
        if not isinstance(record, dict) or not {"hash", "previous"} <= set(record) or not _is_number(record.get("seq")):
            raise ValueError(
                f"{path} has a line that is no record ({line[:40]!r}): move the file away to start without it; "
                "iot-mqtt ctl audit verify then tells what is gone"
            )
        yield record


def _is_number(seq: object) -> bool:
    """Records are compared by it."""
    return isinstance(seq, int)


def hash_of(record: Mapping[str, Any]) -> str:
    """Of all of a record but its hash."""
    rest = {name: value for name, value in record.items() if name != "hash"}
    return hashlib.sha256(json.dumps(rest, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
