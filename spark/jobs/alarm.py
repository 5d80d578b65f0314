"""From the table ``clean`` to alarms and commands, by the rules: ``alarm.py --settings FILE [--once]``."""

from __future__ import annotations

import sys

from iot_spark import running, sources
from iot_spark.alarm_rules import read_alarms
from iot_spark.kept import Kept
from iot_spark.settings import Settings
from iot_spark.sinks import TableSink
from iot_spark.watch import Watch, with_ticks
from pyspark.sql import DataFrame, SparkSession


def begin(spark: SparkSession, settings: Settings, sink: TableSink) -> tuple[DataFrame, running.OnBatch]:
    """The stream, and what takes its batches."""
    rules = read_alarms(settings.rules.alarms)
    kept = Kept(spark, settings.checkpoint(sink.query))
    rows = with_ticks(spark, sources.table_stream(spark, settings.tables, "clean"))
    return rows, Watch(spark, settings, rules, kept, sink)


if __name__ == "__main__":
    sys.exit(running.main("alarm", begin))
