"""Pieces of JSON schemas: of objects by their properties, and of values by their classes."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin, get_type_hints

Json = dict[str, Any]
#: Schemas by name.
Schemas = dict[str, Json]

_SCALARS: dict[object, Json] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


def maybe(kind: str) -> Json:
    """Of this type, or null."""
    return {"type": [kind, "null"]}


def object_of(properties: Json) -> Json:
    """What is answered: all of the properties are there."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def body_of(properties: Json, *required: str) -> Json:
    """What is asked: nothing but these properties. Null is as good as nothing."""
    taken = {name: one if name in required else _or_null(one) for name, one in properties.items()}
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": taken}


def names_in(schema: Json) -> Iterator[str]:
    """The names of all properties that a body may have, at any depth."""
    properties = schema.get("properties", {})
    yield from properties
    for inner in (*properties.values(), schema.get("items")):
        if inner:
            yield from names_in(inner)


def _or_null(schema: Json) -> Json:
    kind = schema.get("type")
    if kind is None or "null" in kind:
        return schema
    enum = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [*([kind] if isinstance(kind, str) else kind), "null"], **enum}


def items_of(item: Json) -> Json:
    """A list of them."""
    return {"type": "array", "items": item}


def flag_of(text: str) -> Json:
    """What is false unless it is asked for."""
    return {"type": "boolean", "default": False, "description": text}


def schema_of(hint: Any) -> Json:
    """Of a class of values, or of the type of one of their fields."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = next(part for part in get_args(hint) if part is not type(None))
        return maybe(schema_of(inner)["type"])
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": schema_of(get_args(hint)[1])}
    if get_origin(hint) in (list, tuple):
        return items_of(schema_of(get_args(hint)[0]))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        return object_of({field.name: schema_of(hints[field.name]) for field in dataclasses.fields(hint)})
    return _SCALARS[hint]
