"""The grid that a backup is made of, or put back into."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.config import Config
from iot_mqtt.app.config.folders import grid_dir
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.data_lock import holding
from iot_mqtt.app.grid_note import refuse_member
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.engine_format import FORMAT_KEY
from iot_mqtt.grid.faults import InUse, OpenFault
from iot_mqtt.pipeline import ReactorClock
from iot_mqtt.ports.filling import FILLING_KEY, Unfinished, refuse_unfinished
from iot_mqtt.ports.grid import CacheName, Grid


def is_own(cache: CacheName, key: bytes) -> bool:
    """What is about this grid, and not in it: its format, and the mark of whoever fills it."""
    return cache is CacheName.META and key in (FORMAT_KEY, FILLING_KEY)


@contextmanager
def stopped(who: str, *folders: Path) -> Iterator[None]:
    """No node may start in these data directories meanwhile, and none may be there; ``who``: what is told to it."""
    with ExitStack() as held:
        try:
            for folder in sorted({folder.resolve() for folder in folders}):
                held.enter_context(holding(folder, who))
        except InUse as error:
            raise BackupError(f"{error}; stop the node") from error
        except OpenFault as error:
            raise BackupError(str(error)) from error
        yield


async def whole(grid: Grid) -> Grid:
    """The grid, if no command that fills it was interrupted."""
    try:
        await refuse_unfinished(grid)
    except Unfinished as error:
        raise BackupError(str(error)) from error
    return grid


@asynccontextmanager
async def reading(config: Config, reactor: Any, connect: Callable[[], Node]) -> AsyncIterator[Grid]:
    """As it is now. Of an embedded one that a node has open, ``connect`` reaches the node, which makes a copy of it."""
    if config.grid.kind == "ignite":
        async with _opened(_ignite(config, reactor)) as grid:
            yield await whole(grid)
        return
    folder = _folder(config)
    _begun(folder)
    try:
        async with _opened(EmbeddedGrid(Engine(folder), reactor.callFromThread)) as grid:
            yield await whole(grid)
        return
    except InUse:
        node = connect()
    copy = node.post("backup", "copies", body={"reader": os.getpid()})
    try:
        async with _opened(EmbeddedGrid(Engine(_here(copy["path"])), reactor.callFromThread)) as grid:
            yield grid
    finally:
        node.delete("backup", "copies", copy["id"])


@asynccontextmanager
async def writing(config: Config, reactor: Any) -> AsyncIterator[Grid]:
    """No node may have it open."""
    if config.grid.kind == "ignite":
        grid: Any = _ignite(config, reactor)
    else:
        grid = EmbeddedGrid(Engine(_own(config)), reactor.callFromThread)
    try:
        async with _opened(grid) as opened:
            yield opened
    except InUse as error:
        raise BackupError(f"{error}; stop the node") from error


@asynccontextmanager
async def alone(folder: Path, reactor: Any) -> AsyncIterator[Grid]:
    """One in a directory of its own."""
    async with _opened(EmbeddedGrid(Engine(folder), reactor.callFromThread)) as grid:
        yield grid


def _begun(folder: Path) -> None:
    if not (folder / "CURRENT").exists():
        text = "no node was started there, or it has another node.data_dir (--set node.data_dir=DIR)"
        raise BackupError(f"there is no grid in {folder}: {text}")


def _here(path: str) -> Path:
    if not Path(path).is_dir():
        raise BackupError(f"the node has its copy in {path}, which is not on this machine: make the backup there")
    return Path(path)


def _folder(config: Config) -> Path:
    if config.grid.kind != "embedded":
        raise BackupError(f"grid.kind is {config.grid.kind}: nothing of it outlives its process")
    return grid_dir(config)


def _own(config: Config) -> Path:
    """The same, where the directory is not that of a node of a cluster."""
    folder = _folder(config)
    try:
        refuse_member(folder)
    except OpenFault as error:
        raise BackupError(str(error)) from error
    return folder


def _ignite(config: Config, reactor: Any) -> Any:
    # Late: the libraries of a cluster.
    from iot_mqtt.app.node.clustered import make_grid

    return make_grid(config, reactor, ReactorClock(reactor))


@asynccontextmanager
async def _opened(grid: Any) -> AsyncIterator[Grid]:
    try:
        await grid.open()
    except InUse:
        raise
    except (OpenFault, OSError) as error:
        raise BackupError(str(error)) from error
    try:
        yield grid
    finally:
        await grid.close()
