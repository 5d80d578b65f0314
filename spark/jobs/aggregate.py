"""From the table ``clean`` to windows, in the table ``aggregate``: ``aggregate.py --settings FILE [--once]``."""

from __future__ import annotations

import sys

from iot_spark import running, sources
from iot_spark.kept import Kept
from iot_spark.settings import Settings
from iot_spark.sinks import TableSink
from iot_spark.windows import Windows
from pyspark.sql import DataFrame, SparkSession


def begin(spark: SparkSession, settings: Settings, sink: TableSink) -> tuple[DataFrame, running.OnBatch]:
    """The stream, and what takes its batches."""
    kept = Kept(spark, settings.checkpoint(sink.query))
    return sources.table_stream(spark, settings.tables, "clean"), Windows(settings.aggregate, kept, sink)


if __name__ == "__main__":
    sys.exit(running.main("aggregate", begin))
