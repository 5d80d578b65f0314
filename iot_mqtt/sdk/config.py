"""The section ``plugins.<name>.config`` as the codec's ``Config``: strictly, and everything that is wrong at once.

Nothing is guessed: a key that does not exist is refused with the nearest one that does, a value of another type with
the path of its key. Types are those of a frozen dataclass: ``str``, ``int``, ``float``, ``bool``, enums, ``Literal``,
``X | None``, ``list``, ``tuple``, ``dict[str, X]`` and other dataclasses.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

#: A resolved annotation.
_Hint = Any
_MAX_LINES = 50


class BadConfig(Exception):
    """The configuration does not fit the codec; ``lines`` says all that is wrong, one key each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def config_from(cls: type[T], mapping: Mapping[str, object] | None) -> T:
    """The dataclass with these values. Raises ``BadConfig``."""
    lines: list[str] = []
    built = _dataclass(cls, {} if mapping is None else mapping, "", lines)
    if lines:
        kept = lines[:_MAX_LINES]
        raise BadConfig([*kept, f"… and {len(lines) - len(kept)} more"] if len(kept) < len(lines) else kept)
    assert isinstance(built, cls)
    return built


def _origin(hint: _Hint) -> Any:
    """``get_origin`` without a type, which mypy takes for narrower than it is."""
    return get_origin(hint)


def _container(hint: _Hint) -> Any:
    """``list`` of ``list[str]``, and of ``list``."""
    return _origin(hint) or hint


def described(cls: type) -> Iterator[tuple[str, str, str]]:
    """Key, type and default of each field, for a person; those of nested dataclasses below their own key."""
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from ((f"{field.name}.{key}", kind, default) for key, kind, default in described(hint))
        else:
            yield field.name, _name(hint), _default(field)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    return "required" if field.default_factory is dataclasses.MISSING else repr(field.default_factory())


def _dataclass(cls: type, value: object, path: str, lines: list[str]) -> object:
    """The dataclass, or None with what is wrong in ``lines``."""
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is no dataclass: declare it with @dataclass(frozen=True)")
    if not isinstance(value, Mapping):
        lines.append(_line(path, f"must be a mapping, not {_shown(value)}"))
        return None
    before = len(lines)
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    lines.extend(_unknown(key, path, fields) for key in value if key not in fields)
    found: dict[str, object] = {}
    for name, field in fields.items():
        key = f"{path}{name}"
        if name in value:
            found[name] = _read(hints[name], value[name], key, lines)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            lines.append(f"{key}: is required ({_name(hints[name])})")
    if len(lines) > before:
        return None
    try:
        return cls(**found)
    except (TypeError, ValueError) as error:  # its own __post_init__ had something against it
        lines.append(_line(path, str(error) or f"{cls.__name__} refused it"))
        return None


def _unknown(key: object, path: str, fields: Mapping[str, object]) -> str:
    near = get_close_matches(str(key), fields, 1, cutoff=0.5)
    known = f"known are {', '.join(fields)}" if fields else "this codec takes no configuration"
    return f"{path}{key}: there is no such key; {f'did you mean {path}{near[0]}?' if near else known}"


def _line(path: str, text: str) -> str:
    return f"{path.rstrip('.')}: {text}" if path else text


def _read(hint: _Hint, value: object, key: str, lines: list[str]) -> object:
    """The value as the type; what is wrong goes to ``lines``."""
    origin, arguments = _origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return value
    if origin in (Union, types.UnionType):
        return _union(hint, value, key, lines)
    if origin is Literal:
        return _choice(value, {str(choice): choice for choice in arguments}, key, lines)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        by_name = {str(member.value): member for member in hint}
        return _choice(value, by_name, key, lines)
    if (container := _container(hint)) in _CONTAINERS:
        return _CONTAINERS[container](container, arguments, value, key, lines)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint, value, f"{key}.", lines)
    return _scalar(hint, value, key, lines)


def _scalar(hint: _Hint, value: object, key: str, lines: list[str]) -> object:
    if hint not in _SCALARS:
        raise TypeError(f"{key}: a Config cannot have the type {_name(hint)}")
    if not _SCALARS[hint](value):
        lines.append(f"{key}: must be {_name(hint)}, not {_shown(value)}")
        return None
    return float(value) if hint is float and isinstance(value, int) else value


def _union(hint: _Hint, value: object, key: str, lines: list[str]) -> object:
    """The first alternative that takes it; with one alternative beside None, its own complaint."""
    choices = [choice for choice in get_args(hint) if choice is not types.NoneType]
    if value is None and len(choices) < len(get_args(hint)):
        return None
    for choice in choices:
        trial: list[str] = []
        result = _read(choice, value, key, trial)
        if not trial:
            return result
        if len(choices) == 1:
            lines.extend(trial)
            return None
    lines.append(f"{key}: must be {_name(hint)}, not {_shown(value)}")
    return None


def _choice(value: object, choices: Mapping[str, object], key: str, lines: list[str]) -> object:
    for text, choice in choices.items():
        plain = choice.value if isinstance(choice, enum.Enum) else choice
        if type(value) is type(plain) and str(value) == text:
            return choice
    near = get_close_matches(str(value), choices, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    lines.append(f"{key}: must be one of {', '.join(choices)}, not {_shown(value)}{hint}")
    return None


def _items(container: type, arguments: tuple[_Hint, ...], value: object, key: str, lines: list[str]) -> object:
    """A list, or a tuple of any or of a certain length."""
    if not isinstance(value, list | tuple):
        lines.append(f"{key}: must be a list, not {_shown(value)}")
        return None
    inner: Sequence[_Hint] = arguments or (Any,)
    if container is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            lines.append(f"{key}: must be a list of {len(arguments)} things, not of {len(value)}")
            return None
    else:
        inner = [inner[0]] * len(value)
    return container(
        _read(hint, item, f"{key}[{place}]", lines) for place, (hint, item) in enumerate(zip(inner, value, strict=True))
    )


def _mapping(_: type, arguments: tuple[_Hint, ...], value: object, key: str, lines: list[str]) -> object:
    if not isinstance(value, Mapping):
        lines.append(f"{key}: must be a mapping, not {_shown(value)}")
        return None
    of_key, of_value = arguments or (Any, Any)
    return {
        _read(of_key, name, f"{key}: the key {name!r}", lines): _read(of_value, item, f"{key}.{name}", lines)
        for name, item in value.items()
    }


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _shown(value: object) -> str:
    """The value for a person: short, and with its type if that is the point."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _name(hint: _Hint) -> str:
    """The type in the words of the person who writes the file."""
    origin, arguments = _origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if one is types.NoneType else _name(one) for one in arguments)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return f"one of {', '.join(str(member.value) for member in hint)}"
    if _container(hint) in (list, tuple, Sequence):
        return "a list"
    if _container(hint) in (dict, Mapping) or dataclasses.is_dataclass(hint):
        return "a mapping"
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))


_SCALARS: dict[_Hint, Callable[[object], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: _is_int,
    float: _is_number,
}
_NAMES: dict[_Hint, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
_CONTAINERS: dict[_Hint, Callable[[type, tuple[_Hint, ...], object, str, list[str]], object]] = {
    list: _items,
    tuple: _items,
    Sequence: lambda _, *rest: _items(tuple, (*(rest[0] or (Any,)), ...), *rest[1:]),
    dict: _mapping,
    Mapping: _mapping,
}
