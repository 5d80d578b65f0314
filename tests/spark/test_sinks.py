"""A batch is written once and whole, wherever its writing ends; and sources give what is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from iot_spark import sinks
from iot_spark.sinks import SetBack, TableSink, Taken, states
from iot_spark.sources import batch, read_table, table_paths
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, LongType, StructField, StructType

from tests.spark.records import put, reading, settings

SHAPE = StructType([StructField("n", LongType()), StructField("dt", DateType())])


class Killed(BaseException):
    """Nothing after it happens, as after SIGKILL."""


class Query:
    """A query that writes two tables, two days each, and sends one of them."""

    def __init__(self, spark: SparkSession, root: Path, run: str = "11111111") -> None:
        self.spark, self.root = spark, root
        self.checkpoint = root / "checkpoint"
        (self.checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "metadata").write_text(f'{{"id":"{run}-2222"}}')
        self.sent: list[int] = []
        self.sink = TableSink(spark, root / "tables", "q", self.checkpoint)

    def rows(self, *numbers: int) -> DataFrame:
        said = " union all ".join(f"select {n}L n, date'2026-09-2{n % 2}' dt" for n in numbers)
        return self.spark.sql(said)

    def life(self, number: int, *numbers: int, offsets: str = "") -> None:
        """A process: it begins, writes one batch, and is gone."""
        self.sink = TableSink(self.spark, self.root / "tables", "q", self.checkpoint)
        self.sink.open(patience=0)
        try:
            (self.checkpoint / "offsets" / str(number)).write_text(offsets or str(number))
            with self.sink.batch(number) as batch:
                batch.send("one", lambda rows: self.sent.extend(sorted(row.n for row in rows.collect())))
                batch.table("one", self.rows(*numbers))
                batch.table("two", self.rows(*numbers))
                batch.count(rows=len(numbers))
        finally:
            self.sink.close()

    def read(self, table: str) -> list[int]:
        return sorted(row.n for row in read_table(self.spark, self.root / "tables", table, SHAPE).collect())


def dies(after: int) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """A function that works so many times and kills the process the next time, before it does anything."""
    calls = 0

    def wrap(real: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            if calls > after:
                raise Killed
            return real(*arguments, **named)

        return called

    return wrap


#: Where the process ends: what is called, and how often it was before.
STEPS = [
    ("table", 1, []),  # between the two tables
    ("decide", 0, []),  # before it is decided
    ("move", 0, [1, 2, 3]),  # decided and sent
    ("rename", 1, [1, 2, 3]),  # half of the directories have their place
    ("show", 0, [1, 2, 3]),  # all of them
    ("clear", 0, [1, 2, 3]),  # shown
]


@pytest.mark.parametrize(("step", "after", "sent"), STEPS)
def test_a_batch_is_there_once_wherever_its_writing_ended(
    spark: SparkSession, tmp_path: Path, step: str, after: int, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at each step and run again, as Spark does: never half of it is seen, and then all of it, once."""
    query = Query(spark, tmp_path)
    query.life(0, 9)
    places = {
        "table": (sinks.Batch, "table"),
        "decide": (sinks.Batch, "_decide"),
        "move": (sinks, "move"),
        "rename": (Path, "rename"),
        "show": (sinks.TableSink, "show"),
        "clear": (shutil, "rmtree"),
    }
    query.sent.clear()
    with monkeypatch.context() as patched:
        where, name = places[step]
        # The first rename decides.
        patched.setattr(where, name, dies(after + (step == "rename"))(getattr(where, name)))
        with pytest.raises(Killed):
            query.life(1, 1, 2, 3)
    seen = [1, 2, 3, 9] if step == "clear" else [9]
    assert query.read("one") == query.read("two") == seen
    first = list(query.sent)
    query.life(1, 1, 2, 3)
    assert query.read("one") == query.read("two") == [1, 2, 3, 9]
    assert states(tmp_path / "tables")["q"].totals == {"rows": 4}
    # At least once; and not again when all of it was sent.
    assert first == sent and sorted(query.sent) == [1, 2, 3]
    assert list((tmp_path / "tables" / ".staging").iterdir()) == []


def test_a_decided_batch_counts_even_if_its_checkpoint_is_gone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new run finishes what the old one had decided, and does not overwrite it."""
    query = Query(spark, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(sinks, "move", dies(0)(sinks.move))
        with pytest.raises(Killed):
            query.life(0, 1)
    again = Query(spark, tmp_path, run="99999999")
    again.life(0, 2)
    assert again.read("one") == [1, 2] and states(tmp_path / "tables")["q"].totals == {"rows": 2}


def test_a_checkpoint_that_was_set_back_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its numbers mean other records now; passing over them would lose them."""
    query = Query(spark, tmp_path)
    query.life(0, 1)
    query.life(1, 2)
    query.life(1, 2)
    with pytest.raises(SetBack, match="Remove the checkpoint"):
        query.life(0, 1)
    with pytest.raises(SetBack):
        query.life(1, 3, offsets="others")
    assert query.read("one") == [1, 2]


def test_two_processes_do_not_run_one_job(spark: SparkSession, tmp_path: Path) -> None:
    """The second is told; it gets in when the first is gone."""
    first = TableSink(spark, tmp_path, "q", tmp_path)
    second = TableSink(spark, tmp_path, "q", tmp_path)
    first.open()
    with pytest.raises(Taken, match="another process runs 'q'"):
        second.open(patience=0)
    TableSink(spark, tmp_path, "other", tmp_path).open(patience=0)
    first.close()
    second.open(patience=0)
    second.close()


def test_days_of_a_table_can_be_chosen(spark: SparkSession, tmp_path: Path) -> None:
    """By their names, so other days are not even listed."""
    query = Query(spark, tmp_path)
    query.life(0, 1, 2)
    assert len(table_paths(tmp_path / "tables", "one")) == 2
    found = table_paths(tmp_path / "tables", "one", "2026-09-21", "2026-09-21")
    assert [path.parent.name for path in found] == ["dt=2026-09-21"]
    assert read_table(spark, tmp_path / "tables", "none", SHAPE).collect() == []


def test_files_that_are_not_finished_are_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    """And each record knows its topic."""
    told = settings(tmp_path, source={"kind": "files", "dir": str(tmp_path / "up"), "topics": ["a", "b", "none"]})
    put(tmp_path / "up", "one", [reading(1), "{broken"], topic="a")
    put(tmp_path / "up", "two", [reading(2)], topic="b")
    put(tmp_path / "up", "three", [reading(3)], topic="not.asked")
    hidden = tmp_path / "up" / ".open"
    hidden.mkdir()
    (hidden / "a.jsonl").write_text("half")
    (tmp_path / "up" / "a" / "dt=2026-09-21" / ".x.jsonl").write_text("half")
    found = batch(spark, told.source).orderBy("topic", "raw").collect()
    assert [(row.topic, row.raw[:9]) for row in found] == [("a", '{"id": "g'), ("a", "{broken"), ("b", '{"id": "g')]
    assert all(row.arrived is not None for row in found)
