"""Which files of the tables hold each row exactly once.

The rule is that of ``iot_spark.sinks`` and ``iot_spark.folding``, who write them. It is said again here, because those
are no part of the installed package and need Spark; a test holds both against each other.

::

    tables/.state/<query>.json                              what each query has shown: run, number of its last batch
    tables/<table>/dt=…/batch=<query>-<run>-<number>/       counts if it was shown, and no version holds it
    tables/<daily or table>/dt=…/version=<number>/          the newest counts; _holds.json names the batches in it

What is not to be read yet, or no more, is passed over, so a report can be made while jobs run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from iot_mqtt.app.pipeline.errors import PipelineError
from iot_mqtt.app.pipeline.report import limits

BATCH = "batch="
VERSION = "version="


class Shown(NamedTuple):
    """How far readers may look into what a query writes."""

    run: str
    batch: int


def days_of(tables: Path, name: str) -> list[date]:
    """The days that a table has directories for, oldest first."""
    found = set()
    for root in {tables / name, _folded(tables, name)}:
        for folder in root.glob("dt=*"):
            try:
                found.add(date.fromisoformat(folder.name.removeprefix("dt=")))
            except ValueError:
                continue
    return sorted(found)


def files_of(tables: Path, name: str, first: date, last: date) -> list[Path]:
    """The Parquet files of these days."""
    # Before the listing: what is shown after it counts as not there.
    shown = _shown(tables)
    found: list[Path] = []
    for day in days_of(tables, name):
        if first <= day <= last:
            for folder in _live(tables / name / f"dt={day}", _folded(tables, name) / f"dt={day}"):
                if _is_visible(folder.name, shown):
                    found += sorted(folder.glob("[!._]*.parquet"))
    if len(found) > limits.FILES:
        raise PipelineError(
            f"{tables / name} has {len(found)} files in these days: `iot-mqtt pipeline run compact --once` makes "
            "fewer of them, or ask for fewer --days"
        )
    return found


def named_of(tables: Path, query: str, what: str) -> dict[str, int]:
    """What a query has counted by name since its tables began, the largest first."""
    try:
        said = json.loads((tables / ".state" / f"{query}.json").read_bytes())
    except FileNotFoundError:
        return {}
    names: Mapping[str, int] = said.get("named", {}).get(what, {})
    return dict(sorted(names.items(), key=lambda one: (-one[1], one[0])))


def _folded(tables: Path, name: str) -> Path:
    return tables / ("daily" if name == "clean" else name)


def _live(batches: Path, versions: Path) -> list[Path]:
    # Batches first: those that a version takes in meanwhile are in its list.
    found = sorted(batches.glob(f"{BATCH}*"))
    numbered = sorted(versions.glob(f"{VERSION}*"))
    if not numbered:
        return found
    held = set(json.loads((numbered[-1] / "_holds.json").read_bytes())["batches"])
    return [numbered[-1], *(path for path in found if path.name not in held)]


def _shown(tables: Path) -> dict[str, Shown]:
    found = {}
    for path in (tables / ".state").glob("*.json"):
        said = json.loads(path.read_bytes())
        found[path.stem] = Shown(said["run"], said["batch"])
    return found


def _is_visible(name: str, shown: Mapping[str, Shown]) -> bool:
    if not name.startswith(BATCH):
        return True
    query, run, number = name.removeprefix(BATCH).rsplit("-", 2)
    state = shown.get(query)
    # A table that came without its state is as it was when it was copied.
    if state is None:
        return True
    # Of a run before the one that is, everything was finished.
    return state.run != run or int(number) <= state.batch
