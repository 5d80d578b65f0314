"""What a thread does that syncs files: the twin of ``_syncing``."""

from __future__ import annotations

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
