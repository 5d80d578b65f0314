"""``compact``: days in few sorted files, and at no moment a row missing or there twice."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest
from iot_spark.folding import Lost
from iot_spark.schema import CLEAN
from iot_spark.sinks import State, replace_json
from iot_spark.sources import read_table
from iot_spark.transforms import compact as compacting
from iot_spark.transforms.compact import Which, compact
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

WHICH = Which(date(2026, 9, 22))


def add(spark: SparkSession, tables: Path, number: int, day: str, *seqs: int, shown: bool = True) -> None:
    """A batch of ``clean`` for one day, as the sink leaves it."""
    rows = spark.createDataFrame(
        [(f"gw-{seq % 3}", seq, f"{day} 10:00:00") for seq in seqs], "g string, q long, t string"
    )
    made = {"gateway": F.col("g"), "seq": F.col("q"), "ts": F.to_timestamp("t"), "tag": F.lit("temp")}
    names = [field for field in CLEAN if field.name != "dt"]
    frame = rows.select(*(made.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in names))
    frame.write.parquet(str(tables / "clean" / f"dt={day}" / f"batch=clean-11111111-{number:012d}"))
    replace_json(tables / ".state" / "clean.json", State("11111111", number if shown else number - 1, {})._asdict())


def read(spark: SparkSession, tables: Path) -> Counter[tuple[str, int]]:
    return Counter((str(row.dt), row.seq) for row in read_table(spark, tables, "clean").collect())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_days_are_compacted_sorted_and_late_rows_join(spark: SparkSession, tmp_path: Path) -> None:
    """What is of today stays; what comes late to a day joins it; doing it again changes nothing."""
    add(spark, tmp_path, 0, "2026-09-21", 5, 4, 3)
    add(spark, tmp_path, 1, "2026-09-21", 2, 1)
    add(spark, tmp_path, 2, "2026-09-22", 6)
    expected = Counter([*(("2026-09-21", seq) for seq in range(1, 6)), ("2026-09-22", 6)])
    assert read(spark, tmp_path) == expected
    assert compact(spark, tmp_path, WHICH) == {"2026-09-21": 5}
    assert read(spark, tmp_path) == expected
    assert names(tmp_path / "clean") == ["dt=2026-09-22"]
    day = tmp_path / "daily" / "dt=2026-09-21"
    files = sorted(day.glob("version=*/*.parquet"))
    assert len(files) == 1
    order = [(row.gateway, row.device, row.tag, row.ts) for row in spark.read.parquet(str(files[0])).collect()]
    assert order == sorted(order, key=str)
    assert compact(spark, tmp_path, WHICH) == {}
    add(spark, tmp_path, 3, "2026-09-21", 7)
    expected["2026-09-21", 7] = 1
    assert read(spark, tmp_path) == expected
    assert compact(spark, tmp_path, WHICH) == {"2026-09-21": 1}
    assert read(spark, tmp_path) == expected
    assert names(day) == ["version=000000000002"]


def test_at_no_step_is_a_row_missing_or_there_twice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before each removal and looked at; the next time puts it right."""
    for number in range(2):
        add(spark, tmp_path, number, "2026-09-21", number)
    compact(spark, tmp_path, WHICH)
    for number in range(2, 5):
        add(spark, tmp_path, number, "2026-09-21", number)
    expected = Counter(("2026-09-21", seq) for seq in range(5))
    real, looks = shutil.rmtree, 0

    def watched(path: Path, ignore_errors: bool = False) -> None:
        nonlocal looks
        assert read(spark, tmp_path) == expected
        real(path, ignore_errors=ignore_errors)
        looks += 1
        # What was staged, a batch, and another; the third batch is left.
        if looks == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", watched)
        with pytest.raises(KeyboardInterrupt):
            compact(spark, tmp_path, WHICH)
    assert looks == 3
    assert read(spark, tmp_path) == expected
    assert names(tmp_path / "clean" / "dt=2026-09-21") == ["batch=clean-11111111-000000000004"]
    assert compact(spark, tmp_path, WHICH) == {}
    assert read(spark, tmp_path) == expected
    assert names(tmp_path / "clean") == []


def test_what_is_not_whole_or_not_settled_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that is being moved into its place, and one that streams may still have to read."""
    add(spark, tmp_path, 0, "2026-09-21", 1)
    add(spark, tmp_path, 1, "2026-09-21", 2, shown=False)
    assert read(spark, tmp_path) == Counter([("2026-09-21", 1)])
    assert compact(spark, tmp_path, Which(WHICH.today, settled_before=0)) == {}
    assert compact(spark, tmp_path, Which(WHICH.today + timedelta(days=1), older_than_days=3)) == {}
    assert compact(spark, tmp_path, WHICH) == {"2026-09-21": 1}
    assert names(tmp_path / "clean" / "dt=2026-09-21") == ["batch=clean-11111111-000000000001"]


def test_nothing_is_removed_if_the_rows_do_not_add_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are counted before and after."""
    add(spark, tmp_path, 0, "2026-09-21", 1, 2)
    monkeypatch.setattr(compacting, "_sorted", lambda rows, files: rows.limit(1))
    with pytest.raises(Lost, match="2 rows were read and 1 written"):
        compact(spark, tmp_path, WHICH)
    assert sum(read(spark, tmp_path).values()) == 2
    assert list((tmp_path / "daily").glob("dt=*")) == [] and names(tmp_path / "clean" / "dt=2026-09-21") != []
