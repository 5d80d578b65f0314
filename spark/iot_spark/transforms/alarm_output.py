"""What is made of a change: the row of the table ``alarms``, the record of the alarms' topic, and a command.

A command's id follows from the alarm's, so one that is produced twice is one command to the broker. ``expires_in``
counts from the change, not from when the job gets to it. So a command says when it ends (``deadline``): the same
however late its batch is sent, and the broker lets it expire. What is too late already when it is judged is not sent,
nor what an alarm asks for that is over by then; the row says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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

#: Why a command was not sent; in the row's ``detail``.
TOO_LATE: Final = "its command was not sent: it would have come too late"
OVER: Final = "its command was not sent: the alarm was over already"

_TIMES: Final = ("at", "started", "ts", "ingest_ts")
_PLACES: Final = re.compile(r"\{(gateway|device|tag)\}")
#: Where the text of a command said what was left of its time, before it said when it ends.
_LEFT: Final = r'^(\{"id":"[^"]*","target":"(?:[^"\\]|\\.)*",)"expires_in":[-+0-9.E]+'


def with_commands(changes: DataFrame, rules: Sequence[AlarmRule], now: int) -> DataFrame:
    """The rows of ``ALARMS``. ``now`` in ms: what ends by then is too late."""
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
    why = F.when(F.col("ends") <= now, TOO_LATE).when(F.col("is_over"), OVER)
    is_sent = F.col("chosen").isNotNull() & F.col("withheld").isNull()
    command_id = F.concat_ws("-", "alarm_id", "state")
    fields = F.to_json(
        F.struct(
            F.col("command_id").alias("id"),
            F.col("chosen.target").alias("target"),
            _seconds(F.col("ends")).alias("deadline"),
            F.col("chosen.retry").alias("retry"),
            F.col("chosen.wants_reply").alias("wants_reply"),
        )
    )
    # The body is JSON already.
    record = F.concat(
        F.expr("substring(fields, 1, length(fields) - 1)"), F.lit(',"body":'), F.col("chosen.body"), F.lit("}")
    )
    return (
        changes.withColumn("chosen", chosen)
        .withColumn("ends", F.unix_millis("at") + F.col("chosen.expires_in"))
        .withColumn("withheld", F.when(F.col("chosen").isNotNull(), why))
        .withColumn("command_id", F.when(is_sent, command_id))
        .withColumn("fields", fields)
        .withColumns(
            {
                "command_target": F.when(is_sent, F.col("chosen.target")),
                "command": F.when(is_sent, record),
                "detail": F.coalesce("withheld", "detail"),
            }
        )
        .select(*ALARMS.fieldNames())
    )


def _seconds(milliseconds: Column) -> Column:
    """Exactly, and without an exponent in JSON."""
    return (milliseconds.cast("decimal(16)") / 1000).cast("decimal(16,3)")


def _command(command: CommandRule) -> Column:
    expires_in = None if command.expires_in is None else round(command.expires_in * 1000)
    return F.struct(
        _filled(command.target, F.col).alias("target"),
        _filled(command.body, _in_json).alias("body"),
        F.lit(expires_in).cast("long").alias("expires_in"),
        F.lit(command.retry).alias("retry"),
        F.lit(command.wants_reply).alias("wants_reply"),
    )


def _filled(text: str, named: Callable[[str], Column]) -> Column:
    """Cut at the places and put together again, so that a name with braces in it stays a name."""
    parts = _PLACES.split(text)
    return F.concat(*(named(part) if index % 2 else F.lit(part) for index, part in enumerate(parts)))


def _in_json(name: str) -> Column:
    """What stands between the quotes. Only in a text can JSON have a name alone in braces."""
    listed = F.to_json(F.array(name))
    return F.substring(listed, F.lit(3), F.length(listed) - 4)


def withheld(alarms: DataFrame) -> DataFrame:
    """Commands that were not sent, counted: ``detail`` says why, ``who`` is the device."""
    gateway = F.when(~F.col("gateway").startswith("$"), F.col("gateway"))
    rows = alarms.where(F.col("detail").isin(TOO_LATE, OVER))
    return rows.groupBy("detail", F.concat_ws("/", gateway, "device").alias("who")).count()


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
        F.col("command_target").alias("key"), _absolute(F.col("command")).alias("value"), "tag", _arrived()
    )


def _absolute(command: Column) -> Column:
    """As it is. One that an earlier release has decided said what was left then; from the change that is never more."""
    left = F.get_json_object(command, "$.expires_in").cast("double")
    ends = F.unix_millis("at") + F.round(left * 1000).cast("long")
    told = F.concat(F.lit('$1"deadline":'), _seconds(ends).cast("string"))
    return F.when(left.isNull(), command).otherwise(F.regexp_replace(command, F.lit(_LEFT), told))


def _arrived() -> Column:
    """Of the reading; silence has none."""
    return F.coalesce("ingest_ts", "at").alias("ingest_ts")
