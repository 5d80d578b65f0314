"""The alarm job's batches: judge cleaned rows by the rules, keep what is known, tell what has changed.

Time must pass where nothing comes, or nobody would hear of silence. So the query reads ticks beside the rows, which
make a batch of every trigger. In a batch with rows it is as late as their newest arrival: a job that catches up does
not take its own delay for silence. In one without, everything was read, and it is as late as the clock says, less the
time that a reading takes to get here.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from iot_spark.alarm_rules import AlarmRule
from iot_spark.kept import Kept
from iot_spark.senders import Sender, letters_out, topic_of
from iot_spark.settings import Settings
from iot_spark.sinks import LETTERS, Batch, Out, TableSink
from iot_spark.transforms.alarm import LEVELS, Judged, Known, judge
from iot_spark.transforms.alarm_output import TOO_LATE, alarm_records, command_records, with_commands, withheld
from iot_spark.transforms.alarm_readings import RECENT

TABLE: Final = "alarms"
#: Where commands go, beside the tables, when there is no topic for them.
COMMANDS: Final = "commands"
#: A reading may take so many triggers to get here: its own job's, this one's, and what the broker needs.
_UNDER_WAY: Final = 3


def with_ticks(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """A stream of rows that has a batch whenever it is asked. The ticks are rows in which everything is null.

    Of Spark's sources of ticks this is the one that knows ``availableNow``: beside the other, a ``--once`` that begins
    with a batch of an earlier life would end after it.
    """
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema]
    return rows.unionByName(ticks.select(*nothing))


class Watch:
    """What ``foreachBatch`` calls."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        rules: Sequence[AlarmRule],
        kept: Kept,
        sink: TableSink,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._rules = rules
        self._digest = hashlib.sha256(repr(rules).encode()).hexdigest()[:16]
        self._kept = kept
        self._sink = sink
        self._now = now
        self._outs = _outs(spark, settings)
        self._has_topic = settings.source.kind == "kafka" and settings.alarm.commands_topic is not None

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Judge a batch of cleaned rows and ticks."""
        with self._sink.batch(number) as batch:
            for table, out in self._outs:
                batch.send(table, out)
            if not self._has_topic:
                path = self._settings.tables.parent / COMMANDS / f"{batch.name}.jsonl"
                batch.send(TABLE, lambda alarms: write_lines(path, command_records(alarms)))
            if not (batch.is_done or batch.is_decided):
                self._kept.keep(number, self._judge(rows.where("gateway is not null"), number, batch))

    def _judge(self, rows: DataFrame, number: int, batch: Batch) -> Mapping[str, Any]:
        before = self._kept.before(number)
        rows = rows.persist()
        try:
            told = rows.agg(
                F.count(F.lit(1)).alias("rows"), F.unix_millis(F.max("ingest_ts")).alias("newest")
            ).collect()[0]
            now = int(self._now() * 1000)
            clock = told["newest"] if told["rows"] else now - int(self._settings.trigger_seconds * _UNDER_WAY * 1000)
            if not told["rows"] and before.get("rules") == self._digest and clock < before.get("due", clock + 1):
                return before
            judged = judge(rows, self._known(before), self._rules, clock)
            batch.count(rows=told["rows"])
            return self._settle(judged, number, now, batch)
        finally:
            rows.unpersist()

    def _settle(self, judged: Judged, number: int, now: int, batch: Batch) -> Mapping[str, Any]:
        """Write what was found."""
        runs = judged.runs.persist()
        try:
            told = _summary(judged)
            batch.count(raised=told["raised"], cleared=told["cleared"], skipped=told["skipped"])
            if told["raised"]:
                batch.count_named("raised", _raised(runs))
            if told["raised"] or told["cleared"]:
                batch.table(TABLE, with_commands(judged.changes, self._rules, now).coalesce(1))
                _count_withheld(withheld(batch.written(TABLE)), batch)
            levels = self._kept.write("levels", number, judged.known.levels)
            recent = self._kept.write("recent", number, judged.known.recent)
        finally:
            runs.unpersist()
        facts = {"rules": self._digest, "active": told["active"], "parts": [levels, recent]}
        return facts if told["due"] is None else facts | {"due": told["due"]}

    def _known(self, before: Mapping[str, Any]) -> Known:
        if "parts" not in before:
            return Known(self._spark.createDataFrame([], LEVELS), self._spark.createDataFrame([], RECENT))
        levels, recent = before["parts"]
        return Known(self._kept.rows(levels, LEVELS), self._kept.rows(recent, RECENT))


def _outs(spark: SparkSession, settings: Settings) -> list[tuple[str, Out]]:
    """What is told to others, of which table. Dead letters last: what a topic refuses is one of them."""
    if settings.source.kind != "kafka":
        return []
    told = ((settings.alarm.topic, alarm_records), (settings.alarm.commands_topic, command_records))
    topics = [(topic_of(spark, settings, name), records) for name, records in told]
    found: list[tuple[str, Out]] = [(TABLE, Sender(topic, records)) for topic, records in topics if topic is not None]
    letters = letters_out(spark, settings)
    return [*found, (LETTERS, letters)] if letters is not None else found


def _count_withheld(rows: DataFrame, batch: Batch) -> None:
    """Those that were too late by device, too: what has a wrong clock shows."""
    late, over = Counter[str](), 0
    for row in rows.collect():
        if row["detail"] == TOO_LATE:
            late[row["who"]] += row["count"]
        else:
            over += row["count"]
    batch.count(commands_too_late=late.total(), commands_over=over)
    batch.count_named("commands_too_late", late)


#: Runs that a batch raises an alarm for.
_IS_RAISED: Final = "held and not raised"


def _raised(runs: DataFrame) -> dict[str, int]:
    """Alarms by the rule that raises them: there are as many names as rules."""
    return {row["rule"]: row["count"] for row in runs.where(_IS_RAISED).groupBy("rule").count().collect()}


def _summary(judged: Judged) -> Row:
    """Counts of a batch, and when silence, or a run's hold, will have lasted long enough."""
    is_cleared = F.col("held") & (F.col("ends").isNotNull() | F.col("retired"))
    stands = F.col("ends").isNull() & ~F.col("retired")
    return judged.runs.agg(
        F.count_if(F.expr(_IS_RAISED)).alias("raised"),
        F.count(F.when(is_cleared, 1)).alias("cleared"),
        F.coalesce(F.sum("skipped"), F.lit(0)).alias("skipped"),
        F.count(F.when(stands & F.col("held"), 1)).alias("active"),
        F.min(F.when(stands & F.col("on") & ~F.col("held"), F.col("ingest") + F.col("hold"))).alias("due"),
    ).collect()[0]


def write_lines(path: Path, records: DataFrame) -> None:
    """The ``value`` of each record in a file, whole or not at all; no file if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}")
    with written.open("w", encoding="utf-8") as file:
        file.writelines(f"{record['value']}\n" for record in records.toLocalIterator())
    if written.stat().st_size:
        written.replace(path)
    else:
        written.unlink()
