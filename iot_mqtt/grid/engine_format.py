"""Which format the entries of an embedded grid have: a record among them says so."""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import Final

from iot_mqtt.grid.faults import Damaged, TooNew
from iot_mqtt.grid.tags import TAGS
from iot_mqtt.ports.grid import CacheName

#: Major: an older version cannot read it. Minor: it can, and skips what it does not know. 2: with a log of our own.
FORMAT: Final = (2, 0)
FORMAT_KEY: Final = b"format"
#: The same in RocksDB.
TAGGED_KEY: Final = TAGS[CacheName.META] + FORMAT_KEY
_FORMAT: Final = Struct(">4sHH")
_MAGIC: Final = b"IMQG"


def read_format(directory: Path, record: bytes) -> tuple[int, int]:
    """What a format record says; raises ``Damaged``."""
    if len(record) < _FORMAT.size or not record.startswith(_MAGIC):
        raise Damaged(directory, "the format record is unreadable")
    _, major, minor = _FORMAT.unpack_from(record)
    return major, minor


def missing_format(directory: Path, record: bytes | None) -> bytes | None:
    """The record that has to take the place of what is there, if any has to; raises ``OpenFault``."""
    major, minor = (0, 0) if record is None else read_format(directory, record)
    if major > FORMAT[0]:
        raise TooNew(
            f"{directory} was written by a later iot-mqtt (format {major}.{minor}; this one reads up to "
            f"{FORMAT[0]}.x): start that version, or another data directory"
        )
    # Missing where it is new, or of a version that left the log to RocksDB, which has read it by now.
    return _FORMAT.pack(_MAGIC, *FORMAT) if major < FORMAT[0] else None
