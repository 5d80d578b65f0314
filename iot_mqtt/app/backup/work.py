"""Making a backup, reading one, and putting one back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

from iot_mqtt import __version__
from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.backup.files import Restored, has_place, kept_files
from iot_mqtt.app.backup.grids import is_own, reading, stopped, writing
from iot_mqtt.app.config import Config
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.grid.archive import (
    ArchiveReader,
    ArchiveWriter,
    Header,
    NotEmpty,
    Secret,
    Skip,
    begin_filling,
    copy_from,
    copy_into,
    sums_of,
)
from iot_mqtt.ports.filling import Filler, Mark
from iot_mqtt.ports.grid import Grid

#: Of each cache: entries, bytes, sum.
Told = dict[str, dict[str, object]]


@dataclass(frozen=True, slots=True)
class Report:
    """What is in a backup."""

    header: Header
    caches: Told
    #: Files that this release has no place for.
    unknown: list[str]


async def make(
    reactor: Any, config: Config, file: BinaryIO, secret: Secret | None, connect: Callable[[], Node], *, files: bool
) -> Report:
    """Everything that is kept now, into ``file``."""
    header = Header(config.grid.kind, __version__, time.time(), config.node.id)
    archive = ArchiveWriter(file, header, secret)
    async with reading(config, reactor, connect) as grid:
        await copy_from(grid, archive, is_own)
    if files:
        for name, content in kept_files(config):
            archive.add_file(name, content)
    return Report(header, archive.close(), [])


def read(file: BinaryIO, secret: Secret | None) -> Report:
    """All of it, to the end; raises ``BadArchive``."""
    archive = ArchiveReader(file, secret)
    unknown = [name.decode() for cache, name, _ in archive if cache is None and not has_place(name.decode())]
    return Report(archive.header, archive.sums.told(), unknown)


async def restore(reactor: Any, config: Config, file: BinaryIO, secret: Secret | None) -> tuple[Report, Restored]:
    """Into the grid of the configuration, which has to be empty, and in no node's use."""
    archive = ArchiveReader(file, secret)
    if archive.header.grid != config.grid.kind:
        raise BackupError(f"the backup is of a grid of kind {archive.header.grid}; grid.kind is {config.grid.kind}")
    data_dir = Path(config.node.data_dir)
    restored = Restored(data_dir)
    with stopped("iot-mqtt backup restore", data_dir):
        async with writing(config, reactor) as grid:
            await put_back(grid, archive, restored.take)
    return Report(archive.header, archive.sums.told(), restored.unknown), restored


async def put_back(grid: Grid, archive: ArchiveReader, take_file: Callable[[str, bytes], None]) -> None:
    """And read it again, to see that it is the same. No node starts on the grid before that; where this was interrupted
    it may be begun anew, with any backup.
    """
    mark = Mark(grid, Filler("iot-mqtt backup restore", ""), token_hex(8))
    try:
        await begin_filling(grid, mark, is_own)
    except NotEmpty as error:
        raise BackupError(f"{error}. A backup goes into an empty grid; stop the node and move its data away") from error
    await copy_into(grid, archive, take_file)
    wanted = archive.sums.told()
    wanted.pop("files", None)
    await compare(grid, wanted, is_own)
    await mark.end()


async def compare(grid: Grid, wanted: Told, skip: Skip) -> None:
    """Read a grid, to see that it has just what was put into it; raises ``BackupError``."""
    found = (await sums_of(grid, skip)).told()
    if found != wanted:
        different = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        raise BackupError(f"what is in the grid now differs from what was put there in: {', '.join(different)}")
