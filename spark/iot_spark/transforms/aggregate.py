"""From cleaned rows to windows of event time: one row for each gateway, device, tag and window.

A batch is summed up to *partials*, which are merged when their window closes: when the watermark, the newest time seen
less the lateness allowed, has passed its end. A clock that is ahead does not move the watermark past the arrival. A
row that comes for a window that was closed before is *late*: it is summed up the same way, for a table of its own, so
that the counts of both tables together are the number of rows, and whoever wants exact sums merges the two.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType

SERIES: Final = ("gateway", "device", "tag", "start")

_LAST: Final = StructType(
    [
        StructField("ts", LongType()),
        StructField("seq", LongType()),
        StructField("ingest", LongType()),
        StructField("id", StringType()),
        StructField("value", DoubleType()),
        StructField("text", StringType()),
        StructField("unit", StringType()),
    ]
)

#: A window of a series as far as it was seen. Times are milliseconds.
PARTIAL: Final = StructType(
    [
        StructField("gateway", StringType()),
        StructField("device", StringType()),
        StructField("tag", StringType()),
        StructField("start", LongType()),
        StructField("count", LongType()),
        # Of these a number, and those of a quality other than good.
        StructField("numbers", LongType()),
        StructField("doubtful", LongType()),
        StructField("sum", DoubleType()),
        StructField("min", DoubleType()),
        StructField("max", DoubleType()),
        StructField("last", _LAST),
        # The newest time, and none later than its arrival: what moves the watermark.
        StructField("newest", LongType()),
        # All there were, for the gaps: they are known when the window is whole.
        StructField("times", ArrayType(LongType())),
        StructField("seqs", ArrayType(LongType())),
    ]
)


def partials(rows: DataFrame, window_seconds: int) -> DataFrame:
    """The cleaned rows of a batch, summed up by series and window."""
    span = window_seconds * 1000
    ts = F.unix_millis("ts")
    # Not `div`: before 1970 it would round the wrong way.
    start = ts - F.pmod(ts, F.lit(span))
    last = F.struct(
        ts.alias("ts"),
        F.col("seq"),
        F.unix_millis("ingest_ts").alias("ingest"),
        F.col("id"),
        F.col("value"),
        F.col("text"),
        F.col("unit"),
    )
    return (
        rows.withColumn("start", start)
        .groupBy(*SERIES)
        .agg(
            F.count(F.lit(1)).alias("count"),
            F.count("value").alias("numbers"),
            F.count(F.when(F.col("quality") != "good", 1)).alias("doubtful"),
            F.sum("value").alias("sum"),
            F.min("value").alias("min"),
            F.max("value").alias("max"),
            F.max(last).alias("last"),
            F.max(F.least(ts, F.unix_millis("ingest_ts"))).alias("newest"),
            F.collect_set(ts).alias("times"),
            F.collect_set("seq").alias("seqs"),
        )
    )


def merged(several: DataFrame) -> DataFrame:
    """Partials of the same window made one."""
    return several.groupBy(*SERIES).agg(
        F.sum("count").alias("count"),
        F.sum("numbers").alias("numbers"),
        F.sum("doubtful").alias("doubtful"),
        F.sum("sum").alias("sum"),
        F.min("min").alias("min"),
        F.max("max").alias("max"),
        F.max("last").alias("last"),
        F.max("newest").alias("newest"),
        F.array_distinct(F.flatten(F.collect_list("times"))).alias("times"),
        F.array_distinct(F.flatten(F.collect_list("seqs"))).alias("seqs"),
    )


def finished(whole: DataFrame, window_seconds: int) -> DataFrame:
    """Rows of the table, from partials that are whole.

    ``missing``: the numbers between a tag's first and last that no message of its device had; a number without this tag
    is not missing. ``silence``: the longest time between two readings of the window, in seconds; null if there is one.
    """
    device = Window.partitionBy("gateway", "device", "start")
    lowest, highest = F.array_min("seqs"), F.array_max("seqs")
    seen = F.array_distinct(F.flatten(F.collect_list("seqs").over(device)))
    between = F.filter("seen", lambda seq: (seq >= F.col("lowest")) & (seq <= F.col("highest")))
    times = F.array_sort("times")
    return whole.withColumns({"seen": seen, "lowest": lowest, "highest": highest, "times": times}).select(
        "gateway",
        "device",
        "tag",
        F.timestamp_millis("start").alias("window_start"),
        F.timestamp_millis(F.col("start") + window_seconds * 1000).alias("window_end"),
        "count",
        "numbers",
        "doubtful",
        "sum",
        "min",
        "max",
        (F.col("sum") / F.col("numbers")).alias("mean"),
        F.col("last.value").alias("last"),
        F.col("last.text").alias("last_text"),
        F.col("last.unit").alias("unit"),
        F.timestamp_millis(F.array_min("times")).alias("first_ts"),
        F.timestamp_millis(F.array_max("times")).alias("last_ts"),
        F.col("lowest").alias("first_seq"),
        F.col("highest").alias("last_seq"),
        (F.col("highest") - F.col("lowest") + 1 - F.size(between)).alias("missing"),
        _longest_silence(F.col("times")).alias("silence"),
        F.to_date(F.timestamp_millis("start")).alias("dt"),
    )


def _longest_silence(times: Column) -> Column:
    """The greatest difference of neighbours of a sorted array of milliseconds, in seconds."""
    count = F.size(times)
    steps = F.zip_with(
        F.slice(times, F.lit(2), count - 1),
        F.slice(times, F.lit(1), count - 1),
        lambda later, earlier: later - earlier,
    )
    return F.when(count > 1, F.array_max(steps) / F.lit(1000.0))
