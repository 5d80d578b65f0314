"""The unified message and the tables' rows, as Spark sees them.

The message's shape is written once, in ``schemas/message_v<version>.json``; Spark's schema is derived from it. A file
that was released stays as it is, and the next version joins beside it, so records of any age can be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

SCHEMAS = Path(__file__).parent / "schemas"
FIRST = 1
#: Each has all fields of those before it, so records of any are read by it.
NEWEST = 2
#: Where Spark puts the text of a record that does not fit.
BROKEN = "_broken"


def versions() -> list[int]:
    """All versions that there are."""
    return sorted(int(path.stem.removeprefix("message_v")) for path in SCHEMAS.glob("message_v*.json"))


def version_of(told: object) -> int:
    """The version that a record's header or field tells, where there is such a one; else the first."""
    if isinstance(told, bytes):
        told = told.decode(errors="replace")
    try:
        version = int(str(told))
    except ValueError:
        return FIRST
    return version if version in versions() else FIRST


@cache
def document(version: int = FIRST) -> Mapping[str, Any]:
    """The JSON Schema of the unified message."""
    found: Mapping[str, Any] = json.loads((SCHEMAS / f"message_v{version}.json").read_bytes())
    return found


@cache
def message(version: int = FIRST) -> StructType:
    """Spark's schema of it: the fields of all shapes, each nullable, and ``BROKEN``."""
    schema = document(version)
    found: dict[str, DataType] = {}
    for shape in schema["oneOf"]:
        for name, said in _resolved(schema, shape)["properties"].items():
            kind = _type(schema, said)
            if found.setdefault(name, kind) != kind:
                raise ValueError(f"{name} has two types in version {version}")
    return StructType([*(StructField(name, kind) for name, kind in found.items()), StructField(BROKEN, StringType())])


def _resolved(schema: Mapping[str, Any], said: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in said:
        return said
    target: Any = schema
    for part in said["$ref"].removeprefix("#/").split("/"):
        target = target[part]
    return {**target, **{key: value for key, value in said.items() if key != "$ref"}}


_PLAIN: Mapping[str, DataType] = {"string": StringType(), "integer": LongType(), "number": DoubleType()}


def _type(schema: Mapping[str, Any], said: Mapping[str, Any]) -> DataType:
    """The type of a property. What may be of several types keeps what it is, as a VARIANT."""
    said = _resolved(schema, said)
    told = said.get("type", [])
    kinds = [kind for kind in ([told] if isinstance(told, str) else told) if kind != "null"]
    if kinds == ["object"]:
        return MapType(StringType(), _type(schema, said["additionalProperties"]))
    if len(kinds) == 1 and kinds[0] in _PLAIN:
        return _PLAIN[kinds[0]]
    return VariantType()


#: One row for each tag's value. ``dt`` is the day of ``ts`` in UTC, and the name of the directory.
CLEAN = StructType(
    [
        StructField("gateway", StringType()),
        StructField("device", StringType()),
        StructField("tag", StringType()),
        StructField("ts", TimestampType()),
        StructField("ingest_ts", TimestampType()),
        StructField("seq", LongType()),
        # A number, or a bool as 0 and 1. Beyond 2**53 it may not be the one that was sent: ``text`` has its digits.
        StructField("value", DoubleType()),
        StructField("text", StringType()),
        StructField("quality", StringType()),
        StructField("unit", StringType()),
        StructField("id", StringType()),
        # Of the message: with ``tag`` it is of this row and no other.
        StructField("record", StringType()),
        StructField("codec", StringType()),
        StructField("node", StringType()),
        StructField("dt", DateType()),
    ]
)

#: A dead letter: a whole record, or some tags of it if ``tags`` says how many; ``problems`` names the first of them,
#: ``tag`` the very first. Of a record that Kafka has refused, ``topic`` is where it should have gone. ``dt`` is the day
#: of arrival.
INVALID = StructType(
    [
        StructField("raw", StringType()),
        StructField("reason", StringType()),
        StructField("tag", StringType()),
        StructField("tags", LongType()),
        StructField(
            "problems",
            ArrayType(StructType([StructField("tag", StringType()), StructField("reason", StringType())])),
        ),
        StructField("topic", StringType()),
        StructField("ingest_ts", TimestampType()),
        StructField("dt", DateType()),
    ]
)
