"""What writes and syncs files: the twin of ``_syncing``."""

from __future__ import annotations

import errno
import os
from struct import Struct
from typing import Final

#: A file descriptor, or an error number.
NUMBER: Final = Struct("i")


def serve(jobs: int, done: int) -> None:
    """Sync each file whose descriptor comes out of ``jobs``, and write to ``done`` how that went: 0, or its errno."""
    while len(data := os.read(jobs, NUMBER.size)) == NUMBER.size:
        (file,) = NUMBER.unpack(data)
        result = 0
        try:
            os.fdatasync(file)
        except OSError as error:
            result = error.errno or -1
        os.write(done, NUMBER.pack(result))


def write_at(file: int, data: bytes, offset: int, sync: bool) -> int:
    """Write all of it there, and sync the file if so wished. Returns 0, or the errno of what went wrong: then some
    of it may be there.
    """
    try:
        while data:
            written = os.pwrite(file, data, offset)
            if not written:
                return errno.ENOSPC
            data, offset = data[written:], offset + written
        if sync:
            os.fdatasync(file)
    except OSError as error:
        return error.errno or -1
    return 0
