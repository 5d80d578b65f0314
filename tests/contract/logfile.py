"""How far a segment of the commit log is written, which is longer than that."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from iot_mqtt.grid.commit_log import segments
from iot_mqtt.grid.commit_record import Record, records


def logs(directory: Path) -> list[Path]:
    """All segments, oldest first."""
    return [segment.path for segment in segments(directory)]


def written(path: Path, data: bytes | None = None) -> list[Record]:
    """The records of a segment, as it is or with other bytes in it."""
    (segment,) = (segment for segment in segments(path.parent) if segment.path == path)
    return list(records(path.read_bytes() if data is None else data, segment.salt))


def used(path: Path) -> int:
    """Where the last record ends; what follows is room."""
    return max((record.end for record in written(path)), default=0)


def snapshot(live: Path, copy: Path) -> None:
    """What ``kill -9`` would leave now, though RocksDB may be writing tables meanwhile: until it is a whole one."""
    while True:
        names = sorted(os.listdir(live))
        with suppress(FileNotFoundError):
            copy.mkdir()
            for name in sorted(names, key=lambda name: not name.startswith(("CURRENT", "MANIFEST"))):
                shutil.copy2(live / name, copy / name)
            if names == sorted(os.listdir(live)):
                return
        shutil.rmtree(copy)
