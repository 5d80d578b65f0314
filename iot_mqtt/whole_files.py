"""Files that are whole or not there, whenever the power goes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def new_file(path: Path, *, secret: bool = False) -> Iterator[BinaryIO]:
    """There under its name when it is whole and on the disk, and not before.

    It is for whom the file was that it replaces: owner, group and mode stay. A new one is for its owner alone, and so
    is a ``secret``, whatever was there.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        # Nobody has asked for the other name.
        error.filename = str(path)
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            if not secret and path.exists():
                _give_as(path.stat(), file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _give_as(before: os.stat_result, descriptor: int) -> None:
    # The owner first: giving a file away may take bits of its mode.
    if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
