"""The number and the time of a message, from what a client wrote into its JSON.

A whole number is one as a text, too (``"5"``). A time is milliseconds since 1970, as a number or a text, or ISO 8601
with its zone (``2026-11-23T01:28:00.5+01:00``). What could mean several things is no time: it has a problem.

And what JSON can spell that a column cannot hold: halves of characters, and whole numbers that no double is.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

#: Larger ones are not every number any more.
_EXACT = float(2**53)
#: An escape of JSON that is no half of a character: a pair of halves, or any other. What is left over is half.
_NO_HALF = r"\\(?:[^u]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
_HALF = r"\\u[dD][89a-fA-F]"
_WHOLE = r"^[+-]?\d{1,18}$"
_NUMBER = r"^[+-]?\d{1,18}(\.\d*)?$"
_LOCAL = r"^\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?)?"
_ZONE = r" ?([Zz]|[+-]\d\d(:?\d\d)?)$"


def is_nested(kind: Column) -> Column:
    """Whether a VARIANT of this kind is an object or an array."""
    return kind.startswith("OBJECT") | kind.startswith("ARRAY")


def _is_fraction(kind: Column) -> Column:
    """How JSON's numbers with a point, an exponent or too many digits are kept."""
    return kind.startswith("DECIMAL") | kind.isin("DOUBLE", "FLOAT")


def has_half_character(raw: Column) -> Column:
    """Whether a JSON text spells one, in a name or a value. UTF-8 cannot: the engine has a question mark for it."""
    may_have = raw.contains(r"\ud") | raw.contains(r"\uD")
    return may_have & F.regexp_replace(raw, _NO_HALF, " ").rlike(_HALF)


def is_json(text: Column) -> Column:
    """Whether it is an object of JSON, also with a name twice, which a VARIANT cannot have."""
    return F.from_json(text, "map<string,string>", {"allowNonNumericNumbers": "false"}).isNotNull()


def has_name_twice(tags: Column) -> Column:
    """Whether a map does: as it was read from JSON, it keeps both."""
    return F.cardinality(tags) > F.cardinality(F.array_distinct(F.map_keys(tags)))


def digits(value: Column) -> Column:
    """Of a number that is so large that a double may be another one; null of all others, and of what is no number."""
    kind = F.schema_of_variant(value)
    is_exact = (kind == "BIGINT") | kind.startswith("DECIMAL")
    may_be = F.abs(F.try_variant_get(value, "$", "double")) >= _EXACT
    exact = F.try_variant_get(value, "$", "decimal(38,0)")
    return F.when(is_exact & may_be & (F.abs(exact) > int(_EXACT)), F.try_variant_get(value, "$", "string"))


def is_given(value: Column) -> Column:
    """Whether there is a value, and not null."""
    return value.isNotNull() & (F.schema_of_variant(value) != "VOID")


def whole_number(value: Column) -> Column:
    """As a number; null where it is none."""
    kind = F.schema_of_variant(value)
    double = F.try_variant_get(value, "$", "double")
    text = F.trim(F.try_variant_get(value, "$", "string"))
    return (
        F.when(kind == "BIGINT", F.try_variant_get(value, "$", "bigint"))
        .when((kind == "STRING") & text.rlike(_WHOLE), text.try_cast("bigint"))
        .when(
            _is_fraction(kind) & (F.abs(double) < _EXACT) & (double == F.floor(double).cast("double")),
            double.cast("bigint"),
        )
    )


def milliseconds(value: Column) -> Column:
    """As milliseconds since 1970; null where it is no time, or could be several."""
    kind = F.schema_of_variant(value)
    text = F.trim(F.try_variant_get(value, "$", "string"))
    return (
        F.when(kind == "BIGINT", F.try_variant_get(value, "$", "bigint"))
        .when(_is_fraction(kind), F.floor(F.try_variant_get(value, "$", "double")).cast("bigint"))
        .when((kind == "STRING") & text.rlike(_NUMBER), F.floor(text.try_cast("double")).cast("bigint"))
        .when((kind == "STRING") & text.rlike(_LOCAL + _ZONE), F.unix_millis(_iso(text).try_cast("timestamp")))
    )


def _iso(text: Column) -> Column:
    """As Spark reads it: a point before fractions, seconds, a zone of hours and minutes."""
    found = F.replace(F.upper(text), F.lit(","), F.lit("."))
    for pattern, instead in (
        (r" ?(Z|[+-]\d\d(:?\d\d)?)$", "$1"),
        (r"([T ]\d\d:\d\d)([Z+-])", "$1:00$2"),
        (r"([+-]\d\d)(\d\d)$", "$1:$2"),
        (r"(:\d.*[+-]\d\d)$", "$1:00"),
    ):
        found = F.regexp_replace(found, pattern, instead)
    return found


def time_problem(value: Column) -> Column:
    """Why a time that was given is none; null: it is one, or none was given."""
    text = F.trim(F.try_variant_get(value, "$", "string"))
    is_local = (F.schema_of_variant(value) == "STRING") & text.rlike(_LOCAL + "$")
    return F.when(
        is_given(value) & milliseconds(value).isNull(),
        F.when(is_local, "ts has no time zone").otherwise("ts is not a time"),
    )


def number_problem(value: Column) -> Column:
    """Why a number that was given is none."""
    return F.when(is_given(value) & whole_number(value).isNull(), "seq is not a whole number")
