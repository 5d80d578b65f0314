"""What jobs read: the broker's records, from Kafka or from its files, and the tables that other jobs write.

Records come as ``raw STRING, topic STRING, arrived TIMESTAMP``, whatever they come from. ``arrived`` is the record's
time in Kafka, or the file's.
"""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import StringType, StructField, StructType

from iot_spark.folding import live
from iot_spark.schema import CLEAN
from iot_spark.settings import Source
from iot_spark.sinks import is_visible, states

#: A file that is this much older than the newest is passed over, which bounds what Spark remembers of files.
FORGET_FILES = "30d"
#: Files of the broker; what begins with a dot is not finished.
GLOB = "*.jsonl*"


def stream(spark: SparkSession, source: Source) -> DataFrame:
    """The records, from the first on that there is and as they come."""
    if source.kind == "kafka":
        reader = spark.readStream.format("kafka").options(**_kafka(source))
        return _of_kafka(
            reader.option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", source.max_records)
            .option("failOnDataLoss", "true")
            .load()
        )
    return _of_files(
        spark.readStream.format("text")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", GLOB)
        .option("lineSep", "\n")
        .option("maxFilesPerTrigger", source.max_files)
        .option("maxFileAge", FORGET_FILES)
        .load(_topic_glob(source))
    )


def batch(spark: SparkSession, source: Source) -> DataFrame:
    """All records that there are now."""
    if source.kind == "kafka":
        return _of_kafka(spark.read.format("kafka").options(**_kafka(source)).load())
    return _of_files(
        spark.read.format("text")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", GLOB)
        .option("lineSep", "\n")
        .load(_topic_glob(source))
    )


def _kafka(source: Source) -> dict[str, str]:
    return {
        **source.kafka_options,
        "kafka.bootstrap.servers": source.bootstrap_servers or "",
        "subscribe": ",".join(source.topics),
    }


def _of_kafka(frame: DataFrame) -> DataFrame:
    return frame.select(F.col("value").cast("string").alias("raw"), F.col("topic"), F.col("timestamp").alias("arrived"))


def _topic_glob(source: Source) -> str:
    """One path for all topics, so that a topic may be added to a query that has begun."""
    if source.dir is None:
        raise ValueError("source.dir is missing")
    for topic in source.topics:
        (source.dir / topic).mkdir(parents=True, exist_ok=True)
    return f"{source.dir}/{{{','.join(source.topics)}}}"


def _of_files(frame: DataFrame) -> DataFrame:
    return frame.select(
        F.col("value").alias("raw"),
        # …/<topic>/dt=<day>/<file>; by a pattern it would cost more than reading the line.
        F.substring_index(F.substring_index("_metadata.file_path", "/", -3), "/", 1).alias("topic"),
        F.col("_metadata.file_modification_time").alias("arrived"),
    )


def kafka_options(source: Source) -> dict[str, str]:
    """What a writer to Kafka needs: where it is and how to log on."""
    return {**source.kafka_options, "kafka.bootstrap.servers": source.bootstrap_servers or ""}


# Tables.


def table_stream(
    spark: SparkSession, tables: Path, name: str, schema: StructType = CLEAN, max_files: int = 500
) -> DataFrame:
    """Rows of a table as batches write them. Files appear whole; each is read once."""
    (tables / name).mkdir(parents=True, exist_ok=True)
    # Both columns that are directories are named: of a table that is empty yet Spark would find them in the middle of
    # the stream, and fail.
    told = StructType([*schema.fields, StructField("batch", StringType())])
    return (
        spark.readStream.schema(told)
        .format("parquet")
        .option("maxFilesPerTrigger", max_files)
        .option("maxFileAge", FORGET_FILES)
        .load(str(tables / name))
        .drop("batch")
    )


def read_table(
    spark: SparkSession, tables: Path, name: str, schema: StructType = CLEAN, first: str = "", last: str = "9999"
) -> DataFrame:
    """A table as it is now, each row once: batches that are whole, and for ``clean`` what was compacted into days.

    ``first`` and ``last`` are days like ``2026-11-21``, both included.
    """
    return read_paths(spark, table_paths(tables, name, first, last), schema)


def table_paths(tables: Path, name: str, first: str = "", last: str = "9999") -> list[Path]:
    """The directories to read, each below its ``dt=…``."""
    # Before the listing: what gets visible after it counts as not there.
    known = states(tables)
    folded = tables / DAILY if name == "clean" else tables / name
    days = {path.name for root in {tables / name, folded} for path in root.glob("dt=*")}
    found: list[Path] = []
    for day in sorted(days):
        if first <= day.removeprefix("dt=") <= last:
            found += [path for path in live(tables / name / day, folded / day) if is_visible(path.name, known)]
    return found


#: Where ``compact`` puts days of ``clean``.
DAILY = "daily"


def read_paths(spark: SparkSession, paths: list[Path], schema: StructType) -> DataFrame:
    """Rows of directories ``…/dt=<day>/<batch or version>``; ``dt`` is the directory's."""
    if not paths:
        return spark.createDataFrame([], schema)
    names = [name for name in schema.names if name != "dt"]
    stored = StructType([one for one in schema if one.name != "dt"])
    frame = spark.read.schema(stored).parquet(*map(str, paths))
    if "dt" not in schema.names:
        return frame.select(*names)
    day = F.regexp_extract(F.col("_metadata.file_path"), re.escape("/dt=") + r"(\d{4}-\d\d-\d\d)/", 1)
    return frame.select(*names, day.cast("date").alias("dt"))
