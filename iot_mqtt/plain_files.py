"""Files that people name, read as a whole. What is no plain file (a pipe, a device, a directory) is refused at once:
reading it might never end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

#: Nothing is in it, and nobody waits for that.
_NOTHING: Final = Path(os.devnull).stat().st_rdev


def read_plain(path: str, most: int = -1) -> bytes:
    """All of it, or its first ``most`` bytes. Raises ``OSError``."""
    with os.fdopen(_opened(path), "rb") as file:
        return file.read(most)


def require_plain(path: str) -> None:
    """Raise ``OSError`` unless it can be read; for libraries that open it by its name."""
    os.close(_opened(path))


def _opened(path: str) -> int:
    # Opening a pipe would wait for somebody who writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(found.st_mode) and found.st_rdev != _NOTHING:
            raise OSError(errno.EINVAL, "is no plain file", path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
