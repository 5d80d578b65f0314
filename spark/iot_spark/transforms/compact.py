"""Small files of ``clean`` made into days: few files each, sorted by gateway, device, tag and time.

A day may be compacted again and again: what came late to it is merged in. Batches that are younger than ``settled``
stay, because ``aggregate`` and ``alarm`` read them as a stream and may not have come that far. What happens when it
is killed: see ``iot_spark.folding``; rows are counted before anything is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from iot_spark.folding import BATCH, Lost, fold
from iot_spark.schema import CLEAN
from iot_spark.sinks import State, is_visible, states
from iot_spark.sources import DAILY, read_paths

ORDER = ("gateway", "device", "tag", "ts")
#: Small files of so many bytes make one of a day.
FILE_BYTES = 128 * 1024 * 1024
NAME = "clean"


@dataclass(frozen=True, slots=True)
class Which:
    """What is compacted."""

    today: date
    #: Days that are younger are left alone; 1: all before today.
    older_than_days: int = 1
    #: Seconds since 1970: batches that were written later are left alone.
    settled_before: float = float("inf")


def compact(spark: SparkSession, tables: Path, which: Which) -> dict[str, int]:
    """Compact all days that are due. The rows that were taken in, by day."""
    last = (which.today - timedelta(days=which.older_than_days)).isoformat()
    # Before the listing, as readers do: a batch that gets visible after it is for the next time.
    known = states(tables)
    done = {}
    for day in sorted((tables / NAME).glob("dt=*")):
        if day.name.removeprefix("dt=") > last:
            continue
        taken = _due(day, which, known)
        rows = _compact_day(spark, day, tables / DAILY / day.name, taken)
        if rows is not None:
            done[day.name.removeprefix("dt=")] = rows
    return done


def _due(day: Path, which: Which, known: dict[str, State]) -> list[Path]:
    return [
        path
        for path in sorted(day.glob(f"{BATCH}*"))
        if is_visible(path.name, known) and path.stat().st_mtime <= which.settled_before
    ]


def _compact_day(spark: SparkSession, batches: Path, days: Path, taken: list[Path]) -> int | None:
    rows = 0

    def write(paths: Sequence[Path], target: Path) -> None:
        nonlocal rows
        found = read_paths(spark, list(paths), CLEAN).drop("dt")
        size = sum(file.stat().st_size for path in paths for file in path.glob("*.parquet"))
        _sorted(found, max(1, round(size / FILE_BYTES))).write.parquet(str(target))
        rows = read_paths(spark, list(taken), CLEAN).count()
        before, after = found.count(), spark.read.parquet(str(target)).count()
        if before != after:
            raise Lost(f"{batches.name}: {before} rows were read and {after} written; nothing was removed")

    return rows if fold(batches, days, taken, write) is not None else None


def _sorted(rows: DataFrame, files: int) -> DataFrame:
    parts = rows.coalesce(1) if files == 1 else rows.repartitionByRange(files, *ORDER[:3])
    return parts.sortWithinPartitions(*ORDER)
