"""What the configuration says about the file sink."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class FileSettings:
    """``uplink.file.*``."""

    #: A file is finished, and can be read, when all that are being written have so many bytes together ...
    rotate_bytes: int = 64 * MIB
    #: ... or so many seconds after the first record.
    rotate_seconds: float = 10.0
    #: Bytes that all files may take together; 0: no limit but the disk's. Nothing is deleted: beyond it, the log keeps.
    limit: int = 8192 * MIB
    #: Bytes that the file system keeps free.
    reserve: int = 128 * MIB
