"""One batch of ``clean``: from records to the tables ``clean`` and ``invalid``, each message once.

::

    records ─▶ judged, keyed ─(kept)─▶ how many? some twice? which hours? ─▶ known in those hours?
                                 └─▶ what is new ─▶ keys, clean, invalid

The batch is read and parsed once and kept until it is written. Everything that goes in is counted on its way out:
``in = valid + dead + duplicate``; ``out`` are rows of ``clean``, ``invalid`` those of ``invalid``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from iot_spark import sources
from iot_spark.folding import BATCH, fold
from iot_spark.rules import CleanRule, clean_rules
from iot_spark.settings import Settings
from iot_spark.sinks import Batch, TableSink
from iot_spark.transforms import clean, dedup

CLEAN, INVALID = "clean", "invalid"
#: An hour's keys of so many batches are folded into one file: what a batch opens stays few.
FOLD_AT = 32


def judged(records: DataFrame, settings: Settings) -> DataFrame:
    """What batches are of: records with all that can be said of each by itself, as ``hash`` and the ``rest``.

    It belongs to the stream, so it is put together once and not for each batch. ``rest`` is one column, because a batch
    is kept: a row is then copied whole, and not column by column.
    """
    keyed = dedup.keyed(clean.messages(records, settings.clean.future_seconds))
    return keyed.select("hash", F.struct(*(name for name in keyed.columns if name != "hash")).alias("rest"))


def _kept(frame: DataFrame, held: ExitStack) -> DataFrame:
    """Computed once, until the batch is written. As objects: bytes would be copied out of each time they are read."""
    held.callback(frame.unpersist)
    return frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a batch holds."""

    records: int
    hashes: int
    late: int
    hours: frozenset[int]


class Cleaning:
    """What ``foreachBatch`` calls."""

    def __init__(self, spark: SparkSession, settings: Settings, sink: TableSink) -> None:
        self._spark = spark
        self._settings = settings
        self._sink = sink
        self._rules: Sequence[CleanRule] = clean_rules(settings.rules.clean)

    def __call__(self, records: DataFrame, number: int) -> None:
        with self._sink.batch(number) as batch:
            if batch.is_done:
                return
            for name, topic in ((CLEAN, self._settings.clean.topic), (INVALID, self._settings.clean.invalid_topic)):
                if topic is not None and self._settings.source.bootstrap_servers:
                    batch.send(name, self._sender(topic))
            if not batch.is_decided:
                self._write(records, batch)
        self._fold()

    def _write(self, records: DataFrame, batch: Batch) -> None:
        with ExitStack() as held:
            fresh = _kept(records, held).select("hash", "rest.*")
            seen = self._look(fresh)
            again = known = 0
            if seen.records > seen.hashes:
                fresh, again = self._once(fresh, held)
            if seen.records:
                fresh, known = self._new(fresh, seen.hours, batch, held)
                self._put(fresh, batch)
            batch.count(**{"in": seen.records, "duplicate": again + known, "late": seen.late})

    def _look(self, kept: DataFrame) -> _Seen:
        """One pass over two levels: by hash first, so that the distinct ones are counted without a second."""
        late = F.col("valid") & (F.col("came_ms") - F.col("ts_ms") > self._settings.watermark_minutes * 60_000)
        row = (
            kept.groupBy("hash")
            .agg(
                F.count(F.lit(1)).alias("records"),
                F.count_if(late).alias("late"),
                F.min("hour").alias("first"),
                F.max("hour").alias("last"),
            )
            .agg(F.sum("records"), F.count(F.lit(1)), F.sum("late"), F.min("first"), F.max("last"))
            .head()
        )
        if row is None or row[0] is None:
            return _Seen(0, 0, 0, frozenset())
        records, hashes, late_ones, first, last = row
        # A batch is of an hour or two; a spool, or a topic that is read from its beginning, is of hours far apart.
        hours = [first, last] if last - first <= 1 else [one.hour for one in kept.select("hour").distinct().collect()]
        return _Seen(records, hashes, late_ones, frozenset(hours))

    def _once(self, kept: DataFrame, held: ExitStack) -> tuple[DataFrame, int]:
        """Without those that are there twice in this batch; and how many they were."""
        single, several = dedup.alone(kept)
        shared = _kept(dedup.once_in_batch(several, self._settings.watermark_minutes), held)
        again = shared.where("again").count()
        return single.unionByName(shared.where(~F.col("again")).drop("again")), again

    def _new(self, fresh: DataFrame, hours: frozenset[int], batch: Batch, held: ExitStack) -> tuple[DataFrame, int]:
        """Without those that batches before have written; and how many they were."""
        watermark = self._settings.watermark_minutes
        paths = dedup.key_paths(self._sink.tables, dedup.near(hours, watermark), f"{BATCH}{batch.name}")
        if not paths:
            return fresh, 0
        # In the session of the stream, which plans a query once and does not think it over as it runs.
        stored = fresh.sparkSession.read.schema(dedup.KEYS).parquet(*map(str, paths))
        alike = _kept(dedup.alike(fresh, stored), held)
        if not alike.count():
            return fresh, 0
        known = _kept(dedup.known(fresh, stored, alike, watermark), held)
        return dedup.without(fresh, known), known.count()

    def _put(self, fresh: DataFrame, batch: Batch) -> None:
        # Read off while the rows pass, or every figure would cost a pass of its own.
        messages, tags = Observation(), Observation()
        keys = fresh.observe(
            messages, F.count_if(F.col("valid")).alias("valid"), F.count_if(~F.col("valid")).alias("dead")
        )
        batch.table(dedup.TABLE, keys.select(*dedup.KEYS.names, "hour"), by="hour")
        counted: Mapping[str, int] = messages.get
        valid, dead = counted["valid"], counted["dead"]
        out = bad = 0
        valued = clean.values(fresh.where("valid"), self._rules)
        if valid:
            problem = F.col("tag_problem")
            watched = valued.observe(
                tags, F.count_if(problem.isNull()).alias("good"), F.count_if(problem.isNotNull()).alias("bad")
            )
            batch.table(CLEAN, clean.good(watched))
            out, bad = tags.get["good"], tags.get["bad"]
        letters = clean.dead(fresh)
        if bad:
            letters = letters.unionByName(clean.bad(valued))
        if bad or dead:
            batch.table(INVALID, letters)
        batch.count(valid=valid, dead=dead, out=out, invalid=bad + dead)

    def _sender(self, topic: str) -> Sender:
        return Sender(topic, sources.kafka_options(self._settings.source))

    def _fold(self) -> None:
        """Keys of an hour that lie in many files become one."""
        root = self._sink.tables / dedup.TABLE
        for hour in sorted(root.glob("hour=*")):
            batches = sorted(hour.glob(f"{BATCH}*"))
            if len(batches) >= FOLD_AT:
                fold(hour, hour, batches, self._fold_keys)

    def _fold_keys(self, paths: Sequence[Path], target: Path) -> None:
        stored = self._spark.read.schema(dedup.KEYS).parquet(*map(str, paths))
        stored.coalesce(1).write.parquet(str(target))


@dataclass(frozen=True, slots=True)
class Sender:
    """Rows of a table as JSON objects to a topic of Kafka; what is of one device keeps to one partition."""

    topic: str
    options: Mapping[str, str]

    def __call__(self, rows: DataFrame) -> None:
        who = [F.col(name) for name in ("gateway", "device") if name in rows.columns]
        key = F.concat_ws("/", *who) if who else F.lit(None).cast("string")
        value = F.to_json(F.struct(*(_told(rows, name) for name in rows.columns)))
        out = rows.select(key.alias("key"), value.alias("value"))
        out.write.format("kafka").options(**self.options).option("topic", self.topic).save()


def _told(rows: DataFrame, name: str) -> Column:
    """Times as milliseconds, as everywhere in messages."""
    kind = rows.schema[name].dataType.typeName()
    return F.unix_millis(name).alias(name) if kind == "timestamp" else F.col(name)
