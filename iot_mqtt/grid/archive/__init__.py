"""A copy of all that a grid keeps, in one file: made while nodes run, put back into an empty grid.

``sealing`` cuts it into compressed pieces, encrypted on request; ``records`` says what is in them; ``copying`` moves
entries between a grid and such a file; ``filling`` begins with an empty one. The format is described in docs/backup.md.
"""

from __future__ import annotations

from iot_mqtt.grid.archive.copying import (
    Loading,
    NotEmpty,
    Skip,
    copy_from,
    copy_into,
    entries_of,
    sums_of,
)
from iot_mqtt.grid.archive.filling import begin_filling
from iot_mqtt.grid.archive.records import ArchiveReader, ArchiveWriter, Header, Sums
from iot_mqtt.grid.archive.sealing import BadArchive, Secret

__all__ = [
    "ArchiveReader",
    "ArchiveWriter",
    "BadArchive",
    "Header",
    "Loading",
    "NotEmpty",
    "Secret",
    "Skip",
    "Sums",
    "begin_filling",
    "copy_from",
    "copy_into",
    "entries_of",
    "sums_of",
]
