"""Declarations as plain data: written in ``application.yaml``, sent to other processes, shown to people.

::

    framing:
      kind: length_field        # or delimiter, line, fixed
      magic: "0x68"             # hexadecimal behind 0x, otherwise text
      offset: 1
      width: 2
      checksum: {kind: crc16-modbus, order: little}
      resync: skip

Strict: a key that does not exist, is missing or has a value of another type is told with its name, and all of them at
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from difflib import get_close_matches
from typing import Any, Final

from iot_mqtt.framing.checking import BadFraming, all_fields, check
from iot_mqtt.framing.declare import Checksum, Delimiter, Fixed, Framing, LengthField, Line

KINDS: Final[dict[str, type[Framing]]] = {
    "length_field": LengthField,
    "delimiter": Delimiter,
    "line": Line,
    "fixed": Fixed,
}
_NAMES: Final = {kind: name for name, kind in KINDS.items()}
#: What Netty calls them: many a protocol's description does.
_NETTY: Final = {
    "maxFrameLength": "max_frame",
    "lengthFieldOffset": "offset",
    "lengthFieldLength": "width",
    "lengthAdjustment": "adjustment",
    "initialBytesToStrip": "strip",
    "byteOrder": "order",
    "failFast": "fail_fast",
    "frameLength": "size",
    "stripDelimiter": "strip",
}


class _Wrong(Exception):
    """One value that cannot be taken; inside this module only."""


def framing_from(data: Mapping[str, Any]) -> Framing:
    """The declaration. Raises ``BadFraming`` with all that is wrong."""
    if not isinstance(data, Mapping):
        raise BadFraming([f"a framing has keys, such as kind; this is {data!r}"])
    kind = data.get("kind")
    if kind is None or type(kind) is not str or kind not in KINDS:
        raise BadFraming([_unknown_kind(kind)])
    target = KINDS[kind]
    problems = _keys(data, ["kind", *all_fields(target)], _required(target), f"of kind {kind}", "")
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key in target.__dataclass_fields__:
            try:
                values[key] = _value(key, value)
            except _Wrong as wrong:
                problems.append(str(wrong))
            except BadFraming as bad:
                problems += bad.problems
    if problems:
        raise BadFraming(problems)
    framing = target(**values)
    if problems := check(framing):
        raise BadFraming(problems)
    return framing


def framing_to(framing: Framing) -> dict[str, Any]:
    """The same as data that JSON and YAML can hold; ``framing_from`` makes it a declaration again."""
    data: dict[str, Any] = {"kind": _NAMES[type(framing)]}
    for name in all_fields(framing):
        value = getattr(framing, name)
        if isinstance(value, Checksum):
            value = {inner: getattr(value, inner) for inner in Checksum.__dataclass_fields__}
        elif isinstance(value, bytes):
            value = _shown(value)
        elif isinstance(value, tuple):
            value = [_shown(each) for each in value]
        data[name] = value
    return data


# -- keys


def _required(target: type[Framing]) -> list[str]:
    return [name for name, field in target.__dataclass_fields__.items() if field.default is MISSING]


def _keys(data: Mapping[Any, Any], known: list[str], required: list[str], what: str, prefix: str) -> list[str]:
    problems = []
    for key in data:
        if key in known:
            continue
        text = f"unknown key {prefix}{key} {what}"
        near = _NETTY.get(str(key)) if _NETTY.get(str(key)) in known else None
        near = near or next(iter(get_close_matches(str(key), known, 1, cutoff=0.5)), None)
        problems.append(f"{text}; did you mean {prefix}{near}?" if near else f"{text}; there are {', '.join(known)}")
    return problems + [f"{prefix}{name} must be given" for name in required if name not in data]


def _unknown_kind(kind: object) -> str:
    text = f"kind must be one of {', '.join(KINDS)}"
    if kind is None:
        return text
    near = get_close_matches(kind, KINDS, 1) if isinstance(kind, str) else []
    return f"{text}, not {kind!r}" + (f"; did you mean {near[0]}?" if near else "")


# -- values


def _value(key: str, value: Any) -> Any:
    if key == "magic":
        return _bytes(key, value)
    if key == "delimiters":
        if not isinstance(value, list | tuple):
            raise _Wrong(f'delimiters must be a list, such as ["0x0d0a"], not {value!r}')
        return tuple(_bytes(key, each) for each in value)
    if key == "checksum":
        return _checksum(value)
    return value


def _checksum(value: Any) -> Checksum | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping):
        raise _Wrong(f"checksum must be a kind, such as crc32, or keys, such as kind; not {value!r}")
    known = list(Checksum.__dataclass_fields__)
    if problems := _keys(value, known, ["kind"], "of a checksum", "checksum."):
        raise BadFraming(problems)
    return Checksum(**value)


def _bytes(key: str, value: Any) -> bytes:
    """Text, or hexadecimal behind 0x."""
    if isinstance(value, int) and not isinstance(value, bool):
        raise _Wrong(f"{key} must be text: write it in quotes, such as '{value:#04x}'")
    if not isinstance(value, str):
        raise _Wrong(f"{key} must be text, or hexadecimal such as '0x0d0a', not {value!r}")
    try:
        return bytes.fromhex(value[2:]) if value.startswith("0x") else value.encode()
    except UnicodeEncodeError as error:
        raise _Wrong(f"{key} is no text: {value!r}") from error
    except ValueError as error:
        raise _Wrong(f"{key} is no hexadecimal: {value!r} (two digits for each byte)") from error


def _shown(value: bytes) -> str:
    return f"0x{value.hex()}" if value else ""
