"""Readings as the alarm rules see them: one row for each reading and each rule that watches it, with a *signal*.

The signal says what a value means to a rule: true (it is past the threshold), false (it is well), null (in between, or
nothing to say). Time is counted in milliseconds. ``at`` is the time that rules go by: the device's own, but never later
than the arrival, so a clock that is ahead cannot make what follows look old; for ``missing``, the arrival.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from iot_spark.alarm_rules import AlarmRule

#: One series of one rule. ``tag`` is "" where a rule watches a whole device.
KEY: Final = ("rule", "gateway", "device", "tag")

#: A value of these says nothing about the plant now: the device itself doubts it, or tells an old one again.
DOUBTFUL: Final = ("bad", "stale")

#: The readings that rates are still counted from, kept between two batches.
RECENT: Final = StructType(
    [
        *(StructField(name, StringType()) for name in KEY),
        StructField("at", LongType()),
        StructField("ts", LongType()),
        StructField("ingest", LongType()),
        StructField("seq", LongType()),
        StructField("id", StringType()),
        StructField("value", DoubleType()),
    ]
)


def applies(rule: AlarmRule) -> Column:
    """Whether gateway, device and tag of a row are what a rule is about; for a whole device the tag does not matter."""
    wanted = F.expr("true")
    for name in ("gateway", "device", "tag"):
        patterns: tuple[str, ...] = getattr(rule.match, name)
        if patterns != ("*",):
            wanted = wanted & _any_of(F.col(name), patterns)
    return wanted


def _any_of(name: Column, patterns: Sequence[str]) -> Column:
    plain = [pattern for pattern in patterns if not set("*?") & set(pattern)]
    globs = [pattern for pattern in patterns if set("*?") & set(pattern)]
    found = name.isin(plain) if plain else F.expr("false")
    if globs:
        found = found | name.rlike("|".join(rf"(?s)\A{_regex(pattern)}\z" for pattern in globs))
    return F.coalesce(found, F.expr("false"))


def _regex(pattern: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(part) or re.escape(part) for part in pattern)


def watched(rows: DataFrame, rules: Sequence[AlarmRule]) -> DataFrame:
    """Cleaned rows, each as often as there are rules that watch it: key, kind, at, ts, ingest, seq, id, value."""
    usable = F.col("value").isNotNull() & ~F.coalesce(F.col("quality"), F.lit("good")).isin(*DOUBTFUL)
    choices = [
        F.when(
            applies(rule) if rule.kind == "missing" else applies(rule) & usable,
            F.struct(
                F.lit(rule.name).alias("rule"),
                F.lit(rule.kind).alias("kind"),
                (F.lit("") if rule.whole_device else F.col("tag")).alias("tag"),
            ),
        )
        for rule in rules
    ]
    ts, ingest = F.unix_millis("ts"), F.unix_millis("ingest_ts")
    silent = F.col("rule.kind") == "missing"
    return rows.withColumn("rule", F.explode(F.array_compact(F.array(*choices)))).select(
        F.col("rule.rule").alias("rule"),
        "gateway",
        "device",
        F.col("rule.tag").alias("tag"),
        F.col("rule.kind").alias("kind"),
        F.when(silent, ingest).otherwise(F.least(ts, ingest)).alias("at"),
        ts.alias("ts"),
        ingest.alias("ingest"),
        "seq",
        "id",
        F.when(~silent, F.col("value")).alias("value"),
    )


def rated(readings: DataFrame, recent: DataFrame, rules: Sequence[AlarmRule]) -> DataFrame:
    """The readings of rate rules with those that are kept from before; ``rate`` is null where there is no older one.

    ``fresh`` tells the new ones. The rate is units per second since the newest reading that is ``per`` older at least.
    """
    columns = RECENT.fieldNames()
    new = readings.where(F.col("kind") == "rate").select(*columns, F.expr("true").alias("fresh"))
    both = new.unionByName(recent.select(*columns, F.expr("false").alias("fresh")))
    parts = []
    for span in sorted({rule.per for rule in rules if rule.kind == "rate"}):
        named = [rule.name for rule in rules if rule.kind == "rate" and rule.per == span]
        milliseconds = round(span * 1000)
        series = Window.partitionBy(*KEY)
        older = series.orderBy("at").rangeBetween(Window.unboundedPreceding, -milliseconds)
        from_ = F.max(F.struct("at", "ts", "seq", "value")).over(older)
        newest = F.coalesce(
            F.max(F.when(F.col("fresh"), F.col("at"))).over(series),
            F.max("at").over(series),
        )
        rate = (F.col("value") - F.col("from.value")) / ((F.col("at") - F.col("from.at")) / F.lit(1000.0))
        part = both.where(F.col("rule").isin(*named)).withColumns({"from": from_, "newest": newest})
        border = F.col("newest") - F.lit(milliseconds)
        anchor = F.max(F.when(F.col("at") <= border, F.col("at"))).over(series)
        keep = (F.col("at") <= F.col("newest")) & ((F.col("at") > border) | (F.col("at") == F.col("anchor")))
        parts.append(
            part.withColumns({"rate": rate, "anchor": anchor}).withColumn("keep", keep).drop("from", "newest", "anchor")
        )
    found = parts[0]
    for part in parts[1:]:
        found = found.unionByName(part)
    return found


def parameters(rules: Sequence[AlarmRule]) -> Column:
    """What the rule of a row says, as a struct; null where there is no such rule.

    A constant map that is looked up: a chain of conditions would be as long as the rules in every place it is used.
    """
    # One that nobody asks for, so that the map has a type when there are no rules.
    entries: list[Column] = []
    for rule in [*rules, AlarmRule("", "threshold", above=0.0)]:
        entries += [
            F.lit(rule.name),
            F.struct(
                F.lit(rule.above).cast("double").alias("above"),
                F.lit(rule.below).cast("double").alias("below"),
                F.lit(rule.clear).cast("double").alias("clear"),
                F.lit(rule.threshold).cast("double").alias("threshold"),
                F.lit(round(rule.hold * 1000)).cast("long").alias("hold"),
                F.lit(rule.severity).alias("severity"),
            ),
        ]
    return F.try_element_at(F.create_map(*entries), F.col("rule"))


def signal() -> Column:
    """What a value, or a rate, means to the rule of its row, which is in ``of``."""
    value, of = F.col("value"), F.col("of")
    return (
        F.when(F.col("kind") == "missing", F.expr("true"))
        .when((value > of["above"]) | (value < of["below"]), F.expr("true"))
        .when((value <= of["clear"]) & of["above"].isNotNull(), F.expr("false"))
        .when((value >= of["clear"]) & of["below"].isNotNull(), F.expr("false"))
    )
