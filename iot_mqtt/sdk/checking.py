"""Whether what a codec returned is what the SDK says it may return. Cheap, for it is done with every reading.

The names of devices and tags that were found good are remembered, since a gateway has always the same ones. Values that
a codec has written as JSON are looked at here and nowhere else: from here on they are one object on one line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iot_mqtt.native import object_line
from iot_mqtt.sdk.events import Answer, Close, Heartbeat, Login, Readings, Send, WhenSafe
from iot_mqtt.sdk.schema import Schema

MAX_ID = 64
MAX_TAG = 256
MAX_TAGS = 4096
MAX_TEXT = 65_536
#: A reading as JSON text, or bytes for the gateway.
MAX_BYTES = 1024 * 1024
#: What a value counts besides its text, with its tag.
_VALUE_BYTES = 32
_REMEMBERED = 8192
_FORBIDDEN = frozenset("/+#$")
_INT = 1 << 63
_QUALITY = frozenset(("good", "bad", "uncertain", "stale"))
#: What is shown as it is.
_PLAIN = frozenset((bool, float, type(None)))


class Garbage(Exception):
    """A codec returned what it must not; the text says what, for a person."""


#: Types of values by the schema's words; what is not declared may have any.
_ANY: frozenset[type] = frozenset()
_TYPES: dict[str, frozenset[type]] = {
    "bool": frozenset((bool, type(None))),
    "int": frozenset((int, type(None))),
    "float": frozenset((float, int, type(None))),
    "string": frozenset((str, type(None))),
}


class Checker:
    """Of one version of a plugin. With a schema, values are held against it, but for those given as JSON."""

    __slots__ = ("_devices", "_tags", "_schema")

    def __init__(self, schema: Schema | None = None) -> None:
        self._devices: set[str] = set()
        #: Names that were found good, and which types their values may have.
        self._tags: dict[str, frozenset[type]] = {}
        self._schema = schema

    def check(self, events: Sequence[object]) -> int:
        """How many bytes they have, roughly. Raises ``Garbage``."""
        size = 0
        try:
            for event in events:
                size += self._readings(event) if type(event) is Readings else _other(event)
        except (AttributeError, TypeError) as error:  # made without __init__, or of things that compare with nothing
            raise Garbage(f"an event that is none: {error}") from error
        return size

    def _readings(self, event: Readings) -> int:
        device, values = event.device, event.values
        if type(device) is not str or device not in self._devices:
            _identifier(device, "device")
            if len(self._devices) < _REMEMBERED:
                self._devices.add(device)
        if type(values) is bytes:
            line = object_line(values) if len(values) <= MAX_BYTES else None
            if line is None:
                raise Garbage("values given as bytes are not a JSON object")
            event.values = line
            size = len(line)
        elif type(values) is dict:
            size = self.check_values(values)
        elif isinstance(values, Mapping):
            size = self.check_values(dict(values))
        else:
            raise Garbage(f"values are {type(values).__name__}, not a mapping")
        time, sequence = event.time, event.sequence
        if time is not None and (type(time) is not int or not 0 <= time < 1 << 53):
            raise Garbage(f"time is no number of milliseconds: {_shown(time)}")
        if sequence is not None and (type(sequence) is not int or not 0 <= sequence < _INT):
            raise Garbage(f"sequence is no number from 0: {_shown(sequence)}")
        return size if event.quality is None else size + _quality(event.quality)

    def check_values(self, values: Mapping[str, object]) -> int:
        """Of readings or of an answer: how many bytes they have, roughly. Raises ``Garbage``."""
        if len(values) > MAX_TAGS:
            raise Garbage(f"{len(values)} values in one reading; {MAX_TAGS} are allowed")
        size = _VALUE_BYTES * len(values)
        for tag, value in values.items():
            types = self._tags.get(tag) if type(tag) is str else None
            if types is None:
                types = self._tag(tag)
            if types and type(value) not in types:
                raise Garbage(f"{tag} is {_shown(value)}, but the schema says {self._said(tag)}")
            if type(value) is float:
                if value - value != 0.0:  # an infinity, or not a number
                    raise Garbage(f"{tag} is {value}, which JSON cannot hold; leave it out, or say None and a quality")
            elif type(value) is int:
                if not -_INT <= value < _INT * 2:
                    raise Garbage(f"{tag} has more than 64 bits")
            elif value is not None and type(value) is not bool:
                size += _text_value(tag, value)
        return size

    def _tag(self, tag: object) -> frozenset[type]:
        """The types that its values may have. Raises ``Garbage``."""
        if type(tag) is not str or not 0 < len(tag) <= MAX_TAG or _has_surrogates(tag):
            raise Garbage(f"a tag is a text of 1 to {MAX_TAG} characters, not {_shown(tag)}")
        types = _ANY
        schema = self._schema
        if schema is not None and tag in schema.tags:
            types = _TYPES.get(schema.tags[tag].type, _ANY)
        elif schema is not None and not schema.open:
            raise Garbage(f"the tag {_shown(tag)} is not in the schema, which is closed")
        if len(self._tags) < _REMEMBERED:
            self._tags[tag] = types
        return types

    def _said(self, tag: str) -> str:
        return "" if self._schema is None else self._schema.tags[tag].type


def _text_value(tag: str, value: object) -> int:
    if type(value) is not str:
        raise Garbage(f"{tag} is {type(value).__name__}; a value is a bool, int, float, str or None")
    if len(value) > MAX_TEXT or _has_surrogates(value):
        raise Garbage(f"{tag} is a text that is too long, or is no Unicode")
    return len(value)


def _other(event: object) -> int:
    kind = type(event)
    check = _CHECKS.get(kind)
    if check is None:
        raise Garbage(f"{kind.__name__} is none of the SDK's events")
    return check(event)


def _login(event: Login) -> int:
    _identifier(event.gateway, "gateway")
    size = 0
    if event.username is not None:
        size += _text(event.username, "username")
    if event.secret is not None:
        size += _bytes(event.secret, "secret")
    if type(event.heartbeat) not in (int, float) or not 0 <= event.heartbeat <= 86_400:
        raise Garbage(f"heartbeat is no number of seconds up to a day: {_shown(event.heartbeat)}")
    return size


def _answer(event: Answer) -> int:
    if type(event.number) is not int or not 0 <= event.number <= 0xFFFFFFFF:
        raise Garbage(f"an answer's number is from 1 to 0xFFFFFFFF, not {_shown(event.number)}")
    if type(event.ok) is not bool:
        raise Garbage(f"an answer's ok is {_shown(event.ok)}")
    size = _text(event.detail, "detail")
    if event.values is None:
        return size
    if not isinstance(event.values, Mapping):
        raise Garbage("an answer's values are no mapping")
    return size + Checker().check_values(event.values)


def _when_safe(event: WhenSafe) -> int:
    if type(event.token) is not int or not 0 <= event.token < _INT:
        raise Garbage(f"a token is a number from 0, not {_shown(event.token)}")
    return 0


def _identifier(name: object, what: str) -> None:
    if (
        type(name) is not str
        or not 0 < len(name) <= MAX_ID
        or not name.isprintable()
        or not _FORBIDDEN.isdisjoint(name)
    ):
        raise Garbage(f"a {what} is 1 to {MAX_ID} printable characters without / + # $, not {_shown(name)}")


def _text(text: object, what: str) -> int:
    if type(text) is not str or len(text) > MAX_TEXT or _has_surrogates(text):
        raise Garbage(f"{what} is no text of {MAX_TEXT} characters at most")
    return len(text)


def _bytes(data: object, what: str) -> int:
    if type(data) is not bytes or len(data) > MAX_BYTES:
        raise Garbage(f"{what} is not bytes, {MAX_BYTES} at most")
    return len(data)


def check_bytes(data: object, what: str) -> bytes:
    """What ``welcome`` and the like returned. Raises ``Garbage``."""
    if type(data) is not bytes:
        if not isinstance(data, bytearray | memoryview):
            raise Garbage(f"{what} returned {type(data).__name__}, not bytes")
        data = bytes(data)
    _bytes(data, what)
    return data


def check_encoded(data: object) -> bytes:
    """What ``encode`` returned: a command is never nothing. Raises ``Garbage``."""
    encoded = check_bytes(data, "encode")
    if not encoded:
        raise Garbage("encode returned no bytes")
    return encoded


def _quality(quality: object) -> int:
    if not isinstance(quality, Mapping) or len(quality) > MAX_TAGS:
        raise Garbage("quality is no mapping of tags to words")
    for tag, word in quality.items():
        if type(tag) is not str or len(tag) > MAX_TAG or _has_surrogates(tag) or _QUALITY.isdisjoint((word,)):
            raise Garbage(
                f"the quality of {_shown(tag)} is {_shown(word)}; the words are {', '.join(sorted(_QUALITY))}"
            )
    return _VALUE_BYTES * len(quality)


def _has_surrogates(text: str) -> bool:
    """Half a surrogate pair is what no UTF-8 can hold."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _shown(value: object) -> str:
    """Short, and whatever the value's own ``repr`` would do."""
    if type(value) is str or type(value) is bytes:
        return repr(value[:40])
    small = type(value) is int and -_INT <= value < _INT * 2
    return repr(value) if small or type(value) in _PLAIN else type(value).__name__


_CHECKS: dict[type, Callable[[Any], int]] = {
    Login: _login,
    WhenSafe: _when_safe,
    Heartbeat: lambda _: 0,
    Send: lambda event: _bytes(event.data, "Send.data"),
    Answer: _answer,
    Close: lambda event: _text(event.reason, "Close.reason"),
}
