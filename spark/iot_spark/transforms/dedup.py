"""Each message once: what two records must share to be one, within a batch and against all batches before.

Two records are one message if they share gateway, device and number (the id where there is no number; for what clients
published, the topic too) and *came to the broker* within the watermark of each other. The device's clock has no part
in it, so nothing is ever too late to be judged, and neither has the order in which records are read: a spool that
drains hours later, a topic that is read again from its beginning or a checkpoint that was lost make no difference.

What was kept is remembered in ``tables/keys/hour=…`` by the hour (since 1970) in which it came; a batch is compared
with the hours around its own, and most of it by a hash, so it costs a scan of one column. Beyond the watermark a
number may begin again.
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
#: What must be the same.
KEY = ("valid", "gateway", "device", "seq", "own", "mqtt_topic")
KEYS = StructType(
    [
        StructField("hash", LongType()),
        StructField("valid", BooleanType()),
        StructField("gateway", StringType()),
        StructField("device", StringType()),
        StructField("seq", LongType()),
        StructField("own", StringType()),
        StructField("mqtt_topic", StringType()),
        StructField("came_ms", LongType()),
    ]
)


def keyed(messages: DataFrame) -> DataFrame:
    """With the columns of ``KEY``, ``hash`` and ``hour``.

    A dead letter does not stand in the way of a good message of the same number, so ``valid`` is part of the key. What
    has no id at all is known by its text.
    """
    whole = F.col("gateway").isNotNull() & F.col("device").isNotNull() & F.col("seq").isNotNull()
    own = F.when(~whole, F.coalesce(F.col("id"), F.md5(F.coalesce("raw", F.lit("")))))
    return (
        messages.select("*", F.col("problem").isNull().alias("valid"), own.alias("own"))
        .select("*", F.xxhash64(*KEY).alias("hash"))
        .select("*", F.expr(f"came_ms div {HOUR_MS}").alias("hour"))
    )


def once_in_batch(frame: DataFrame, watermark_minutes: int) -> DataFrame:
    """With ``again``: an equal one came before it, within the watermark, in this batch."""
    # By the hash alone, which has no nulls; those few that share it by chance are told apart by the sort.
    window = Window.partitionBy("hash", *KEY).orderBy("came_ms")
    since = F.col("came_ms") - F.lag("came_ms").over(window)
    is_again = F.coalesce(since <= watermark_minutes * 60_000, F.lit(False))  # noqa: FBT003 - it is a value
    return frame.select("*", is_again.alias("again"))


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
    """The hashes and keys of those messages of a batch that are remembered already, of hashes that are."""
    found = stored.join(F.broadcast(alike), "hash", "left_semi").alias("s")
    asked = fresh.join(F.broadcast(alike), "hash", "left_semi").select(*KEYS.names).alias("b")
    same = F.col("s.hash") == F.col("b.hash")
    for name in KEY:
        same = same & F.col(f"s.{name}").eqNullSafe(F.col(f"b.{name}"))
    close = F.abs(F.col("s.came_ms") - F.col("b.came_ms")) <= watermark_minutes * 60_000
    return asked.join(found, same & close, "left_semi")


def without(batch: DataFrame, known: DataFrame) -> DataFrame:
    """The messages of a batch that are not among those."""
    left, right = batch.alias("b"), F.broadcast(known.alias("k"))
    same = F.col("b.came_ms") == F.col("k.came_ms")
    for name in ("hash", *KEY):
        same = same & F.col(f"b.{name}").eqNullSafe(F.col(f"k.{name}"))
    return left.join(right, same, "left_anti")
