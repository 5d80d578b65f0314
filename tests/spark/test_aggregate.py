"""Windows of event time: what they say of readings, and that each row is in one, or among the late ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from iot_spark.kept import Kept, NotKept
from iot_spark.settings import Aggregate
from iot_spark.sinks import TableSink
from iot_spark.windows import LATE, TABLE, Windows
from pyspark.sql import Row, SparkSession

from tests.spark.alarm_reference import Reading
from tests.spark.test_alarm import at, frame

SETTINGS = Aggregate(window_seconds=60, lateness_seconds=30)


def begun(root: Path) -> Path:
    """A checkpoint as Spark makes it when a query begins."""
    checkpoint = root / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "0123abcd-0000-0000-0000-000000000000"}))
    return checkpoint


def planned(root: Path, number: int) -> None:
    """What Spark writes before a batch begins."""
    (root / "checkpoint" / "offsets" / str(number)).write_text(f"batch {number}")


class Job:
    """Sums up one batch after the other, in files as the job does."""

    def __init__(self, spark: SparkSession, root: Path, settings: Aggregate = SETTINGS) -> None:
        self.spark = spark
        self._root = root
        checkpoint = begun(root)
        self.sink = TableSink(spark, root / "tables", "aggregate", checkpoint)
        self.sink.open()
        self.windows = Windows(settings, Kept(spark, checkpoint), self.sink)

    def batch(self, number: int, readings: Sequence[Reading]) -> None:
        planned(self._root, number)
        self.windows(frame(self.spark, readings), number)

    def rows(self, table: str) -> list[Row]:
        """Everything in a table, ordered."""
        folder = self._root / "tables" / table
        if not folder.exists():
            return []
        found = self.spark.read.parquet(str(folder)).collect()
        return sorted(found, key=lambda row: (row["device"], row["tag"], row["window_start"]))


def test_windows_close_once_and_late_rows_are_counted_apart(spark: SparkSession, tmp_path: Path) -> None:
    """Four batches with one run again, one late row, one clock ahead, and a restart between."""
    job = Job(spark, tmp_path)
    # Sequence numbers are the places in the list.
    first = [
        at(0, 10),
        at(10, 30, tag="u"),
        at(50, 20),
        at(59.999, 99, quality="uncertain"),
        at(3600, 7, device="ahead", came=60),
    ]
    job.batch(0, first)
    job.batch(0, first)
    assert job.rows(TABLE) == [] and job.sink.state.totals == {"rows": 5, "late": 0}
    job.batch(1, [at(20, None), at(30, 5), at(61, 1)])
    assert job.rows(TABLE) == []
    job.sink.close()
    job = Job(spark, tmp_path)
    job.batch(2, [at(90, 3)])
    [t, u] = job.rows(TABLE)
    job.batch(3, [at(5, 1000), at(91, 4)])
    [late] = job.rows(LATE)
    assert job.rows(TABLE) == [t, u]
    told = {name: t[name] for name in ("count", "numbers", "doubtful", "sum", "min", "max", "mean", "last", "silence")}
    assert told == {
        "count": 5,
        "numbers": 4,
        "doubtful": 1,
        "sum": 134,
        "min": 5,
        "max": 99,
        "mean": 33.5,
        "last": 99,
        "silence": 20,
    }
    # Of 0 … 3 the tag has 0, 2, 3 and, from the second batch, 0 and 1; the other tag of the device has 1.
    assert (t["first_seq"], t["last_seq"], t["missing"]) == (0, 3, 0)
    assert (u["count"], u["last"], u["missing"], u["silence"]) == (1, 30, 0, None)
    assert (late["count"], late["last"]) == (1, 1000)
    assert job.sink.state.totals == {"rows": 11, "late": 1, "windows": 2}
    job.sink.close()


def test_missing_numbers_and_the_longest_silence(spark: SparkSession, tmp_path: Path) -> None:
    """Numbers that no tag of the device had, between a tag's first and last; rows come in any order."""
    job = Job(spark, tmp_path, Aggregate(window_seconds=60, lateness_seconds=0))
    rows = frame(spark, [at(0, 1), at(1, 2), at(2, 3, tag="u"), at(3, 4), at(14, 5), at(15, 6, tag="u"), at(16, 7)])
    planned(tmp_path, 0)
    job.windows(rows.where("seq not in (1, 3)").orderBy("value", ascending=False), 0)
    job.batch(1, [at(60, 0), at(120, 0)])
    [t] = [row for row in job.rows(TABLE) if row["tag"] == "t" and row["last"] == 7]
    [u] = [row for row in job.rows(TABLE) if row["tag"] == "u"]
    assert job.sink.state.totals["windows"] == 3
    assert (t["missing"], t["silence"], u["missing"], u["silence"]) == (2, 14, 1, 13)
    job.sink.close()


def test_what_is_kept_is_bounded_and_its_loss_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """Facts of old batches are removed; without those of the batch before, nothing is summed up."""
    job = Job(spark, tmp_path)
    for number in range(5):
        job.batch(number, [at(number * 100, 1)])
    kept = tmp_path / "checkpoint" / "kept"
    assert len(list(kept.glob("*.json"))) == 3 and len(list(kept.glob("partials-*"))) <= 3
    planned(tmp_path, 5)
    with pytest.raises(ValueError, match="window_seconds was 60 and is 30"):
        Windows(Aggregate(30, 30), Kept(spark, tmp_path / "checkpoint"), job.sink)(frame(spark, [at(0, 1)]), 5)
    (kept / "000000000004.json").unlink()
    with pytest.raises(NotKept, match="remove it as a whole"):
        job.batch(5, [at(1000, 1)])
    job.sink.close()
