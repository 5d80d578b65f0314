"""Write zeros where RocksDB's log will go next, so that syncing a commit does not have to sync a longer file as well.

A log that grows has a new size with every commit, which the file system must put into its own journal before the sync
is over. Inside a file that is long enough, only the commit's own blocks are written: half the time or less
(docs/adr/0002). RocksDB would take old log files again for the same reason, but then old batches stand behind new ones,
and the end of the log can't be told from damage any more. Zeros can: they are the end (``wal``).

Only whoever writes the batches may call this, between two of them: nobody writes then where the zeros go. How far
RocksDB has got is estimated. A wrong estimate costs time, nothing else: zeros always go behind the end of the file.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

#: So much at a time: a millisecond's work for a disk, done once for some hundred commits.
STEP: Final = 512 * 1024
#: A commit larger than this takes its time on the disk anyway.
LARGE: Final = STEP // 4
#: Nanoseconds after a change of the directory, many times the steps of its time.
UNCERTAIN: Final = 100_000_000
_ZEROS: Final = bytes(STEP)


class Ahead:
    """The newest log of a database directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._changed = -1
        self._newest: Path | None = None
        self._file = -1
        #: How long the file is, and how much of it RocksDB has used, at least.
        self._end = 0
        self._used = 0

    def steady(self) -> int | None:
        """The newest log, if it is certain that RocksDB writes there: to sync it is to sync what was written.

        The time of a directory has steps of some milliseconds. What happens in it within the step of its last change
        would not be seen, so nothing is certain for a while after that.
        """
        try:
            changed = self._directory.stat().st_mtime_ns
        except OSError:
            return None
        certain = changed == self._changed and abs(time.time_ns() - changed) > UNCERTAIN
        return self._file if certain and self._file >= 0 else None

    def make(self, size: int) -> None:
        """Room for a commit of about so many bytes. A disk that has none is left to the commit to tell."""
        try:
            self._follow()
            if self._used + size > self._end and size <= LARGE and self._file >= 0:
                self._end = os.fstat(self._file).st_size
                self._end += os.pwrite(self._file, _ZEROS, self._end)
        except OSError as error:
            log.debug("no zeros are written ahead of the grid's log: %s", error)
        self._used += size

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
        self._file, self._newest, self._changed = -1, None, -1

    def _follow(self) -> None:
        """Go on to the log that RocksDB has begun since, if any."""
        changed = self._directory.stat().st_mtime_ns
        if changed == self._changed:
            return
        logs = [path for path in self._directory.glob("*.log") if path.stem.isdigit()]
        newest = max(logs, key=lambda path: int(path.stem), default=None)
        if newest != self._newest:
            self.close()
            if newest is not None:
                self._file = os.open(newest, os.O_WRONLY | os.O_CLOEXEC)
                self._used = self._end = os.fstat(self._file).st_size
            self._newest = newest
        self._changed = changed
