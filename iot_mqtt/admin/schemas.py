"""Pieces of JSON schemas: of objects by their properties, and of values by their classes."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

Json = dict[str, Any]
#: Schemas by name.
Schemas = dict[str, Json]

#: In the schema of what the audit log may have.
AUDITED: Final = "x-audited"

_SCALARS: dict[object, Json] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


def maybe(kind: str) -> Json:
    """Of this type, or null."""
    return {"type": [kind, "null"]}


def object_of(properties: Json, contents: Json | None = None) -> Json:
    """What is answered: all of the properties are there. ``contents``: for operators alone (``Call.sees_contents``)."""
    told = {name: {**one, "description": _for_operators(one)} for name, one in (contents or {}).items()}
    return {"type": "object", "properties": {**properties, **told}, "required": list(properties)}


def _for_operators(schema: Json) -> str:
    return " ".join(filter(None, (schema.get("description"), "For operators.")))


def body_of(properties: Json, *required: str, audited: Iterable[str] = ()) -> Json:
    """What is asked: nothing but these properties. Null is as good as nothing. ``audited``: those of them that the
    audit log may have (``audited_of``).
    """
    properties = {**properties, **{name: audited_of(properties[name]) for name in audited}}
    taken = {name: one if name in required else _or_null(one) for name, one in properties.items()}
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": taken}


def audited_of(schema: Json) -> Json:
    """A text, texts or an object of any fields that the audit log may have: no content of a message, and no secret. It
    has no others, so a field that nobody thought of is not in it. Numbers, flags and words of a list need no mark.
    """
    return {**schema, AUDITED: True}


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
