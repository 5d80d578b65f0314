"""Values as JSON; the only file of the package that knows orjson.

A list is made a few items at a time, so its items are texts before they are a list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class JsonText:
    """An answer that is JSON already."""

    text: bytes


def as_json(value: object) -> bytes:
    """What orjson refuses, such as numbers of more than 64 bits and keys that are numbers, goes the slow way."""
    try:
        return orjson.dumps(value, _plain)
    except orjson.JSONEncodeError:
        return json.dumps(value, ensure_ascii=False, default=_plain_inside).encode("utf-8", "replace")


def read_json(text: bytes) -> Any:
    """``ValueError`` for what is none."""
    return orjson.loads(text)


def list_of(texts: Sequence[bytes], **more: object) -> JsonText:
    """An object with these items, and more beside them."""
    rest = b",%b" % as_json(more)[1:] if more else b"}"
    return JsonText(b'{"items":[%b]%b' % (b",".join(texts), rest))


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a value by name; what is in them stays as it is."""
    if isinstance(value, Mapping):
        return dict(value)
    kind = type(value)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(one.name for one in fields(kind))
    return {name: getattr(value, name) for name in names}


#: The fields of each class of values.
_NAMES: dict[type, tuple[str, ...]] = {}


def _plain(value: Any) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _plain_inside(value: Any) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else _plain(value)
