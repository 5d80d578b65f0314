"""Each message once: what two records must share to be one, within a batch and against all batches before.

Two records are one message if they share gateway, device and number and say the same (for what clients published, on
the same topic), have the same time of the device's own, and *came to the broker* within the watermark of each other.
The order in which records are read has no part in it: a spool that drains hours later, a topic that is read again from
its beginning or a checkpoint that was lost make no difference.

A device may begin to count again. What it says then differs in its values or its time, and is another message. Where
neither differs, because a device without a clock says ``on`` again, this tells::

    number 1 2 3 … 50   1 2 3        another life: it was heard long after the first 1, so that one was acknowledged
    number … 49 50 (lost connection) 49 50 51      a repetition: of what it had said last, however long it was away

Without a number the id tells, and so it does for what was published at QoS 0 without a time, which nobody repeats.

What was kept is remembered in ``tables/keys/hour=…`` by the hour (since 1970) in which it came; a batch is compared
with the hours around its own, and most of it by a hash, so it costs a scan of one column.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from iot_spark.folding import live

TABLE = "keys"
HOUR_MS = 3_600_000
#: A device that was heard 10 s after a message, and 10 s before its repetition, does not repeat it: that takes a
#: connection that was lost before the acknowledgement. When a device was heard is known by spans of this.
SPAN_MS = 2000
_SPANS = 6
#: What must be the same. ``said`` is a digest of the values.
KEY = ("valid", "gateway", "device", "seq", "own", "mqtt_topic", "said")
#: Whose spans they are.
SERIES = ("gateway", "device")
KEYS = StructType(
    [
        StructField("hash", LongType()),
        StructField("valid", BooleanType()),
        StructField("gateway", StringType()),
        StructField("device", StringType()),
        StructField("seq", LongType()),
        StructField("own", StringType()),
        StructField("mqtt_topic", StringType()),
        StructField("said", LongType()),
        # The device's time where it told one, else null.
        StructField("told_ms", LongType()),
        StructField("came_ms", LongType()),
    ]
)


def keyed(messages: DataFrame) -> DataFrame:
    """With the columns of ``KEYS`` and ``hour``.

    A dead letter does not stand in the way of a good message of the same number, so ``valid`` is part of the key. What
    has no id at all is known by its text.
    """
    whole = F.col("gateway").isNotNull() & F.col("device").isNotNull() & F.col("seq").isNotNull()
    is_repeated = ~F.coalesce((F.col("qos") == 0) & ~F.col("clock"), F.lit(False))  # noqa: FBT003 - it is a value
    own = F.when(~(whole & is_repeated), F.coalesce(F.col("id"), F.md5(F.coalesce("raw", F.lit("")))))
    numbered = F.col("own").isNull()
    return (
        messages.select("*", F.col("problem").isNull().alias("valid"), own.alias("own"))
        .select(
            "*",
            F.when(numbered, F.xxhash64(F.to_json("tags"))).alias("said"),
            F.when(numbered, F.col("ts_ms")).alias("told_ms"),
        )
        .select("*", F.xxhash64(*KEY).alias("hash"))
        .select("*", F.expr(f"came_ms div {HOUR_MS}").alias("hour"))
    )


def once_in_batch(frame: DataFrame, watermark_minutes: int) -> DataFrame:
    """With ``again``: an equal one came before it, within the watermark, in this batch.

    ``before_ms``: when the one came that this may repeat, of those without a time. The series has to tell.
    """
    # By the hash alone, which has no nulls; those few that share it by chance are told apart by the sort.
    equal = Window.partitionBy("hash", *KEY, "told_ms").orderBy("came_ms")
    alike = Window.partitionBy("hash", *KEY, "clock").orderBy("came_ms")
    longest = watermark_minutes * 60_000
    since = F.col("came_ms") - F.lag("came_ms").over(equal)
    before = F.lag("came_ms").over(alike)
    is_again = F.coalesce(since <= longest, F.lit(False))  # noqa: FBT003 - it is a value
    may_be = ~is_again & F.col("own").isNull() & ~F.col("clock") & (F.col("came_ms") - before <= longest)
    return frame.select("*", is_again.alias("again"), F.when(may_be, before).alias("before_ms"))


def spans(heard: DataFrame, candidates: DataFrame) -> DataFrame:
    """When the devices of candidates were heard: ``SERIES`` and ``heard``, an array of numbers of spans."""
    asked = F.broadcast(candidates.select(*SERIES).distinct())
    same = [F.col(f"h.{name}").eqNullSafe(F.col(f"a.{name}")) for name in SERIES]
    mine = heard.alias("h").join(asked.alias("a"), same, "left_semi")
    return mine.groupBy(*SERIES).agg(F.collect_set(F.expr(f"came_ms div {SPAN_MS}")).alias("heard"))


def repeated(candidates: DataFrame, heard: DataFrame) -> DataFrame:
    """Those of which ``before_ms`` was the last that the device had said when it was lost."""
    first, last = F.least("before_ms", "came_ms"), F.greatest("before_ms", "came_ms")
    low, high = F.floor(first / SPAN_MS) + _SPANS, F.floor(last / SPAN_MS) - _SPANS
    went_on = F.exists("heard", lambda span: (span >= low) & (span <= high))
    same = [F.col(f"c.{name}").eqNullSafe(F.col(f"h.{name}")) for name in SERIES]
    found = candidates.alias("c").join(F.broadcast(heard.alias("h")), same, "left").select("c.*", "h.heard")
    return found.where(~F.coalesce(went_on, F.lit(False))).drop("heard")  # noqa: FBT003 - it is a value


def alone(keyed: DataFrame) -> tuple[DataFrame, DataFrame]:
    """What shares its hash with nothing else in the batch, and the rest, which is little and must be sorted."""
    twice = F.broadcast(keyed.groupBy("hash").count().where("count > 1").select("hash"))
    return keyed.join(twice, "hash", "left_anti"), keyed.join(twice, "hash", "left_semi")


def near(hours: Iterable[int], watermark_minutes: int) -> set[int]:
    """The hours in which an equal record may have come."""
    span = -(-watermark_minutes // 60)
    return {hour + more for hour in hours for more in range(-span, span + 1)}


def key_paths(tables: Path, hours: Iterable[int], without: str) -> list[Path]:
    """The directories of keys of some hours. ``without``: the batch that is being written, perhaps once more."""
    found: list[Path] = []
    for hour in sorted(hours):
        folder = tables / TABLE / f"hour={hour}"
        found += [path for path in live(folder, folder) if path.name != without]
    return found


def alike(fresh: DataFrame, stored: DataFrame) -> DataFrame:
    """The hashes that a batch and what is remembered share. One column is read, and longs are compared."""
    return stored.select("hash").join(F.broadcast(fresh.select("hash")), "hash", "left_semi")


def known(fresh: DataFrame, stored: DataFrame, alike: DataFrame, watermark_minutes: int) -> DataFrame:
    """The messages of a batch, as ``KEYS`` and ``before_ms``, of which one that is like it is remembered.

    ``before_ms`` is null where it is equal; else it is when that one came, and the series has to tell.
    """
    found = stored.join(F.broadcast(alike), "hash", "left_semi").alias("s")
    names = [*KEYS.names, "clock"]
    asked = fresh.join(F.broadcast(alike), "hash", "left_semi").select(*names).alias("b")
    same = F.col("s.hash") == F.col("b.hash")
    for name in KEY:
        same = same & F.col(f"s.{name}").eqNullSafe(F.col(f"b.{name}"))
    apart = F.abs(F.col("s.came_ms") - F.col("b.came_ms"))
    is_equal = F.col("s.told_ms").eqNullSafe(F.col("b.told_ms"))
    # A time that is that of the arrival was told by no clock.
    is_alike = ~F.col("b.clock") & (F.col("s.told_ms") == F.col("s.came_ms"))
    pairs = asked.join(found, same & (apart <= watermark_minutes * 60_000) & (is_equal | is_alike))
    nearest = F.min(F.when(~is_equal, F.struct(apart, F.col("s.came_ms").alias("at"))))["at"]
    told = pairs.groupBy(*(F.col(f"b.{name}").alias(name) for name in names)).agg(
        F.when(~F.bool_or(is_equal), nearest).alias("before_ms")
    )
    return told.drop("clock")


def without(batch: DataFrame, known: DataFrame) -> DataFrame:
    """The messages of a batch that are not among those."""
    left, right = batch.alias("b"), F.broadcast(known.alias("k"))
    same = F.col("b.came_ms") == F.col("k.came_ms")
    for name in ("hash", *KEY, "told_ms"):
        same = same & F.col(f"b.{name}").eqNullSafe(F.col(f"k.{name}"))
    return left.join(right, same, "left_anti")
