"""One batch of ``clean``: from records to the tables ``clean`` and ``invalid``, each message once.

::

    records ─▶ judged, keyed ─(kept)─▶ how many? some twice? which hours? ─▶ known in those hours?
                                 └─▶ what is new ─▶ keys, clean, invalid

The batch is read and parsed once and kept until it is written. What is found to be there twice is little, and put down
as rows (``localCheckpoint``): plans that hold each other's plans cost more than the rows.

Everything that goes in is counted on its way out: ``in = valid + dead + duplicate``; ``out`` are rows of ``clean``,
``invalid`` those of ``invalid``, ``refused`` those of them that Kafka did not take. Duplicates are counted by device,
dead letters by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from iot_spark.folding import BATCH, fold
from iot_spark.rules import CleanRule, clean_rules
from iot_spark.senders import letters_out, rows_out
from iot_spark.settings import Settings
from iot_spark.sinks import MOST_NAMES, OTHERS, Batch, TableSink
from iot_spark.transforms import clean, dedup

CLEAN, INVALID = "clean", "invalid"
#: An hour's keys of so many batches are folded into one file: what a batch opens stays few.
FOLD_AT = 32
#: Characters of the name of a device that is counted by it.
LONGEST_NAME = 100


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
        self._rows = rows_out(spark, settings)
        self._letters = letters_out(spark, settings)

    def __call__(self, records: DataFrame, number: int) -> None:
        with self._sink.batch(number) as batch:
            if batch.is_done:
                return
            # Dead letters last: what the other topic refuses is one of them.
            if self._rows is not None:
                batch.send(CLEAN, self._rows)
            if self._letters is not None:
                batch.send(INVALID, self._letters)
            if not batch.is_decided:
                self._write(records, batch)
        self._fold()

    def _write(self, records: DataFrame, batch: Batch) -> None:
        with ExitStack() as held:
            fresh = _kept(records, held).select("hash", "rest.*")
            seen = self._look(fresh)
            again = known = 0
            if seen.records:
                every, stored = fresh, self._stored(fresh, seen.hours, batch)
                if seen.records > seen.hashes:
                    fresh, again = self._once(fresh, stored, batch)
                if stored is not None:
                    fresh, known = self._new(fresh, every, stored, batch)
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

    def _stored(self, fresh: DataFrame, hours: frozenset[int], batch: Batch) -> DataFrame | None:
        """What is remembered of the hours around these."""
        near = dedup.near(hours, self._settings.watermark_minutes)
        paths = dedup.key_paths(self._sink.tables, near, f"{BATCH}{batch.name}")
        # In the session of the stream, which plans a query once and does not think it over as it runs.
        return fresh.sparkSession.read.schema(dedup.KEYS).parquet(*map(str, paths)) if paths else None

    def _once(self, kept: DataFrame, stored: DataFrame | None, batch: Batch) -> tuple[DataFrame, int]:
        """Without those that are there twice in this batch; and how many they were."""
        single, several = dedup.alone(kept)
        shared = dedup.once_in_batch(several, self._settings.watermark_minutes).localCheckpoint()
        again, candidates = _counts(shared, F.col("again"), F.col("before_ms").isNotNull())
        rest = shared.where(~F.col("again")).drop("again", "before_ms")
        twice = shared.where("again").select(*dedup.KEYS.names)
        if candidates:
            more, count = self._repeated(shared, kept, stored)
            rest, twice, again = dedup.without(rest, more), twice.unionByName(more), again + count
        _name_duplicates(twice, again, batch)
        return single.unionByName(rest), again

    def _new(self, fresh: DataFrame, every: DataFrame, stored: DataFrame, batch: Batch) -> tuple[DataFrame, int]:
        """Without those that batches before have written; and how many they were."""
        alike = dedup.alike(fresh, stored).distinct().localCheckpoint()
        if not alike.count():
            return fresh, 0
        known = dedup.known(fresh, stored, alike, self._settings.watermark_minutes).localCheckpoint()
        again, candidates = _counts(known, F.col("before_ms").isNull(), F.col("before_ms").isNotNull())
        twice = known.where("before_ms is null").select(*dedup.KEYS.names)
        if candidates:
            more, count = self._repeated(known, every, stored)
            twice, again = twice.unionByName(more), again + count
        _name_duplicates(twice, again, batch)
        return dedup.without(fresh, twice), again

    def _repeated(self, told: DataFrame, every: DataFrame, stored: DataFrame | None) -> tuple[DataFrame, int]:
        """Of those with a ``before_ms`` what repeats it, by when its device was heard in between; and how many."""
        candidates = told.where("before_ms is not null").select(*dedup.KEYS.names, "before_ms")
        when = [*dedup.SERIES, "came_ms"]
        heard = every.select(*when) if stored is None else every.select(*when).unionByName(stored.select(*when))
        found = dedup.repeated(candidates, dedup.spans(heard, candidates)).drop("before_ms").localCheckpoint()
        return found, found.count()

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
            letters = letters.unionByName(clean.bad(fresh.where("valid"), self._rules))
        invalid: dict[str, int] = {}
        if bad or dead:
            batch.table(INVALID, letters)
            reasons = batch.written(INVALID).groupBy("reason").count().collect()
            invalid = {row["reason"]: row["count"] for row in reasons}
        batch.count(valid=valid, dead=dead, out=out, invalid=sum(invalid.values()), invalid_tags=bad)
        batch.count_named("invalid", invalid)

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


def _counts(frame: DataFrame, *conditions: Column) -> list[int]:
    """How many rows each condition holds for, in one pass."""
    return list(frame.agg(*(F.count_if(condition) for condition in conditions)).collect()[0])


def _name_duplicates(again: DataFrame, count: int, batch: Batch) -> None:
    """Whose they were; the devices with most of them by name."""
    if not count:
        return
    largest = again.groupBy(*dedup.SERIES).count().orderBy(F.desc("count")).limit(MOST_NAMES).collect()
    named: Counter[str] = Counter()
    for row in largest:
        named[_who(row)] += row["count"]
    if rest := count - named.total():
        named[OTHERS] += rest
    batch.count_named("duplicate", named)


def _who(row: Row) -> str:
    """A client of its own is its own gateway."""
    names = dict.fromkeys(str(row[name])[:LONGEST_NAME] for name in dedup.SERIES if row[name])
    return "/".join(name for name in names if not name.startswith("$")) or "(nobody)"
