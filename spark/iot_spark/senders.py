"""What leaves the tables for Kafka: cleaned rows, dead letters, alarms, commands; and what becomes of the refused.

::

    rows of a decided batch ─▶ records ─▶ the topic
                                            └─ refused ─▶ dead letters: the table ``invalid``, and its topic
    dead letters ─▶ records, shortened where they are too large ─▶ the topic
                                            └─ refused ─▶ they are in the table; counted by nobody but there

A refused record's letter has the record as its ``raw``. A shortened one has the beginning of ``raw``, and how many
bytes it had (``raw_bytes``) with their SHA-256 (``raw_sha256``), by which the whole one is found in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from iot_spark.kafka_out import ESCAPED, OVERHEAD, REASON, TEXTS, Topic
from iot_spark.schema import INVALID
from iot_spark.settings import Settings
from iot_spark.sinks import Out
from iot_spark.sources import kafka_options
from iot_spark.transforms.clean import LONGEST_TAG

#: Bytes of a letter beside ``raw`` and what it lists: names of fields, times, digest.
_BESIDE = 2048
#: A letter that is too large with all that it lists keeps so many characters of each text.
_LEAST = 32

Records = Callable[[DataFrame], DataFrame]


def topic_of(spark: SparkSession, settings: Settings, name: str | None) -> Topic | None:
    """Where to send; None: nowhere."""
    if name is None or not settings.source.bootstrap_servers:
        return None
    return Topic(spark, name, kafka_options(settings.source))


def rows_out(spark: SparkSession, settings: Settings) -> Out | None:
    """Cleaned rows as JSON objects; what is of one device keeps to one partition."""
    topic = topic_of(spark, settings, settings.clean.topic)
    return None if topic is None else Sender(topic, _rows)


def letters_out(spark: SparkSession, settings: Settings) -> Out | None:
    """Dead letters."""
    topic = topic_of(spark, settings, settings.clean.invalid_topic)
    return None if topic is None else Letters(topic)


@dataclass(frozen=True, slots=True)
class Sender:
    """Rows of a table as records of a topic. ``records`` makes ``key``, ``value``, ``tag`` and ``ingest_ts``."""

    topic: Topic
    records: Records

    def __call__(self, rows: DataFrame) -> DataFrame | None:
        refused = self.topic.send(self.records(rows))
        return None if refused is None else _letters(refused, self.topic.name)


@dataclass(frozen=True, slots=True)
class Letters:
    """Dead letters to their topic. Those that it does not take, however short, stay in the table."""

    topic: Topic

    def __call__(self, rows: DataFrame) -> None:
        none = F.lit(None).cast("string")
        self.topic.send(_shortened(rows, self.topic.limit).select(none.alias("key"), "value"))


def _rows(rows: DataFrame) -> DataFrame:
    key = F.concat_ws("/", "gateway", "device")
    texts = [name for name in rows.columns if rows.schema[name].dataType.typeName() == "string"]
    size = reduce(add, (F.coalesce(F.octet_length(name), F.lit(0)) for name in texts))
    return rows.select(key.alias("key"), _object(rows).alias("value"), "tag", "ingest_ts", size.alias(TEXTS))


def _letters(refused: DataFrame, topic: str) -> DataFrame:
    """Refused records as rows of ``INVALID``."""
    made = {
        "raw": F.col("value"),
        "reason": F.col(REASON),
        "tag": F.left("tag", F.lit(LONGEST_TAG)),
        "topic": F.lit(topic),
        "ingest_ts": F.col("ingest_ts"),
        "dt": F.to_date("ingest_ts"),
    }
    return refused.select(
        *(made.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in INVALID)
    )


def _shortened(rows: DataFrame, limit: int) -> DataFrame:
    """With ``value``: the letter as JSON; as it is, with less of ``raw``, or with little of anything."""
    room = limit - OVERHEAD
    whole = _object(rows)
    listed = F.octet_length(F.coalesce(F.to_json("problems"), F.lit("")))
    kept = F.greatest(F.floor((F.lit(room - _BESIDE) - listed) / ESCAPED).cast("int"), F.lit(0))
    digest = {"raw_bytes": F.octet_length("raw"), "raw_sha256": F.sha2("raw", 256)}
    shorter = _object(rows, {**digest, "raw": F.left("raw", kept)})
    little = {name: F.left(name, F.lit(_LEAST)) for name in ("raw", "tag")}
    least = _object(rows, {**digest, **little, "problems": None})
    value = F.when(F.octet_length(whole) <= room, whole)
    return rows.withColumn("value", value.when(F.octet_length(shorter) <= room, shorter).otherwise(least))


def _object(rows: DataFrame, instead: Mapping[str, Column | None] | None = None) -> Column:
    """Rows as JSON; times as milliseconds, as everywhere in messages. ``instead``: other columns, or none."""
    columns: dict[str, Column | None] = {name: F.col(name) for name in rows.columns}
    for name in rows.columns:
        if rows.schema[name].dataType.typeName() == "timestamp":
            columns[name] = F.unix_millis(name)
    columns |= instead or {}
    return F.to_json(F.struct(*(column.alias(name) for name, column in columns.items() if column is not None)))
