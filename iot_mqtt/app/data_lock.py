"""One process at a time in a data directory: the kernel's lock on its file ``LOCK``, for as long as the process lives.

::

    LOCK     process 4711, node node-2

Whoever writes there while no node may run holds it, a node first of all, whatever its grid is. The kernel lets go of it
when the process ends, however it ends, so the file stays and says nothing by itself. Nobody waits for it: a node that
still ends holds it to its end, and whoever supervises it starts the next one afterwards.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from iot_mqtt.grid.faults import InUse, OpenFault

FILE: Final = "LOCK"
#: Of what it says, so much is told.
_MOST: Final = 300


@contextmanager
def holding(folder: Path, who: str) -> Iterator[None]:
    """Hold the directory, which is made if it is not there; ``who`` is told to those who want it, too. Raises ``InUse``
    with the name of who holds it, or ``OpenFault``; then nothing in it was changed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Closed when another program is executed, as all that Python opens: no child holds it.
        lock = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except IsADirectoryError as error:
        raise OpenFault(f"node.data_dir: {folder / FILE} is a directory: move it away") from error
    except OSError as error:
        raise OpenFault(f"node.data_dir: {error.filename or folder}: {error.strerror}") from error
    try:
        _take(lock, folder)
        # Only a name: a disk that is full keeps nobody from starting.
        with suppress(OSError):
            os.ftruncate(lock, 0)
            os.write(lock, f"process {os.getpid()}, {who}\n".encode())
        yield
    finally:
        os.close(lock)


def _take(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            holder = os.read(lock, _MOST).decode(errors="replace").strip() or "another process"
            text = f"node.data_dir: {folder} is in use by {holder}: two processes cannot share a data directory"
            raise InUse(text) from error
        raise OpenFault(
            f"node.data_dir: {folder} cannot be locked: {error.strerror}. Without a lock a second process might write "
            "there, too: use a file system that has locks"
        ) from error
