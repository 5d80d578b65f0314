"""From a sole node's data directory into the empty grid of a cluster: ``iot-mqtt migrate``.

::

    source, stopped ─▶ target: a mark, by which no node joins ─▶ all entries ─▶ read again and compared
                    ─▶ source: a mark, by which no node serves it ─▶ target: the mark is removed

Entries are copied as they are, as a backup copies them; what makes a cluster of them is in ``arrival``. Killed
anywhere, the command may be run again: what an earlier attempt has put into the target is removed first. At no moment
may both be served.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from socket import gethostname
from typing import Any

from iot_mqtt.app.backup.arrival import derived_record, node_records
from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.backup.files import Restored, files_below
from iot_mqtt.app.backup.grids import alone, is_own, stopped, whole, writing
from iot_mqtt.app.backup.work import Told, compare
from iot_mqtt.app.config import Config
from iot_mqtt.app.config.folders import grid_dir
from iot_mqtt.app.migrated import note_migrated
from iot_mqtt.grid.archive import Loading, NotEmpty, Sums, begin_filling, entries_of
from iot_mqtt.grid.faults import InUse
from iot_mqtt.ports.filling import Filler, Mark
from iot_mqtt.ports.grid import CacheName, Grid


@dataclass(slots=True)
class Migrated:
    """What was done, while it is being done."""

    doing: str = "opening"
    entries: int = 0
    bytes: int = 0
    sessions: int = 0
    #: An earlier attempt had been interrupted.
    again: bool = False
    caches: Told | None = None
    files: int = 0


async def migrate(reactor: Any, config: Config, source: Path, told: Migrated) -> Restored:
    """From ``source``, the data directory (absolute) of a node that is stopped, into the grid of the configuration."""
    if config.grid.kind != "ignite":
        raise BackupError(f"grid.kind is {config.grid.kind}: name the configuration of a node of the cluster")
    folder = source / grid_dir(config).name
    if not (folder / "CURRENT").exists():
        raise BackupError(f"there is no grid in {folder}: {source} is no data directory of a sole node")
    data_dir = Path(config.node.data_dir)
    restored = Restored(data_dir)
    with stopped("iot-mqtt migrate", source, data_dir):
        try:
            async with alone(folder, reactor) as grid, writing(config, reactor) as target:
                await copy(grid, target, config, folder, told)
        except InUse as error:
            raise BackupError(f"{error}; stop the node") from error
        told.doing = "copying files"
        # Where source and target have one data directory, all are there already.
        for name, content in files_below(source):
            restored.take(name, content)
    told.files = restored.written
    return restored


async def copy(grid: Grid, target: Grid, config: Config, folder: Path, told: Migrated) -> None:
    await whole(grid)
    mark = Mark(target, Filler("iot-mqtt migrate", f"{gethostname()}:{folder}"), token_hex(8))
    told.doing = "preparing"
    told.again = await _begin(target, mark)
    told.doing = "copying"
    sums, loading = Sums(), Loading(target)

    async def put(cache: CacheName, key: bytes, value: bytes) -> None:
        sums.add_entry(cache, key, value)
        told.entries += 1
        told.bytes += len(key) + len(value)
        await loading.put(cache, key, value)

    derived = {(cache, key): value for cache, key, value in node_records(config.node.id)}
    async for cache, key, value in entries_of(grid, is_own):
        await put(cache, key, value)
        told.sessions += cache is CacheName.SESSIONS
        if (more := derived_record(cache, key)) is not None:
            derived[more[:2]] = more[2]
    for (cache, key), value in derived.items():
        await put(cache, key, value)
    await loading.end()
    told.doing = "comparing"
    told.caches = sums.told()
    await compare(target, told.caches, is_own)
    note_migrated(folder, ", ".join(config.grid.ignite.addresses), time.time())
    await mark.end()


async def _begin(target: Grid, mark: Mark) -> bool:
    try:
        return await begin_filling(target, mark, is_own)
    except NotEmpty as error:
        text = f"{error}. A node goes into a cluster that has nothing yet, and whose nodes are stopped"
        raise BackupError(text) from error
