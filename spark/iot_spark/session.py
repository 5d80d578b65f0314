"""The Spark session of a job: the same whether ``spark-submit`` starts it or Python does.

What is set here holds for every job: time in UTC, no web page, loopback alone when the master is local. Memory and the
connector's jars are for whoever starts the JVM: ``spark-submit``, or ``session`` where there is no JVM yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

#: What was made for the jobs besides their source; ``iot-mqtt pipeline`` names it where it is not beside it.
TARGET = Path(os.environ.get("IOT_MQTT_SPARK_TARGET") or Path(__file__).parent.parent / "target")
#: Where ``mvn -f spark/pom.xml package`` puts the connector.
JARS = TARGET / "jars"
#: Classes as ``jobs.archive`` leaves them.
ARCHIVE = TARGET / "classes.jsa"
_LOGGING = Path(__file__).with_name("log4j2.properties")

COMMON: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    # What is on disk is as good as what ran: a file or an offset that is gone is an error and never passed over.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # A table's directory holds data only; that a batch is whole is told by its name.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    # What a batch keeps is read a few times and gone: it is not worth packing.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # In pieces that are small beside a region of the heap, or the collector treats each as a giant.
    "spark.sql.inMemoryColumnarStorage.batchSize": "500",
    # Rows of a few days are written side by side, not sorted by day first.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    # Columns whose values hardly repeat: a dictionary of them costs more to make than all the rest of writing.
    **{
        f"spark.hadoop.parquet.enable.dictionary#{name}": "false"
        for name in ("hash", "id", "ts", "ingest_ts", "came_ms")
    },
    # Times stay what a reader in any other library expects.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark keeps what it knew of rows that were put down, under names that the rows do not have any more.
    "spark.sql.constraintPropagation.enabled": "false",
    # State on disk, not in the heap: windows and alarms of many devices.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.minBatchesToRetain": "10",
}

LOCAL: Mapping[str, str] = {
    # Planning is a great deal of code that runs a little in each batch: the costly compiler is for what runs per row.
    # Whoever starts the JVM with options of their own replaces these.
    "spark.driver.extraJavaOptions": (
        "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=20000 -XX:Tier4CompileThreshold=60000"
    ),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
#: Until a JVM has ended that writes an archive of its classes.
_END_SECONDS = 120
#: Parts of a shuffle on one machine; a query with state keeps the number that it began with.
MOST_PARTS = 16


def session(name: str, master: str, more: Mapping[str, str] | None = None, jars: Sequence[Path] = ()) -> SparkSession:
    """The session; what ``spark-submit`` was told about the master, memory and jars wins."""
    builder = SparkSession.builder.appName(name).master(master)
    options = dict(COMMON)
    options["spark.driver.defaultJavaOptions"] = " ".join(java_options())
    if master.startswith("local"):
        options |= LOCAL
        options["spark.sql.shuffle.partitions"] = str(min(cores(master), MOST_PARTS))
    if jars:
        options["spark.jars"] = ",".join(str(jar) for jar in jars)
    for key, value in (options | dict(more or {})).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def end(spark: SparkSession) -> None:
    """Stop the session, and wait until the JVM that this process started for it has ended in order."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=_END_SECONDS)


def java_options(made: Path | None = None) -> list[str]:
    """For the JVM of a driver, if this process starts it. ``made``: the archive that it is to make.

    One that does not fit this Java or its jars is no more than that, so Java is to say nothing of it.
    """
    options = [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    if made is not None:
        return [*options, "-XX:TieredStopAtLevel=1", f"-XX:ArchiveClassesAtExit={made}"]
    return [*options, f"-XX:SharedArchiveFile={ARCHIVE}"] if ARCHIVE.exists() else options


def cores(master: str) -> int:
    """How many a local master uses: ``local``, ``local[2]``, ``local[*]``."""
    told = re.fullmatch(r"local\[(\d+|\*)(?:,\d+)?\]", master)
    if told is None:
        return 1
    return (os.cpu_count() or 1) if told[1] == "*" else int(told[1])


def connector() -> list[Path]:
    """The jars for Kafka, as far as they were brought."""
    return sorted(JARS.glob("*.jar"))
