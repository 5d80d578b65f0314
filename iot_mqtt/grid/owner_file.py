"""The file in a grid's directory that says which process has it open, and, in a second line, that it keeps a log there.

A clean end removes it, before the log goes. So where it still says so and there is no log, that has been lost.
"""

from __future__ import annotations

from contextlib import suppress
from os import getpid
from pathlib import Path
from typing import Final

from iot_mqtt.whole_files import sync_directory

OWNER: Final = "owner.pid"
_LOGGING: Final = "logging"


class OwnerFile:
    """Of one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / OWNER

    def write(self) -> None:
        """This process has it. It is for people: a disk that is full keeps nobody from opening."""
        with suppress(OSError):
            self._path.write_text(f"{getpid()}\n{_LOGGING}\n")

    def remove(self) -> bool:
        """Say that no log is needed, before it goes; False: it has to stay."""
        try:
            self._path.unlink(missing_ok=True)
            sync_directory(self._directory)
        except OSError:
            return False
        return True

    @property
    def has_log(self) -> bool:
        """Whether who had the directory last has left a log. Earlier versions did not say."""
        with suppress(OSError, ValueError):
            return self._path.read_text().endswith(f"\n{_LOGGING}\n")
        return False

    @property
    def named(self) -> str:
        """Who has it, behind "is in use"; empty where nobody says so."""
        with suppress(OSError, ValueError):
            return f" by process {holder(self._directory)}"
        return ""


def holder(directory: Path) -> int:
    """The number of the process that has a directory open, or had it; raises ``OSError`` or ``ValueError``."""
    return int((directory / OWNER).read_text().partition("\n")[0])
