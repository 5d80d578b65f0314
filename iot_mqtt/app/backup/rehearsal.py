"""Whether a backup would do: it is put into a directory of its own, read through, and a node is started on it."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from iot_mqtt.admin.token import announced, read_token
from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.backup.files import Restored
from iot_mqtt.app.backup.grids import alone
from iot_mqtt.app.backup.work import put_back
from iot_mqtt.app.config.changed import FILE as CHANGED
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.grid.archive import ArchiveReader, Header, Secret
from iot_mqtt.grid.log import GridLog, LogSettings
from iot_mqtt.grid.store import GridStore
from iot_mqtt.pipeline import ReactorClock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.scanning import scan

#: Seconds for a node to be ready, and to end.
_START, _END = 120.0, 30.0
_LISTENERS = ("mqtt", "ws", "gateway")


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What was seen."""

    header: Header
    #: Of the log.
    messages: int
    damaged: int
    #: What the node said of itself; None where none was started.
    sessions: int | None
    retained: int | None
    seconds: float


async def rehearse(reactor: Any, file: BinaryIO, secret: Secret | None, folder: Path) -> Rehearsed:
    """``folder`` is empty, and may be removed afterwards."""
    began = time.monotonic()
    archive = ArchiveReader(file, secret)
    restored = Restored(folder)

    def take(name: str, content: bytes) -> None:
        # Its listeners would be opened: nobody may reach the node of a rehearsal.
        if name != CHANGED:
            restored.take(name, content)

    async with alone(folder / "grid", reactor) as grid:
        await put_back(grid, archive, take)
        messages, damaged = await _read_through(grid, ReactorClock(reactor))
    sessions = retained = None
    if archive.header.grid == "embedded":
        sessions, retained = _serve(folder)
    return Rehearsed(archive.header, messages, damaged, sessions, retained, time.monotonic() - began)


async def _read_through(grid: Grid, clock: ReactorClock) -> tuple[int, int]:
    """Every message of every writer's log; and how many places are damaged."""
    messages = damaged = 0
    writers = [int.from_bytes(key[1:3]) async for key, _ in scan(grid, CacheName.LOG_META, b"b")]
    for writer in writers:
        log = GridLog(grid, GridStore(grid, clock, Counters()), clock, LogSettings(), writer)
        await log.open()
        async for run in log.scan():
            messages += run.run.count
        damaged += len([damage async for damage in log.verify()])
    return messages, damaged


def _serve(folder: Path) -> tuple[int, int]:
    """Start a node on it, which nobody can reach but us, and ask what it has found."""
    off = [f"--set=listeners.{name}.enabled=false" for name in _LISTENERS]
    command = [sys.executable, "-m", "iot_mqtt", "serve", f"--set=node.data_dir={folder}", "--set=admin.port=0", *off]
    errors = folder / "errors.txt"
    with errors.open("wb") as heard:
        node = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=heard)  # noqa: S603 - our own
    try:
        line = node.stdout.readline() if node.stdout is not None else b""
        if not line.startswith(b"ready"):
            last = errors.read_text(errors="replace").strip().splitlines()[-1:]
            raise BackupError(f"a node does not start on what was put back: {''.join(last) or 'it says nothing'}")
        url, token = announced(str(folder)), read_token(str(folder))
        status = Node(url or "", token or "").get("status")
        return int(status["sessions"]), int(status["retained"])
    finally:
        node.terminate()
        try:
            node.wait(_END)
        except subprocess.TimeoutExpired:
            node.kill()
            node.wait()
