"""The log as a file, which whoever rotates logs may move away: the next line goes into a new one of the same name.

A name that cannot be opened, or is no plain file, leaves the log where it was. Opening it never waits: the loop would.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from typing import Final

from iot_mqtt.plain_files import open_plain
from iot_mqtt.ports.alarms import Alarm, AlarmKind

log = logging.getLogger(__name__)

_GOES_ON: Final = "the log goes on in its file of before"


class LogFile(WatchedFileHandler):
    """Made with ``OSError`` if it cannot be opened."""

    def __init__(self, path: str) -> None:
        #: Why the name cannot be opened; None: it is.
        self.trouble: str | None = None
        super().__init__(path, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        # As the standard library does but for the opener.
        return open(self.baseFilename, "a", encoding="utf-8", opener=open_plain)

    def reopenIfNeeded(self) -> None:
        """Before each line. The library's closes the file before it knows that there is another one."""
        if self._is_open():
            self.trouble = None
            return
        try:
            opened = self._open()
        except OSError as error:
            self._failed(f"{self.baseFilename}: {error.strerror or error}")
            return
        before, self.stream = self.stream, opened
        self._statstream()
        self.trouble = None
        if before is not None:
            with suppress(OSError):
                before.close()

    def _is_open(self) -> bool:
        try:
            found = os.stat(self.baseFilename)  # noqa: PTH116 - before each line, for a path that is a str anyway
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self.dev, self.ino)

    def _failed(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            log.error("%s: %s", _GOES_ON, trouble)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should do something about."""
        return () if self.trouble is None else (Alarm(AlarmKind.LOG_FILE, f"{_GOES_ON}: {self.trouble}", self.trouble),)
