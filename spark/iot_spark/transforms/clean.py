"""From records as they came to cleaned rows and dead letters: parse, judge, apply the rules.

::

    raw, topic, arrived ─▶ messages ─▶ (once_in_batch, see dedup) ─▶ values ─▶ good   one row for each tag
                              │                                        └─────▶ bad    its message as one with these tags
                              └────────────────────────────────────────────▶ dead   the whole record as one

Nothing leaves the way without a reason: ``problem`` is null for what is good, else a few words from a fixed list, so
dead letters can be counted by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import StructField, StructType

from iot_spark.rules import CleanRule
from iot_spark.schema import BROKEN, CLEAN, INVALID, NEWEST, message
from iot_spark.transforms.fields import (
    digits,
    has_half_character,
    has_name_twice,
    is_given,
    is_json,
    is_nested,
    milliseconds,
    number_problem,
    time_problem,
    whole_number,
)

#: A device's clock that says less was never set. Milliseconds of the year 2000.
OLDEST_MS = 946_684_800_000
#: The last day that every reader of Parquet can tell; for times that are judged by no rule.
NEWEST_MS = 253_402_300_799_000
_TAGS = "map<string,variant>"
#: A VARIANT takes no more, and not a name twice.
MOST_BYTES = 16 * 1024**2
TWICE = "a name twice"
#: Stands for the gateway where there was none. No gateway can be called so.
PLAIN = "$mqtt"
#: Of one dead letter: tags that are listed, and characters of a name. What is more, the message itself says.
MOST_TAGS = 100
LONGEST_TAG = 200


def messages(records: DataFrame, future_seconds: int, version: int = NEWEST) -> DataFrame:
    """One row for each record: the fields of both shapes of message as one, ``tags``, and ``problem``."""
    fields = [field for field in message(version) if field.name != BROKEN]
    wanted = StructType([StructField("m", StructType(fields)), StructField(BROKEN, message(version)[BROKEN].dataType)])
    # Wrapped once more, or what stands behind the object (a second one, say) would be passed over without a word.
    text = F.concat(F.lit('{"m":'), F.coalesce(F.col("raw"), F.lit("")), F.lit("}"))
    options = {"columnNameOfCorruptRecord": BROKEN, "allowNonNumericNumbers": "false"}
    parsed = records.select("raw", "topic", "arrived", F.from_json(text, wanted, options).alias("p")).select(
        "raw", "topic", "arrived", F.col(f"p.{BROKEN}").isNotNull().alias("broken"), "p.m"
    )
    return _judged(_named(_as_one(parsed)), text, future_seconds)


def _named(told: DataFrame) -> DataFrame:
    """Nobody speaks for another: what a client published is no gateway's, whatever the client calls itself, and is its
    own device's only where the topic says the same. Elsewhere the topic, which rights are about, is the device.
    """
    wrapped, client, topic = F.col("wrapped"), F.col("device"), F.col("mqtt_topic")
    is_own = F.try_element_at(F.split(topic, "/"), F.lit(2)) == client
    return told.withColumns(
        {
            "gateway": F.when(wrapped, PLAIN).otherwise(F.col("gateway")),
            "device": F.when(wrapped & (client != "") & ~is_own, topic).otherwise(client),
            # For telling repetitions: of the same client, too.
            "mqtt_topic": F.when(wrapped, F.concat_ws(" ", topic, client)),
        }
    )


def _as_one(parsed: DataFrame) -> DataFrame:
    """Both shapes in the same columns; ``payload`` of a wrapped message becomes tags, a number and a time."""
    m = F.col("m")
    wrapped = m.client.isNotNull() & m.gateway.isNull()
    told = parsed.select("*", wrapped.alias("wrapped")).select(
        "*", F.when(F.col("wrapped"), F.try_variant_get(m.payload, "$", _TAGS)).alias("object")
    )
    inside = F.col("object")
    said_seq, said_ts = (F.try_element_at(inside, F.lit(name)) for name in ("seq", "ts"))
    of_payload = (
        # These are the number and the time, and no tags.
        F.when(inside.isNotNull(), F.map_filter(inside, lambda key, _: ~key.isin("seq", "ts")))
        # A plain number or text: where it was published says what it is.
        .when(
            is_given(m.payload) & ~is_nested(F.schema_of_variant(m.payload)),
            F.create_map(m.topic, m.payload),
        )
    )
    is_wrapped = F.col("wrapped")
    told = told.withColumn("own_ts", F.when(is_wrapped, milliseconds(said_ts)).when(m.ts != m.ingest_ts, m.ts))
    return told.select(
        "raw",
        "topic",
        "arrived",
        "broken",
        "wrapped",
        m.id.alias("id"),
        F.coalesce(m.record, m.id).alias("record"),
        F.when(is_wrapped, m.client).otherwise(m.gateway).alias("gateway"),
        F.when(is_wrapped, m.client).otherwise(m.device).alias("device"),
        F.coalesce("own_ts", m.ts).alias("ts_ms"),
        # The device told it.
        F.col("own_ts").isNotNull().alias("clock"),
        F.when(is_wrapped, F.coalesce(time_problem(said_ts), number_problem(said_seq))).alias("field_problem"),
        m.ingest_ts.alias("ingest_ms"),
        F.when(is_wrapped, whole_number(said_seq)).otherwise(m.seq).alias("seq"),
        F.when(is_wrapped, of_payload).otherwise(m["values"]).alias("tags"),
        m.quality.alias("qualities"),
        m.codec.alias("codec"),
        m.node.alias("node"),
        F.when(is_wrapped, m.topic).alias("mqtt_topic"),
        m.qos.alias("qos"),
        m.payload_b64.isNotNull().alias("is_bytes"),
    )


def _judged(told: DataFrame, text: Column, future_seconds: int) -> DataFrame:
    ts, came = F.col("ts_ms"), F.col("ingest_ms")
    problem = (
        F.when(F.col("raw").isNull() | (F.trim("raw") == ""), "empty")
        .when(
            F.col("broken") & F.try_parse_json(text).isNull(),
            F.when(is_json(text) & (F.octet_length("raw") < MOST_BYTES), TWICE).otherwise("broken JSON"),
        )
        .when(F.col("broken"), "a field has the wrong type")
        .when(has_half_character(F.col("raw")), "half a character")
        .when(F.col("id").isNull() | (F.col("id") == ""), "no id")
        .when(F.col("gateway").isNull() | (F.col("gateway") == ""), "no gateway")
        .when(F.col("device").isNull() | (F.col("device") == ""), "no device")
        .when(F.col("field_problem").isNotNull(), F.col("field_problem"))
        .when(ts.isNull(), "no ts")
        .when(came.isNull(), "no ingest_ts")
        .when(~came.between(OLDEST_MS, NEWEST_MS), "ingest_ts out of range")
        .when(ts < OLDEST_MS, "ts before 2000")
        .when(ts > F.least(came + future_seconds * 1000, F.lit(NEWEST_MS)), "ts in the future")
        .when(F.col("is_bytes"), "payload is not JSON")
        .when(F.col("tags").isNull() & F.col("wrapped"), "payload is neither an object nor a value")
        .when(F.col("tags").isNull(), "no values")
        .when(has_name_twice(F.col("tags")), TWICE)
        .when(F.cardinality("tags") == 0, "no values")
    )
    arrived_ms = F.unix_millis("arrived")
    came_or_arrived = F.when(came.between(OLDEST_MS, NEWEST_MS), came).otherwise(arrived_ms)
    # When it came to the broker, if that is known.
    judged = told.withColumn("problem", problem).withColumn("came_ms", came_or_arrived)
    return judged.drop("broken", "wrapped", "is_bytes", "ingest_ms", "arrived", "field_problem")


def values(good: DataFrame, rules: Sequence[CleanRule]) -> DataFrame:
    """One row for each tag of messages without a ``problem``; a tag may get one here."""
    exploded = good.select("*", F.explode("tags").alias("tag", "variant")).select(
        "*", F.schema_of_variant("variant").alias("kind")
    )
    variant, kind = F.col("variant"), F.col("kind")
    typed = exploded.select(
        "*",
        _number(variant, kind).alias("number"),
        F.when(kind == "STRING", F.try_variant_get(variant, "$", "string")).otherwise(digits(variant)).alias("text"),
        _chosen(rules, F.col("tag")).alias("rule"),
    )
    rule = F.col("rule")
    judged = typed.select("*", _scaled(F.col("number"), kind, rule, rules).alias("value"))
    value = F.col("value")
    outside = (value < rule["min"]) | (value > rule["max"])
    told = F.coalesce(F.try_element_at("qualities", F.col("tag")), F.lit("good"))
    quality = (
        F.when((rule.outside == "quality") & outside, "out_of_range")
        .when((told == "good") & value.isNotNull() & F.col("text").isNotNull(), "rounded")
        .otherwise(told)
    )
    problem = _tag_problem(kind, value, F.col("text").isNotNull(), rule)
    return judged.select("*", problem.alias("tag_problem"), quality.alias("quality"), rule.unit.alias("unit"))


def _number(variant: Column, kind: Column) -> Column:
    return F.when((kind != "STRING") & ~is_nested(kind), F.try_variant_get(variant, "$", "double"))


def _scaled(number: Column, kind: Column, rule: Column, rules: Sequence[CleanRule]) -> Column:
    if not any(one.scale != 1 or one.offset != 0 for one in rules):
        return number
    return F.when(kind == "BOOLEAN", number).otherwise(number * rule["scale"] + rule["offset"])


def _tag_problem(kind: Column, value: Column, is_text: Column, rule: Column) -> Column:
    is_invalid = rule["outside"] == "invalid"
    return (
        F.when(kind == "VOID", "value is null")
        .when(is_nested(kind), "value is not a scalar")
        .when(value.isNull() & ~is_text, "value is not a number")
        .when(value.isNotNull() & (F.isnan(value) | (F.abs(value) == float("inf"))), "number is too large")
        .when(is_invalid & (value < rule["min"]), "value below min")
        .when(is_invalid & (value > rule["max"]), "value above max")
    )


def _chosen(rules: Sequence[CleanRule], tag: Column) -> Column:
    """What the first rule that matches says, as one column."""
    found = _said(CleanRule(match=None))  # type: ignore[arg-type]
    for rule in reversed(rules):
        found = F.when(rule.match.column(tag), _said(rule)).otherwise(found)
    return found


def _said(rule: CleanRule) -> Column:
    return F.struct(
        F.lit(rule.scale).alias("scale"),
        F.lit(rule.offset).alias("offset"),
        F.lit(rule.min).cast("double").alias("min"),
        F.lit(rule.max).cast("double").alias("max"),
        F.lit(rule.outside).alias("outside"),
        F.lit(rule.unit).cast("string").alias("unit"),
    )


def good(valued: DataFrame) -> DataFrame:
    """The cleaned rows; see ``schema.CLEAN``."""
    ts, came = F.timestamp_millis("ts_ms"), F.timestamp_millis("came_ms")
    return (
        valued.where(F.col("tag_problem").isNull())
        .select("*", ts.alias("ts"), came.alias("ingest_ts"), _day("ts_ms").alias("dt"))
        .select(*CLEAN.names)
    )


def _day(milliseconds: str) -> Column:
    """In UTC. By division: a cast would ask the calendar for each row."""
    return F.expr(f"date_from_unix_date(cast({milliseconds} div 86400000 as int))")


def bad(good: DataFrame, rules: Sequence[CleanRule]) -> DataFrame:
    """Messages with tags that have a problem: each one dead letter, however many tags it is about."""
    # By functions on the whole map: a row for each tag would have a copy of the message each.
    told = F.transform(F.map_entries("tags"), partial(_typed, rules))
    judged = F.transform(told, partial(_judged_tag, rules))
    found = good.select("*", F.filter(judged, lambda one: one["reason"].isNotNull()).alias("found"))
    return _letters(found.where(F.size("found") > 0), _reasons(F.col("found.reason")), F.col("found"))


def _typed(rules: Sequence[CleanRule], entry: Column) -> Column:
    variant = entry["value"]
    kind = F.schema_of_variant(variant)
    return F.struct(
        entry["key"].alias("tag"),
        kind.alias("kind"),
        _number(variant, kind).alias("number"),
        _chosen(rules, entry["key"]).alias("rule"),
    )


def _judged_tag(rules: Sequence[CleanRule], one: Column) -> Column:
    kind, rule = one["kind"], one["rule"]
    value = _scaled(one["number"], kind, rule, rules)
    problem = _tag_problem(kind, value, kind == "STRING", rule)
    return F.struct(F.left(one["tag"], F.lit(LONGEST_TAG)).alias("tag"), problem.alias("reason"))


def _reasons(reasons: Column) -> Column:
    """Each once: there are few, so letters can be counted by them."""
    return F.array_join(F.array_sort(F.array_distinct(reasons)), "; ")


def dead(judged: DataFrame) -> DataFrame:
    """Records that are dead letters as a whole; see ``schema.INVALID``."""
    return _letters(judged.where(F.col("problem").isNotNull()), F.col("problem"), None)


def _letters(frame: DataFrame, reason: Column, found: Column | None) -> DataFrame:
    came = F.timestamp_millis("came_ms")
    kinds = {name: INVALID[name].dataType for name in ("tag", "tags", "problems")}
    about: dict[str, Column] = {name: F.lit(None) for name in kinds}
    if found is not None:
        first = F.try_element_at(found, F.lit(1))["tag"]
        about = {"tag": first, "tags": F.size(found), "problems": F.slice(found, 1, MOST_TAGS)}
    named = [column.cast(kinds[name]).alias(name) for name, column in about.items()]
    return frame.select(
        "raw", reason.alias("reason"), *named, "topic", came.alias("ingest_ts"), _day("came_ms").alias("dt")
    ).select(*INVALID.names)
