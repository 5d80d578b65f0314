"""From cleaned rows to alarms: what was known before, and a batch, give what is known after, and what has changed.

For each series of a rule the readings are put in order and thinned to *runs*: where a signal turns true a run begins,
where it turns false it ends. A run that lasts for the rule's hold is an alarm: raised at its begin plus the hold,
cleared at its end. Silence is the same thing: every reading ends a run and begins the next, and one that lasts is one.
So one batch or ten make the same alarms, and all of it is window functions over sorted rows, with no Python inside.

Late readings: a batch is put in order as a whole. One that is older than what its series was already judged by changes
nothing any more and is counted in ``skipped``, unless nothing newer came for ``REORDER`` (then a clock was set back).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

from iot_spark.alarm_rules import AlarmRule
from iot_spark.transforms.alarm_readings import KEY, RECENT, applies, parameters, rated, signal, watched

REORDER: Final = 600_000
#: A series of which nothing was heard for so long, and that has no alarm, is forgotten.
FORGET: Final = 30 * 86_400_000

#: What is known of each series: its newest run (``on``) or the calm since, and the newest reading it was judged by.
LEVELS: Final = StructType(
    [
        *(StructField(name, StringType()) for name in KEY),
        StructField("kind", StringType()),
        StructField("on", BooleanType()),
        # Of the reading that the run, or the calm, began with.
        StructField("at", LongType()),
        StructField("ts", LongType()),
        StructField("ingest", LongType()),
        StructField("id", StringType()),
        StructField("value", DoubleType()),
        StructField("raised", BooleanType()),
        StructField("last_at", LongType()),
        StructField("last_ingest", LongType()),
    ]
)

_READING: Final = ("at", "ts", "ingest", "id", "value")


@dataclass(frozen=True, slots=True)
class Known:
    """What one batch leaves for the next."""

    levels: DataFrame
    recent: DataFrame


@dataclass(frozen=True, slots=True)
class Judged:
    """One batch. Everything but ``recent`` comes from ``runs``, which is worth persisting before any of it is used."""

    runs: DataFrame
    #: One row each time that an alarm is raised or cleared; ``is_over``: it is raised and cleared at once.
    changes: DataFrame
    known: Known


def judge(rows: DataFrame, known: Known, rules: Sequence[AlarmRule], clock: int) -> Judged:
    """Judge a batch of cleaned rows. ``clock``: it is so late, in ms, and what has not come by now was not sent."""
    standing, retired = _sorted_out(known.levels, rules)
    readings, recent = None, known.recent.where("false")
    if rules:
        readings = watched(rows, rules).where(F.col("kind") != "rate")
    if any(rule.kind == "rate" for rule in rules):
        rates = rated(watched(rows, rules), known.recent, rules)
        recent = rates.where(F.col("keep") & (F.col("at") > clock - FORGET)).select(*RECENT.fieldNames())
        fresh = rates.where("fresh").withColumns({"value": F.col("rate"), "kind": F.lit("rate")})
        assert readings is not None
        readings = readings.unionByName(fresh.select(*readings.columns))
    runs = _runs(standing, readings, rules, clock)
    runs = runs.unionByName(retired, allowMissingColumns=True)
    last = ~F.col("retired") & F.col("ends").isNull()
    after = runs.where(last & (F.col("held") | (F.col("last_ingest") > clock - FORGET)))
    levels = after.select(
        *(F.col("held").alias("raised") if name == "raised" else F.col(name) for name in LEVELS.fieldNames())
    )
    return Judged(runs, _changes(runs, rules, clock), Known(levels, recent))


def _sorted_out(levels: DataFrame, rules: Sequence[AlarmRule]) -> tuple[DataFrame, DataFrame]:
    """What is known of series that rules still watch, and the alarms of others: their rule is gone or another."""
    watched_still = F.expr("false")
    for rule in rules:
        of_rule = (F.col("rule") == rule.name) & (F.col("kind") == rule.kind)
        place = (F.col("tag") == "") if rule.whole_device else (F.col("tag") != "")
        watched_still = watched_still | (of_rule & place & applies(rule))
    gone = levels.where(~watched_still & F.col("raised"))
    gone = gone.withColumns({"held": F.expr("true"), "retired": F.expr("true")})
    return levels.where(watched_still), gone


def _runs(standing: DataFrame, readings: DataFrame | None, rules: Sequence[AlarmRule], clock: int) -> DataFrame:
    """One row for each run and each calm: what is known first, then what the batch adds, each with what ``ends`` it."""
    old = standing.withColumns(
        {
            "signal": F.col("on"),
            "fresh": F.expr("false"),
            "seq": F.lit(None).cast("long"),
        }
    ).withColumnsRenamed({"last_at": "floor_at", "last_ingest": "floor_ingest"})
    every = old.drop("on")
    if readings is not None:
        new = readings.withColumns({"of": parameters(rules), "fresh": F.expr("true"), "raised": F.expr("false")})
        every = every.unionByName(new.withColumn("signal", signal()).drop("of"), allowMissingColumns=True)
    series = Window.partitionBy(*KEY)
    order = series.orderBy("fresh", "at", "ts", "seq", "ingest", "id")
    fresh = F.col("fresh")
    floors = every.withColumns(
        {
            "floor_at": F.max("floor_at").over(series),
            "floor_ingest": F.max("floor_ingest").over(series),
        }
    )
    late = (
        fresh
        & F.coalesce(F.col("at") < F.col("floor_at"), F.expr("false"))
        & (F.col("ingest") < F.col("floor_ingest") + REORDER)
    )
    told = floors.withColumn("late", late)
    judged = fresh & ~F.col("late")
    told = told.withColumns(
        {
            "last_at": F.coalesce(F.max(F.when(judged, F.col("at"))).over(series), F.col("floor_at")),
            "last_ingest": F.greatest(F.max(F.when(judged, F.col("ingest"))).over(series), F.col("floor_ingest")),
            "skipped": F.when(~fresh, F.count(F.when(F.col("late"), 1)).over(series)).otherwise(0),
        }
    ).where("not late")
    before = F.last("signal", ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, -1))
    turns = F.col("signal").isNotNull() & (F.col("signal") != F.coalesce(F.col("before"), F.expr("false")))
    hold = parameters(rules)["hold"]
    runs = (
        told.withColumns({"before": before, "number": F.row_number().over(order)})
        .where((F.col("number") == 1) | (F.col("kind") == "missing") | turns)
        .withColumn("on", F.coalesce("signal", F.expr("false")))
        .withColumns({"ends": F.lead(F.struct(*_READING)).over(order), "hold": hold})
    )
    lasted = F.coalesce(
        F.col("ends.at") - F.col("at") >= F.col("hold"),
        (F.col("last_at") - F.col("at") >= F.col("hold")) | (F.lit(clock) - F.col("ingest") >= F.col("hold")),
    )
    # One that was raised before stays so until it ends, whatever its rule says by now.
    held = F.col("on") & (F.col("raised") | lasted)
    return runs.withColumns({"held": held, "retired": F.expr("false")}).select(
        *KEY,
        "kind",
        "on",
        *_READING,
        "hold",
        "raised",
        "held",
        "ends",
        "last_at",
        "last_ingest",
        "skipped",
        "fresh",
        "retired",
    )


def _changes(runs: DataFrame, rules: Sequence[AlarmRule], clock: int) -> DataFrame:
    """What is raised and what is cleared: a row each."""
    # The message's id is in it: two runs may begin in the same millisecond.
    alarm = F.substring(F.sha2(F.concat_ws("\x1f", *KEY, F.col("at").cast("string"), F.col("id")), 256), 1, 32)
    raised = F.struct(
        F.lit("raised").alias("state"),
        (F.col("at") + F.col("hold")).alias("when"),
        F.col("ends").isNotNull().alias("is_over"),
        *(F.col(name) for name in _READING[1:]),
        F.lit(None).cast("string").alias("detail"),
    )
    cleared = F.struct(
        F.lit("cleared").alias("state"),
        F.col("ends.at").alias("when"),
        F.expr("false").alias("is_over"),
        *(F.col(f"ends.{name}") for name in _READING[1:]),
        F.lit(None).cast("string").alias("detail"),
    )
    unruled = F.struct(
        F.lit("cleared").alias("state"),
        F.lit(clock).cast("long").alias("when"),
        F.expr("false").alias("is_over"),
        *(F.col(name) for name in _READING[1:]),
        F.lit("its rule is gone, or watches something else now").alias("detail"),
    )
    happened = F.array_compact(
        F.array(
            F.when(~F.col("raised"), raised),
            F.when(F.col("ends").isNotNull(), cleared),
            F.when(F.col("retired"), unruled),
        )
    )
    return (
        runs.where("held")
        .withColumns(
            {"alarm_id": alarm, "started": F.col("at"), "of": parameters(rules), "change": F.explode(happened)}
        )
        .select(
            "alarm_id",
            F.col("change.state").alias("state"),
            "rule",
            "kind",
            "of.severity",
            "gateway",
            "device",
            "tag",
            F.col("change.value").alias("value"),
            "of.threshold",
            F.timestamp_millis("change.when").alias("at"),
            F.timestamp_millis("started").alias("started"),
            F.timestamp_millis("change.ts").alias("ts"),
            F.timestamp_millis("change.ingest").alias("ingest_ts"),
            F.col("change.id").alias("message_id"),
            F.col("change.detail").alias("detail"),
            F.col("change.is_over").alias("is_over"),
            F.to_date(F.timestamp_millis("change.when")).alias("dt"),
        )
    )
