"""Standard output and standard error of the command line, as shells leave them: closed, full, or of few letters."""

from __future__ import annotations

import errno
import os
import sys
from io import TextIOWrapper
from typing import Final

#: What writing ends by where there is no room, or nothing at all.
_UNWRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


def prepare_streams() -> None:
    """Have both of them, and have them take every letter: those that an encoding lacks are spelled out."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Closed. Nothing else is to be opened under its number, and written to.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - until the end
        elif isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def output_failure(ended: BaseException | None = None) -> OSError | None:
    """Why what was printed cannot be written; None: it was. ``ended``: what the command ended by.

    What is left of it is thrown away, so that this is said once.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return error
    # A stream without a buffer has forgotten what it could not write. Files have names, and so have their errors.
    if isinstance(ended, OSError) and ended.filename is None and ended.errno in _UNWRITTEN:
        return ended
    return None


def say_failure(error: OSError) -> None:
    """One line; who has stopped reading is told nothing."""
    if error.errno != errno.EPIPE:
        print(f"iot-mqtt: standard output: {(error.strerror or str(error)).lower()}", file=sys.stderr, flush=True)
