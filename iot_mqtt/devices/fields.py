"""Reading a JSON object field by field: each of the type that it must have, and none that nobody knows.

Whoever takes such objects from outside says in its own class what is raised when they are wrong.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Self, TypeVar

from iot_mqtt.ports import json_reader

Value = TypeVar("Value")


class Fields:
    """A JSON object; ``finish``, or the end of a ``with``, refuses what nobody read."""

    __slots__ = ("_values", "_prefix", "_read")

    def __init__(self, values: Mapping[str, object], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix
        self._read: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()

    @staticmethod
    def wrong(detail: str) -> Exception:
        """What is raised."""
        return ValueError(detail)

    def take(self, name: str, type: type[Value]) -> Value | None:
        """A field of exactly this type, or None if it is absent or null."""
        self._read.add(name)
        value = self._values.get(name)
        if value is None:
            return None
        if type is int and isinstance(value, float) and value.is_integer():
            # JSON has numbers only: 1.0 is 1.
            value = int(value)
        if not isinstance(value, type) or (isinstance(value, bool) and type not in (bool, object)):
            raise self.wrong(f"{self._prefix}{name} must be {_TYPES[type]}")
        return value

    def number(self, name: str, highest: int) -> int | None:
        """A whole number from 0 to ``highest``."""
        value = self.take(name, int)
        if value is not None and not 0 <= value <= highest:
            raise self.wrong(f"{self._prefix}{name} must be a number from 0 to {highest}")
        return value

    def seconds(self, name: str) -> float | None:
        """A span or a time, in seconds."""
        self._read.add(name)
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            raise self.wrong(f"{self._prefix}{name} must be seconds, from 0 to less than 1e12")
        return float(value)

    def text(self, name: str) -> str | None:
        """A text that UTF-8 can hold; JSON can spell half a surrogate pair, MQTT cannot [MQTT-1.5.4-1]."""
        value = self.take(name, str)
        if value is not None and any("\ud800" <= character <= "\udfff" for character in value):
            raise self.wrong(f"{self._prefix}{name} holds a surrogate")
        return value

    def base64(self, name: str) -> bytes | None:
        """Bytes, spelled in base64."""
        value = self.take(name, str)
        if value is None:
            return None
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.wrong(f"{self._prefix}{name} is not base64") from error

    def fields(self, name: str) -> Self:
        """An object below this one; an empty one if it is absent."""
        return type(self)(self.take(name, dict) or {}, f"{self._prefix}{name}.")

    def finish(self) -> None:
        """Refuse fields that were not read."""
        if unknown := sorted(self._values.keys() - self._read):
            raise self.wrong(f"unknown field {self._prefix}{unknown[0]}")


def read_json(data: bytes) -> object:
    """What came as a body: a value that can be written down again. ``ValueError``: it is none."""
    try:
        value: object = json_reader.read_json(data, once=True)
    except ValueError as error:
        raise ValueError(f"the body {error}") from error
    return value


def read_object(data: bytes) -> Mapping[str, object]:
    """A JSON object. ``ValueError``: it is none."""
    value = read_json(data)
    if not isinstance(value, dict):
        raise ValueError("the body must be a JSON object")  # noqa: TRY004 - whoever sent it has no types
    return value


_TYPES = {str: "text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list"}
