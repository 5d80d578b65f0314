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
_EMPTIED: Final = "is empty, and was not before: one that is to say nothing has a comment in it"


def read_plain(path: str, most: int = -1) -> bytes:
    """All of it, or its first ``most`` bytes. Raises ``OSError``."""
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        return file.read(most)


def read_again(path: str, *, had_content: bool) -> bytes:
    """All of a file that was read before. Raises ``OSError``, also if it ``had_content`` and is empty now: that is what
    a redirection that was cut short, or a full disk, leaves of it.
    """
    content = read_plain(path)
    if had_content and not content:
        raise OSError(errno.ENODATA, _EMPTIED, path)
    return content


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
