"""What a codec may return. The broker holds every event against the same rules; one broken is "garbage".

The schema is the kit's alone: the broker does not look at it, those who read the data do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from iot_mqtt.sdk.event_json import values_of
from iot_mqtt.sdk.events import Answer, Close, Event, Heartbeat, Login, Readings, Send, WhenSafe
from iot_mqtt.sdk.schema import Schema

MAX_ID, MAX_TAG, MAX_TAGS, MAX_TEXT, MAX_BYTES = 64, 256, 4096, 65_536, 1024 * 1024
_INT = 1 << 63
_QUALITY = ("good", "bad", "uncertain", "stale")
#: Reasons become labels of a metric.
_REASON = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Fault(Exception):
    """The codec did what it must not; the text says what."""


def check_event(event: object) -> None:
    """Raises ``Fault``."""
    check = _CHECKS.get(type(event))
    if check is None:
        raise Fault(f"{type(event).__name__} is none of the SDK's events")
    check(event)


def check_reason(reason: object) -> None:
    """Of a ``BadFrame``. Raises ``Fault``."""
    if not isinstance(reason, str) or not _REASON.fullmatch(reason):
        raise Fault(
            f"BadFrame({reason!r}): a reason is a word such as 'checksum', in lower case and always the same; what is "
            "special about this frame belongs into its detail"
        )


def check_bytes(data: object, what: str) -> bytes:
    """What ``encode`` and the like returned. Raises ``Fault``."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise Fault(f"{what} returned {type(data).__name__}, not bytes")
    if len(data) > MAX_BYTES:
        raise Fault(f"{what} returned {len(data)} bytes; {MAX_BYTES} are allowed")
    return bytes(data)


def check_schema(event: Event, schema: Schema) -> None:
    """Whether readings are of the types that the schema says. Raises ``Fault``."""
    if not isinstance(event, Readings):
        return
    for tag, value in values_of(event).items():
        if (said := schema.tags.get(tag)) is None:
            if not schema.open:
                raise Fault(f"the tag {tag!r} of device {event.device!r} is not in the schema, which is closed")
        elif value is not None and not _TYPES[said.type](value):
            raise Fault(f"{tag!r} is {value!r} ({type(value).__name__}), but the schema says {said.type}")


def _readings(event: Readings) -> None:
    _identifier(event.device, "device")
    if isinstance(event.values, bytes):
        if len(event.values) > MAX_BYTES:
            raise Fault(f"values have {len(event.values)} bytes; {MAX_BYTES} are allowed")
        try:
            values: Mapping[str, object] = values_of(event)
        except ValueError as error:
            raise Fault(f"values given as bytes are not a JSON object: {error}") from error
    elif isinstance(event.values, Mapping):
        values = event.values
    else:
        raise Fault(f"values are {type(event.values).__name__}, not a mapping")
    _values(values)
    _number(event.time, 1 << 53, "time is no number of milliseconds since 1970")
    _number(event.sequence, _INT, "sequence is no number from 0")
    if event.quality is not None:
        _quality(event.quality)


def _values(values: Mapping[Any, object]) -> None:
    if len(values) > MAX_TAGS:
        raise Fault(f"{len(values)} values in one reading; {MAX_TAGS} are allowed")
    for tag, value in values.items():
        if not isinstance(tag, str) or not 0 < len(tag) <= MAX_TAG or not _is_text(tag):
            raise Fault(f"a tag is a text of 1 to {MAX_TAG} characters, not {_shown(tag)}")
        if isinstance(value, float):
            if not math.isfinite(value):
                raise Fault(f"{tag} is {value}, which JSON cannot hold; leave it out, or say None and a quality")
        elif isinstance(value, int):
            if not -_INT <= value < _INT * 2:
                raise Fault(f"{tag} has more than 64 bits")
        elif isinstance(value, str):
            if not _is_text(value):
                raise Fault(f"{tag} is a text that is too long, or is no Unicode")
        elif value is not None:
            raise Fault(f"{tag} is {type(value).__name__}; a value is a bool, int, float, str or None")


def _quality(quality: object) -> None:
    if not isinstance(quality, Mapping) or len(quality) > MAX_TAGS:
        raise Fault("quality is no mapping of tags to words")
    for tag, word in quality.items():
        if not isinstance(tag, str) or not _is_text(tag) or word not in _QUALITY:
            raise Fault(f"the quality of {_shown(tag)} is {_shown(word)}; the words are {', '.join(_QUALITY)}")


def _login(event: Login) -> None:
    _identifier(event.gateway, "gateway")
    if event.username is not None and not _is_text(event.username):
        raise Fault("username is no text")
    if event.secret is not None:
        _bytes(event.secret, "secret")
    beat: object = event.heartbeat
    if isinstance(beat, bool) or not isinstance(beat, int | float) or not 0 <= beat <= 86_400:
        raise Fault(f"heartbeat is no number of seconds up to a day: {_shown(beat)}")


def _answer(event: Answer) -> None:
    number: object = event.number
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 0xFFFFFFFF:
        raise Fault(f"an answer's number is from 1 to 0xFFFFFFFF, not {_shown(number)}")
    if event.ok is not True and event.ok is not False:
        raise Fault(f"an answer's ok is {_shown(event.ok)}")
    if not _is_text(event.detail):
        raise Fault("an answer's detail is no text")
    if event.values is not None:
        if not isinstance(event.values, Mapping):
            raise Fault("an answer's values are no mapping")
        _values(event.values)


def _identifier(name: object, what: str) -> None:
    good = isinstance(name, str) and 0 < len(name) <= MAX_ID and name.isprintable() and not set("/+#$") & set(name)
    if not good:
        raise Fault(f"a {what} is 1 to {MAX_ID} printable characters without / + # $, not {_shown(name)}")


def _number(value: object, limit: int, text: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
        raise Fault(f"{text}: {_shown(value)}")


def _bytes(data: object, what: str) -> None:
    if not isinstance(data, bytes) or len(data) > MAX_BYTES:
        raise Fault(f"{what} is not bytes, {MAX_BYTES} at most")


def _reason(reason: object) -> None:
    if not _is_text(reason):
        raise Fault("Close.reason is no text")


def _is_text(text: object) -> bool:
    """Half a surrogate pair is what no UTF-8 can hold."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return False
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _shown(value: object) -> str:
    return repr(value)[:60]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[object], bool]] = {
    "bool": lambda value: isinstance(value, bool),
    "int": _is_int,
    "float": lambda value: _is_int(value) or isinstance(value, float),
    "string": lambda value: isinstance(value, str),
}
_CHECKS: dict[type, Callable[..., None]] = {
    Readings: _readings,
    Login: _login,
    Answer: _answer,
    WhenSafe: lambda event: _number(event.token, _INT, "a token is no number from 0"),
    Heartbeat: lambda _: None,
    Send: lambda event: _bytes(event.data, "Send.data"),
    Close: lambda event: _reason(event.reason),
}
