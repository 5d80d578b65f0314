"""From raw records to the tables ``clean`` and ``invalid``: ``clean.py --settings FILE [--once]``."""

from __future__ import annotations

import sys

from iot_spark import running, sources
from iot_spark.cleaning import Cleaning, judged
from iot_spark.settings import Settings
from iot_spark.sinks import TableSink
from iot_spark.source_topics import hold_to_topics
from pyspark.sql import DataFrame, SparkSession


def begin(spark: SparkSession, settings: Settings, sink: TableSink) -> tuple[DataFrame, running.OnBatch]:
    """The stream, and what takes its batches."""
    hold_to_topics(spark, settings.source, settings.checkpoint(sink.query))
    return judged(sources.stream(spark, settings.source), settings), Cleaning(spark, settings, sink)


if __name__ == "__main__":
    sys.exit(running.main("clean", begin))
