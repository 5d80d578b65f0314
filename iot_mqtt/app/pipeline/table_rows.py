"""Rows of the tables for who asks a node: read by a process of its own, which ends with its answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet.defer import DeferredSemaphore
from twisted.internet.threads import deferToThreadPool

from iot_mqtt.admin.pipeline_tables import DeadLetter, PlantAlarm, RowsWanted
from iot_mqtt.errors import Unavailable

#: Seconds for one answer: a reader that starts on a machine with much else to do takes some of them. Other nodes wait
#: for less, and name who takes as long. One process at a time, and so many that wait.
PATIENCE, WAITING = 10.0, 8
_PROGRAM = (sys.executable, "-m", "iot_mqtt.app.pipeline.report.rows")
#: Characters of what a reader says has gone wrong.
_TAIL = 500

Made = TypeVar("Made")


class TableRows:
    """``PlantTables`` of a directory. A node that has no tables starts no process."""

    def __init__(self, tables: Path, reactor: Any) -> None:
        self._tables = tables
        self._reactor = reactor
        self._turn = DeferredSemaphore(1)

    async def alarms(self, wanted: RowsWanted) -> list[PlantAlarm]:
        return await self._read("alarms", wanted, lambda row: PlantAlarm(**row))

    async def dead_letters(self, wanted: RowsWanted) -> list[DeadLetter]:
        return await self._read("invalid", wanted, lambda row: DeadLetter(**row))

    async def _read(self, table: str, wanted: RowsWanted, make: Callable[[Mapping[str, Any]], Made]) -> list[Made]:
        if len(self._turn.waiting) >= WAITING:
            raise Unavailable("the tables are being read for others; try again")
        question = json.dumps({"tables": str(self._tables), "table": table, **asdict(wanted)})
        pool = self._reactor.getThreadPool()
        reading = partial(deferToThreadPool, self._reactor, pool, _answer, self._tables / table, question)
        rows: list[Mapping[str, Any]] = await self._turn.run(reading)
        return [make(row) for row in rows]


def _answer(table: Path, question: str) -> Any:
    """On a thread."""
    if not table.is_dir():
        return []
    try:
        done = subprocess.run(  # noqa: S603 - this Python, and a module of ours
            _PROGRAM, input=question, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"{table} could not be read within {PATIENCE:g} s: `iot-mqtt pipeline run compact --once` makes fewer files"
        ) from None
    except OSError as error:
        raise Unavailable(f"{table} could not be read: {error.strerror}") from error
    if done.returncode:
        raise Unavailable(done.stderr.strip()[-_TAIL:] or f"reading {table} ended with {done.returncode}")
    return json.loads(done.stdout)
