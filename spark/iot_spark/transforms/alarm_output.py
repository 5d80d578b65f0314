"""What is made of a change: the row of the table ``alarms``, the record of the alarms' topic, and a command.

A command's id follows from the alarm's, so one that is produced twice is one command to the broker. One with
``expires_in`` counts from the change, not from when the job got to it: it is sent with what is left, and not at all
when nothing is; the row says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import DateType, DoubleType, StringType, StructField, StructType, TimestampType

from iot_spark.alarm_rules import AlarmRule, CommandRule

#: ``at``: when it was raised or cleared; ``ts``, ``ingest_ts``, ``message_id``, ``value``: of the reading that did it.
ALARMS: Final = StructType(
    [
        StructField("alarm_id", StringType()),
        # raised, cleared
        StructField("state", StringType()),
        StructField("rule", StringType()),
        StructField("kind", StringType()),
        StructField("severity", StringType()),
        StructField("gateway", StringType()),
        StructField("device", StringType()),
        StructField("tag", StringType()),
        StructField("value", DoubleType()),
        StructField("threshold", DoubleType()),
        StructField("at", TimestampType()),
        StructField("started", TimestampType()),
        StructField("ts", TimestampType()),
        StructField("ingest_ts", TimestampType()),
        StructField("message_id", StringType()),
        StructField("detail", StringType()),
        StructField("command_id", StringType()),
        StructField("command_target", StringType()),
        # As it goes to the commands' topic.
        StructField("command", StringType()),
        StructField("dt", DateType()),
    ]
)

_TIMES: Final = ("at", "started", "ts", "ingest_ts")
_PLACES: Final = re.compile(r"\{(gateway|device|tag)\}")


def with_commands(changes: DataFrame, rules: Sequence[AlarmRule], now: int) -> DataFrame:
    """The rows of ``ALARMS``. ``now`` in ms is what is left of a command counted from."""
    chosen: Column | None = None
    for rule in rules:
        for state, command in (("raised", rule.command), ("cleared", rule.clear_command)):
            if command is not None:
                here = (F.col("rule") == rule.name) & (F.col("state") == state) & F.col("detail").isNull()
                made = _command(command)
                chosen = F.when(here, made) if chosen is None else chosen.when(here, made)
    if chosen is None:
        nothing = F.lit(None).cast("string")
        made_up = changes.withColumns(dict.fromkeys(("command_id", "command_target", "command"), nothing))
        return made_up.select(*ALARMS.fieldNames())
    left = F.least(
        F.col("chosen.expires_in"), F.col("chosen.expires_in") - (F.lit(now) - F.col("since")) / F.lit(1000.0)
    )
    is_sent = F.col("chosen").isNotNull() & (F.col("left").isNull() | (F.col("left") >= 0.001))
    command_id = F.concat_ws("-", "alarm_id", "state")
    fields = F.to_json(
        F.struct(
            F.col("command_id").alias("id"),
            F.col("chosen.target").alias("target"),
            F.round("left", 3).alias("expires_in"),
            F.col("chosen.retry").alias("retry"),
            F.col("chosen.wants_reply").alias("wants_reply"),
        )
    )
    # The body is JSON already.
    record = F.concat(
        F.expr("substring(fields, 1, length(fields) - 1)"), F.lit(',"body":'), F.col("chosen.body"), F.lit("}")
    )
    too_late = F.lit("its command was not sent: it would have come too late")
    return (
        changes.withColumn("chosen", chosen)
        .withColumn("left", left)
        .withColumn("command_id", F.when(is_sent, command_id))
        .withColumn("fields", fields)
        .withColumns(
            {
                "command_target": F.when(is_sent, F.col("chosen.target")),
                "command": F.when(is_sent, record),
                "detail": F.when(F.col("chosen").isNotNull() & ~is_sent, too_late).otherwise(F.col("detail")),
            }
        )
        .select(*ALARMS.fieldNames())
    )


def _command(command: CommandRule) -> Column:
    # Cut at the places and put together again, so that a name with braces in it stays a name.
    parts = _PLACES.split(command.target)
    pieces = [F.col(part) if index % 2 else F.lit(part) for index, part in enumerate(parts)]
    return F.struct(
        F.concat(*pieces).alias("target"),
        F.lit(command.body).alias("body"),
        F.lit(command.expires_in).cast("double").alias("expires_in"),
        F.lit(command.retry).alias("retry"),
        F.lit(command.wants_reply).alias("wants_reply"),
    )


def in_order(alarms: DataFrame) -> DataFrame:
    """In one partition, as things happened: what is raised and cleared in one batch arrives in that order."""
    return alarms.coalesce(1).sortWithinPartitions("at", "started", F.col("state").desc())


def alarm_records(alarms: DataFrame) -> DataFrame:
    """``key``, ``value`` of the alarms' topic: by device, times in ms like everywhere; and ``tag``, ``ingest_ts``."""
    names = [name for name in ALARMS.fieldNames() if name not in ("dt", "command", "command_target")]
    fields = [F.unix_millis(name).alias(name) if name in _TIMES else F.col(name) for name in names]
    return in_order(alarms).select(
        F.concat_ws("/", "gateway", "device").alias("key"),
        F.to_json(F.struct(*fields)).alias("value"),
        "tag",
        _arrived(),
    )


def command_records(alarms: DataFrame) -> DataFrame:
    """``key``, ``value`` of the commands' topic: by target; and ``tag``, ``ingest_ts``."""
    return in_order(alarms.where("command is not null")).select(
        F.col("command_target").alias("key"), F.col("command").alias("value"), "tag", _arrived()
    )


def _arrived() -> Column:
    """Of the reading; silence has none."""
    return F.coalesce("ingest_ts", "at").alias("ingest_ts")
