"""Files that people name. What is no plain file (a pipe, a device, a directory) is refused at once: to open it, to read
it or to write it might never end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

#: Nothing is in it, and nobody waits for that.
_NOTHING: Final = Path(os.devnull).stat().st_rdev

_NOT_PLAIN: Final = "is no plain file"


def read_plain(path: str, most: int = -1) -> bytes:
    """All of it, or its first ``most`` bytes. Raises ``OSError``."""
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        return file.read(most)


def require_plain(path: str) -> None:
    """Raise ``OSError`` unless it can be read; for libraries that open it by its name."""
    os.close(open_plain(path, os.O_RDONLY))


def open_plain(path: str, flags: int) -> int:
    """A descriptor; an ``opener`` for ``open``. Raises ``OSError``."""
    try:
        # Opening a pipe would wait for whoever is at its other end.
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        # To be written, and nobody is there.
        raise OSError(errno.EINVAL, _NOT_PLAIN, path) if error.errno == errno.ENXIO else error from None
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(found.st_mode) and found.st_rdev != _NOTHING:
            raise OSError(errno.EINVAL, _NOT_PLAIN, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
