"""Events that wait for an address, in a file: what a restart, or a crash, has to find again.

::

    webhooks/<address>.events     12 <tab> 19c4a1e0f2b <tab> {"number":41,…}     an event: sequence number, life, JSON
                                  12 <tab> <tab>                                 all up to that number are settled

Lines are added; now and then the file is replaced by one that has only what still waits, before it has twice the lines
of what may wait. A line that is not whole is none: it was being written when the power went. One thread writes the
files of all addresses. While an address takes its events nothing is synced: a crash of the process loses nothing that
was written, and what is lost with the power was under way. When it does not take them, they are.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from iot_mqtt.thread_bridge import Cross, TurnBridge
from iot_mqtt.whole_files import sync_directory

log = logging.getLogger(__name__)

SUFFIX: Final = ".events"
#: A file is written anew when so much was added to it, at the next time that something is settled.
REPLACED: Final = 4 * 1024 * 1024
#: Jobs that wait for the thread. More of them: the disk is in trouble.
MOST_JOBS: Final = 1000

After = Callable[[], None] | None


class Entry(NamedTuple):
    """An event that waits."""

    #: Rising, over all lives of the node.
    sequence: int
    life: str
    #: JSON, on one line.
    item: str


class SpoolFile:
    """One address. All of it may block, and raises ``OSError``; ``open`` first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def open(self) -> tuple[list[Entry], int]:
        """What waits, and how many lines were unreadable. The file then has nothing else."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_directory(self._path.parent.parent)
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            data = b""
        found, unreadable = read(data)
        self.replace(found)
        return found, unreadable

    def append(self, data: bytes, sync: bool) -> None:
        """Add lines."""
        if self._file < 0:
            raise OSError("it is not open")
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        if sync:
            os.fsync(self._file)

    def replace(self, entries: Iterable[Entry]) -> None:
        """Have these in it and nothing else: all of it, or what was there before."""
        self.close()
        fresh = self._path.with_suffix(".new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = file
        try:
            self.append(b"".join(map(line, entries)), sync=True)
            fresh.replace(self._path)
            sync_directory(self._path.parent)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._file >= 0:
            file, self._file = self._file, -1
            try:
                os.fsync(file)
            finally:
                os.close(file)


class Spool:
    """One address, for the reactor: the same in the spools' thread."""

    def __init__(self, path: Path, put: Callable[[Callable[[], After]], None], most: int) -> None:
        """``most``: events that wait, at most."""
        self._file = SpoolFile(path)
        self._name = path.name
        self._put = put
        self._most = most
        #: Lines and bytes of the file, as far as they were handed to the thread.
        self._lines = self._bytes = 0
        #: What was handed to the thread, and what of it the thread has done.
        self._handed = self._done = 0
        #: Why it is not written; then everything that waits is written when it can be again.
        self.trouble: str | None = None
        #: Meanwhile something has come that was not handed to the thread.
        self._behind = False

    def open(self) -> tuple[list[Entry], int]:
        """What waits from before, and how many lines were unreadable. Blocks; once, at the start."""
        try:
            found, unreadable = self._file.open()
        except OSError as error:
            self._broken(str(error))
            return [], 0
        self._lines = len(found)
        return found, unreadable

    def add(self, entries: Sequence[Entry], waiting: Callable[[], list[Entry]], *, sync: bool) -> None:
        """These wait from now on. ``waiting``: all that does."""
        if self.trouble is not None:
            self._behind = True
            return
        if self._lines + len(entries) > 2 * self._most:
            self._replace(waiting())
        else:
            self._append(b"".join(map(line, entries)), len(entries), sync)

    def settle(self, sequence: int, waiting: Callable[[], list[Entry]]) -> None:
        """Nothing up to that number has to be posted any more."""
        if self.trouble is None and self._lines < 2 * self._most and self._bytes < REPLACED:
            self._append(b"%d\t\t\n" % sequence, 1, sync=False)
        else:
            self._replace(waiting())

    def sync(self, waiting: Callable[[], list[Entry]]) -> None:
        """What waits is to survive the power, too."""
        if self.trouble is None:
            self._append(b"", 0, sync=True)
        else:
            self._replace(waiting())

    def close(self) -> None:
        self._handed += 1
        self._put(partial(self._try, self._file.close))

    def _append(self, data: bytes, lines: int, sync: bool) -> None:
        self._lines += lines
        self._bytes += len(data)
        self._hand(partial(self._file.append, data, sync), whole=False)

    def _replace(self, left: list[Entry]) -> None:
        self._lines, self._bytes = len(left), 0
        self._behind = False
        self._hand(partial(self._file.replace, left), whole=True)

    def _hand(self, do: Callable[[], None], *, whole: bool) -> None:
        if self._handed - self._done >= MOST_JOBS:
            self._behind = True
            self._broken("the disk does not keep up")
            return
        self._handed += 1
        self._put(partial(self._try, do, whole=whole))

    # In the thread.

    def _try(self, do: Callable[[], None], *, whole: bool = False) -> After:
        try:
            do()
        except OSError as error:
            return partial(self._broken, error.strerror or str(error))
        finally:
            self._done += 1
        return self._mended if whole else None

    # In the reactor's thread.

    def _broken(self, why: str) -> None:
        if self.trouble is None:
            log.error("events that wait for a webhook are in memory alone: %s: %s", self._name, why)
        self.trouble = why

    def _mended(self) -> None:
        # What has come meanwhile is written the next time that something is settled, or not taken.
        if self.trouble is not None and not self._behind:
            log.warning("events that wait for a webhook are kept in %s again", self._name)
            self.trouble = None


class Spools:
    """Those of one life of a node, and their thread."""

    def __init__(self, folder: Path, cross: Cross) -> None:
        self._folder = folder
        self._bridge: TurnBridge[Callable[[], After]] = TurnBridge("webhooks", _turn, cross)
        self._open: list[Spool] = []

    def spool(self, name: str, most: int) -> Spool:
        """That of an address."""
        if not self._bridge.started:
            self._bridge.begin()
        made = Spool(self._folder / f"{name}{SUFFIX}", self._bridge.put, most)
        self._open.append(made)
        return made

    def left_over(self, names: Iterable[str]) -> list[Path]:
        """Files of addresses that are none of these."""
        mine = {f"{name}{SUFFIX}" for name in names}
        try:
            return sorted(path for path in self._folder.glob(f"*{SUFFIX}") if path.name not in mine)
        except OSError:
            return []

    def close(self) -> None:
        """All that was added is on the disk."""
        for one in self._open:
            one.close()
        if self._bridge.started:
            self._bridge.stop()
            self._bridge.join()
        self._open.clear()


def _turn(jobs: list[Callable[[], After]]) -> After:
    return jobs[0]() if jobs else None


def line(entry: Entry) -> bytes:
    return f"{entry.sequence}\t{entry.life}\t{entry.item}\n".encode()


def read(data: bytes) -> tuple[list[Entry], int]:
    """What waits in a file, by number, and how many lines were unreadable. The last one may be cut."""
    *lines, _ = data.split(b"\n")
    found: dict[int, Entry] = {}
    unreadable = settled = 0
    for one in lines:
        try:
            number, life, item = one.decode().split("\t")
            sequence = int(number)
            if item:
                if not isinstance(json.loads(item), dict):
                    raise ValueError(item)
                found[sequence] = Entry(sequence, life, item)
            else:
                settled = max(settled, sequence)
        except (ValueError, RecursionError):
            unreadable += 1
    return [found[number] for number in sorted(found) if number > settled], unreadable
