"""What was changed, by whom: a log that is only appended to, in which each record names the hash of the one before.

::

    <data_dir>/audit/0000000001.jsonl     {"seq": 1, "time": …, "who": …, …, "previous": "", "hash": "9f…"}

A file is begun when the one before has its size; the oldest go when there are too many, and the log then begins with
what the first that is left calls the previous one. Whoever changes, inserts or takes out a record breaks the chain
behind it. Somebody who can write the files can write all of them anew: note the last hash elsewhere, and ``verify``
tells whether it is still in the chain.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable

log = logging.getLogger(__name__)

#: Bytes after which a file is full, and how many there are.
FILE_BYTES = 4 * 1024 * 1024
FILES = 16
#: Bytes that the file system must have left after it was full.
_ROOM = 1024 * 1024
#: Records that one search looks at: it goes on where it has ended.
LOOKED_AT = 20_000
#: The first status of an answer that is a refusal.
_REFUSED = 400

Record = dict[str, Any]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of looking at the whole chain."""

    whole: bool
    records: int
    first: int
    last: int
    #: Of the last record: note it, and ask for it another time.
    head: str
    #: What is wrong, and where, or "".
    fault: str
    #: Whether the hash is there that was asked for; None: none was.
    found: bool | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records; an empty text: any."""

    #: Of whom.
    who: str = ""
    #: A part of the path or of the body, whatever the case of its letters.
    contains: str = ""
    #: Only what was refused.
    refused: bool = False

    def fits(self, record: Record) -> bool:
        """Whether it is one of these."""
        text = self.contains.casefold()
        return (
            self.who in ("", record.get("who"))
            and (not self.refused or int(record.get("status", 0)) >= _REFUSED)
            and (not text or text in f"{record.get('path')}\n{record.get('body')}".casefold())
        )


ANYTHING: Final = Wanted()


@dataclass(frozen=True, slots=True)
class Latest:
    """Records that were found, the last first."""

    records: list[Record]
    #: The number down to which all records were looked at; None: all there are.
    down_to: int | None


class AuditLog:
    """The log of one node. Files are read and written on one thread, in order; ``cross`` comes back from it."""

    def __init__(
        self,
        folder: Path,
        executor: Executor,
        cross: Callable[[Callable[[], None]], object],
        *,
        file_bytes: int = FILE_BYTES,
        files: int = FILES,
    ) -> None:
        self._folder = folder
        self._executor = executor
        self._cross = cross
        self._file_bytes = file_bytes
        self._files = files
        #: The thread's.
        self._seq, self._head = 0, ""
        #: Why the last record could not be written, or None.
        self.trouble: str | None = None
        self._open()

    async def check(self) -> None:
        """Raise ``Unavailable`` where a change could not be written down: then it is not made."""
        if self.trouble is not None:
            await self._writing(self._probe)

    async def write(self, told: Mapping[str, Any]) -> None:
        """Append a record; returns when it is on the disk. Raises ``Unavailable``."""
        await self._writing(lambda: self._append(told))

    async def latest(self, before: int | None, limit: int, wanted: Wanted = ANYTHING) -> Latest:
        """Up to ``limit`` records that are wanted, the last first; those with numbers below ``before``."""
        return await self._aside(lambda: _latest(backwards(self._folder, before), limit, wanted))

    async def verify(self, expected: str | None = None) -> Verified:
        """Read all of it. ``expected``: a hash that was the last one once, perhaps of another node's log."""
        return await self._aside(lambda: verify(self._folder, expected))

    def _open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync(self._folder.parent)
        files = paths(self._folder)
        if files:
            whole = files[-1].read_bytes()
            # A record that a power cut has torn was acknowledged to nobody.
            if (end := whole.rfind(b"\n") + 1) < len(whole):
                os.truncate(files[-1], end)
        for record in islice(backwards(self._folder), 1):
            self._seq, self._head = int(record["seq"]), str(record["hash"])

    async def _writing(self, call: Callable[[], None]) -> None:
        try:
            await self._aside(call)
        except Exception as error:
            if self.trouble is None:
                unexpected = None if isinstance(error, OSError) else error
                log.error(
                    "nothing is changed by the API until the audit log can be written: %s", error, exc_info=unexpected
                )
            self.trouble = str(error) or type(error).__name__
            raise Unavailable(f"the audit log cannot be written: {error}") from error
        self.trouble = None

    async def _aside(self, call: Callable[[], Found]) -> Found:
        """Do something on the thread, after all that it has to do before: nobody reads what is half written."""
        done: Deferred[Found] = Deferred()

        def work() -> None:
            try:
                found = call()
            except Exception as error:  # noqa: BLE001 - whoever waits is told
                told = error
                self._cross(lambda: done.errback(told))
            else:
                self._cross(lambda: done.callback(found))

        self._executor.submit(work)
        return await done

    # On the thread.

    def _probe(self) -> None:
        if shutil.disk_usage(self._folder).free < _ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        descriptor = os.open(self._file_for(self._seq + 1, 0), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _append(self, told: Mapping[str, Any]) -> None:
        plain = {name: _writable(value) for name, value in told.items()}
        record = {"seq": self._seq + 1, **plain, "previous": self._head}
        record["hash"] = hash_of(record)
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        path = self._file_for(record["seq"], len(line))
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
                if not size:
                    _sync(self._folder)  # the name of the file is to survive a power cut, too
            except Exception:
                os.ftruncate(descriptor, size)  # half a record would be one that nobody can read
                raise
        finally:
            os.close(descriptor)
        self._seq, self._head = record["seq"], record["hash"]

    def _file_for(self, seq: int, size: int) -> Path:
        files = paths(self._folder)
        if files and files[-1].stat().st_size + size <= self._file_bytes:
            return files[-1]
        for old in files[: max(0, len(files) + 1 - self._files)]:
            old.unlink()
        return self._folder / f"{seq:010d}.jsonl"


def _writable(value: Any) -> Any:
    """A text without what UTF-8 cannot hold. It goes before the hash is made: two halves of a character that are read
    again are a whole one.
    """
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def paths(folder: Path) -> list[Path]:
    """The files, oldest first."""
    return sorted(folder.glob("[0-9]*.jsonl"))


def read(folder: Path) -> Iterator[Record]:
    """All records, oldest first; ``ValueError`` for a line that is none."""
    for path in paths(folder):
        yield from _records(path, path.read_bytes().splitlines())


def backwards(folder: Path, before: int | None = None) -> Iterator[Record]:
    """The last record first; those with numbers below ``before``. Files that are not come to are not read."""
    for path in reversed(paths(folder)):
        for record in _records(path, reversed(path.read_bytes().splitlines())):
            if before is None or record["seq"] < before:
                yield record


def _latest(records: Iterable[Record], limit: int, wanted: Wanted) -> Latest:
    found: list[Record] = []
    for number, record in enumerate(records, 1):
        if wanted.fits(record):
            found.append(record)
        if len(found) == limit or number == LOOKED_AT:
            return Latest(found, int(record["seq"]))
    return Latest(found, None)


def _records(path: Path, lines: Iterable[bytes]) -> Iterator[Record]:
    for line in lines:
        try:
            record = json.loads(line)
        except RecursionError:
            record = None
        if not isinstance(record, dict) or not {"seq", "hash", "previous"} <= set(record):
            raise ValueError(f"{path} has a line that is no record")
        yield record


def hash_of(record: Mapping[str, Any]) -> str:
    """Of all of a record but its hash."""
    rest = {name: value for name, value in record.items() if name != "hash"}
    return hashlib.sha256(json.dumps(rest, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def verify(folder: Path, expected: str | None = None) -> Verified:
    """Hold every record against its hash, its number and the one before."""
    records = first = last = 0
    head = fault = ""
    found = None if expected is None else False
    try:
        for record in read(folder):
            if record["hash"] != hash_of(record):
                raise ValueError(f"record {record['seq']} was changed")
            if records and (record["previous"] != head or record["seq"] != last + 1):
                raise ValueError(f"record {record['seq']} does not follow record {last}")
            records, first, last, head = records + 1, first or record["seq"], record["seq"], record["hash"]
            found = found if found is None else found or head == expected
    except (OSError, ValueError) as error:
        fault = str(error)
    return Verified(whole=not fault, records=records, first=first, last=last, head=head, fault=fault, found=found)
