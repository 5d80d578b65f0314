"""Whether a directory that was opened is still the one at its path: whoever writes there by path, as RocksDB does,
would write into what others have put in its place.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_CLOSED: Final = -1


class OwnDirectory:
    """A directory that is held open, so that no other gets its number, and a file that is always in it."""

    def __init__(self, path: Path, always: str) -> None:
        self._path = path
        self._always = path / always
        self._file = _CLOSED
        self._seen: os.stat_result | None = None

    def take(self) -> None:
        """It is the one that is at the path now. Raises ``OSError``."""
        self.let_go()
        self._file = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._seen = os.fstat(self._file)

    def let_go(self) -> None:
        """Any other may be there from now on."""
        self._seen = None
        if self._file != _CLOSED:
            os.close(self._file)
            self._file = _CLOSED

    @property
    def lost(self) -> bool:
        """Whether another one, or none, is at the path, or it was emptied. What cannot be seen now is not lost."""
        # Once: another thread may take it anew meanwhile.
        seen = self._seen
        if seen is None:
            return False
        try:
            self._always.stat()
            return not os.path.samestat(seen, self._path.stat())
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
