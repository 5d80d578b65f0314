"""One call of the API as values: what was asked for, already decoded, and readers that refuse what is wrong."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from iot_mqtt.admin.errors import bad_request

MAX_LIMIT = 1000
DEFAULT_LIMIT = 100

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Call:
    """The variable parts of the path by name, the query, and the body."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def after(self) -> str | None:
        """The cursor of the page before."""
        return self.query.get("after")

    @property
    def limit(self) -> int:
        """How many items a page may have."""
        text = self.query.get("limit", str(DEFAULT_LIMIT))
        if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_LIMIT:
            raise bad_request(f"limit must be a number from 1 to {MAX_LIMIT}, not {text!r}")
        return int(text)

    def json(self) -> Fields:
        """The body as a JSON object."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise bad_request("the body is not JSON") from error
        if not isinstance(value, dict):
            raise bad_request("the body must be a JSON object")
        return Fields(value)


class Fields:
    """A JSON object that is read field by field; ``finish`` refuses what nobody read."""

    __slots__ = ("_values", "_prefix", "_read")

    def __init__(self, values: Mapping[str, object], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix
        self._read: set[str] = set()

    def take(self, name: str, type: type[Value]) -> Value | None:
        """A field of exactly this type, or None if it is absent or null."""
        self._read.add(name)
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, type) or (isinstance(value, bool) and type is not bool):
            raise bad_request(f"{self._prefix}{name} must be {_TYPES[type]}")
        return value

    def number(self, name: str, highest: int) -> int | None:
        """A whole number from 0 to ``highest``."""
        value = self.take(name, int)
        if value is not None and not 0 <= value <= highest:
            raise bad_request(f"{self._prefix}{name} must be a number from 0 to {highest}")
        return value

    def text(self, name: str) -> str | None:
        """A text that UTF-8 can hold; JSON can spell half a surrogate pair, MQTT cannot [MQTT-1.5.4-1]."""
        value = self.take(name, str)
        if value is not None and any("\ud800" <= character <= "\udfff" for character in value):
            raise bad_request(f"{self._prefix}{name} holds a surrogate")
        return value

    def base64(self, name: str) -> bytes | None:
        """Bytes, spelled in base64."""
        value = self.take(name, str)
        if value is None:
            return None
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise bad_request(f"{self._prefix}{name} is not base64") from error

    def fields(self, name: str) -> Fields:
        """An object below this one; an empty one if it is absent."""
        return Fields(self.take(name, dict) or {}, f"{self._prefix}{name}.")

    def finish(self) -> None:
        """Refuse fields that were not read."""
        if unknown := sorted(self._values.keys() - self._read):
            raise bad_request(f"unknown field {self._prefix}{unknown[0]}")


_TYPES = {str: "text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list"}


def path_segments(path: bytes) -> list[str]:
    """The parts between slashes, percent-decoded one by one, so that an encoded slash stays inside its part."""
    try:
        return [unquote_to_bytes(part).decode() for part in path.lstrip(b"/").split(b"/")]
    except UnicodeDecodeError as error:
        raise bad_request("the path is not UTF-8") from error


def read_query(query: bytes, known: tuple[str, ...]) -> dict[str, str]:
    """The parameters of a query, each known and given once."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16)
    except ValueError as error:
        raise bad_request("the query is not percent-encoded UTF-8") from error
    values: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            raise bad_request(f"unknown parameter {name!r}; known are: {', '.join(known) or 'none'}")
        if name in values:
            raise bad_request(f"parameter {name!r} is given twice")
        values[name] = value
    return values
