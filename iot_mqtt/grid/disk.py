"""What a directory takes on its file system: blocks, not lengths, for files are reserved ahead of their contents."""

from __future__ import annotations

from os import scandir, statvfs
from pathlib import Path
from typing import Final

from iot_mqtt.ports.disk import DiskUse

#: The unit of ``st_blocks``, whatever the file system's own is.
BLOCK: Final = 512


def measure(directory: Path) -> DiskUse:
    """Look at every file of the directory, which has no others below it."""
    used = 0
    with scandir(directory) as entries:
        for entry in entries:
            try:
                used += entry.stat(follow_symlinks=False).st_blocks * BLOCK
            except FileNotFoundError:
                # The database removed it meanwhile.
                continue
    system = statvfs(directory)
    free = system.f_bavail * system.f_frsize
    return DiskUse(used, free, inodes=system.f_files, inodes_free=system.f_favail)


def left_on(directory: Path) -> str:
    """What the file system still has, for whoever is told that it has no space: of bytes or of inodes."""
    system = statvfs(directory)
    inodes = f" and {system.f_favail} inodes" if system.f_files else ""
    return f"{system.f_bavail * system.f_frsize} bytes{inodes} are free"
