"""Reading one value as the type its key has, strictly: nothing is guessed that YAML has already decided."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, Union, get_args, get_origin

import yaml

from iot_mqtt.app.config.yaml_loader import yaml_of

#: A resolved annotation of a settings field: ``int``, ``str | None``, ``tuple[str, ...]``, ``Literal["a", "b"]``.
Hint = Any


class IllTyped(Exception):
    """The value is not what the key takes; the text says what it takes instead."""


def describe(hint: Hint) -> str:
    """The type in the words of the person who writes the file."""
    if _origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    if _is_optional(hint):
        return f"{describe(_without_none(hint))}, or null"
    if _origin(hint) is Mapping:
        return "a mapping"
    if _origin(hint) is tuple:
        return "a list of texts" if get_args(hint)[0] is str else "a list of mappings"
    return _NAMES[hint]


def read(hint: Hint, value: object, *, is_text: bool) -> object:
    """The value as the type; ``is_text``: from the environment or ``--set``, where everything is a string."""
    if _is_optional(hint):
        if value is None or (is_text and value in ("", "null", "~")):
            return None
        return read(_without_none(hint), value, is_text=is_text)
    if _origin(hint) is Literal:
        return _choice(hint, value)
    if _origin(hint) is Mapping:
        return _mapping(value)
    if _origin(hint) is tuple:
        return _list(hint, value, is_text=is_text)
    if is_text and isinstance(value, str) and hint is not str:
        value = _from_text(hint, value)
    return _scalar(hint, value)


def _scalar(hint: Hint, value: object) -> object:
    if not _SCALARS[hint](value):
        raise IllTyped(f"must be {_NAMES[hint]}, not {_shown(value)}{_quoting(hint, value)}")
    return float(value) if hint is float and isinstance(value, int) else value


def _from_text(hint: Hint, text: str) -> object:
    if hint is bool and text in ("0", "1"):
        return text == "1"
    try:
        return hint(text) if hint in (int, float) else yaml_of(text)
    except (ValueError, yaml.YAMLError):
        return text


def _choice(hint: Hint, value: object) -> object:
    choices = get_args(hint)
    if value in choices and not isinstance(value, bool):
        return value
    near = get_close_matches(str(value), choices, 1)
    suggestion = f"; did you mean {near[0]}?" if near else ""
    if isinstance(value, int | float) and str(value) in choices:
        suggestion = f"; write it in quotes: '{value}'"
    raise IllTyped(f"must be one of {', '.join(choices)}, not {_shown(value)}{suggestion}")


def _list(hint: Hint, value: object, *, is_text: bool) -> object:
    inner = get_args(hint)[0]
    if is_text and isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = yaml_of(value)
        except yaml.YAMLError as error:
            raise IllTyped(f"must be {describe(hint)}, not {value!r}") from error
    if inner is str and isinstance(value, str):
        # host:port,host:port is how ZooKeeper and Kafka have always been told.
        value = [part.strip() for part in value.split(",") if part.strip()]
    wanted = str if inner is str else Mapping
    if not isinstance(value, list) or not all(isinstance(item, wanted) for item in value):
        raise IllTyped(f"must be {describe(hint)}, not {_shown(value)}")
    return tuple(value)


def _mapping(value: object) -> object:
    if not isinstance(value, Mapping):
        raise IllTyped(f"must be a mapping, not {_shown(value)}")
    return dict(value)


def _is_optional(hint: Hint) -> bool:
    return _origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)


def _origin(hint: Hint) -> object:
    return get_origin(hint)


def _without_none(hint: Hint) -> Hint:
    return next(part for part in get_args(hint) if part is not type(None))


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    return f"{str(value).lower() if isinstance(value, bool) else repr(value)}"


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_float(value: object) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _quoting(hint: Hint, value: object) -> str:
    """The usual slip: quotes forgotten, or one pair too many."""
    if hint is str and isinstance(value, bool | int | float):
        return "; write it in quotes"
    if hint in (int, float) and isinstance(value, str) and value.replace(".", "", 1).isdigit():
        return "; write it without quotes"
    return ""


_NAMES: dict[Hint, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}

_SCALARS: dict[Hint, Callable[[object], bool]] = {
    bool: lambda value: isinstance(value, bool),
    int: _is_int,
    float: _is_float,
    str: lambda value: isinstance(value, str),
}
