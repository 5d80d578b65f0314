"""How messages are printed: the payload alone, with its topic, as JSON, or by a format as mosquitto_sub has it.

A format is compiled once. What begins with a percent sign stands for something of the message, what begins with ``@``
for a part of the local time, and what begins with a backslash for a character.
"""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from iot_mqtt.app.terminal import plain
from iot_mqtt.codec import Properties, Publish

#: From a message and the time when it came to what stands for it.
Piece = Callable[[Publish, float], bytes]

_ESCAPES: Final = {
    "\\": b"\\", "0": b"\0", "a": b"\a", "e": b"\x1b", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v",
}  # fmt: skip
_SEQUENCE: Final = re.compile(
    r"%(?P<flag>[-0]*)(?P<width>\d*)(?:\.(?P<most>\d+))?(?P<what>.)|@(?P<time>.)|\\(?P<escape>.)", re.DOTALL
)


class BadFormat(ValueError):
    """A format that nobody can follow."""


def _text(value: object) -> bytes:
    return b"" if value is None else str(value).encode()


def _json_line(message: Publish, at: float, *, quoted: bool) -> bytes:
    properties = message.properties
    named = {
        "user-properties": dict(properties.user_properties),
        "content-type": properties.content_type,
        "correlation-data": _shown(properties.correlation_data),
        "response-topic": properties.response_topic,
        "payload-format-indicator": properties.payload_format_indicator,
        "message-expiry-interval": properties.message_expiry_interval,
    }
    found: dict[str, Any] = {
        "tst": time.strftime(f"%Y-%m-%dT%H:%M:%S.{_fraction(at, 6)}%z", time.localtime(at)),
        "topic": message.topic.decode(),
        "qos": message.qos,
        "retain": int(message.retain),
        "payloadlen": len(message.payload),
    }
    if message.packet_id:
        found["mid"] = message.packet_id
    if said := {name: value for name, value in named.items() if value not in (None, {})}:
        found["properties"] = said
    found["payload"] = _shown(message.payload) if quoted else _inner(message.payload)
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def _shown(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _inner(payload: bytes) -> Any:
    """The payload as the JSON that it is; null if it is none."""
    try:
        return json.loads(payload)
    except ValueError:
        return None


def _fraction(at: float, digits: int) -> str:
    return f"{at % 1:.9f}"[2 : 2 + digits]


#: What may stand behind ``%``: of the message,
_OF_MESSAGE: Final[dict[str, Callable[[Publish], bytes]]] = {
    "A": lambda message: _text(message.properties.topic_alias),
    "C": lambda message: _text(message.properties.content_type),
    "D": lambda message: message.properties.correlation_data or b"",
    "E": lambda message: _text(message.properties.message_expiry_interval),
    "F": lambda message: _text(message.properties.payload_format_indicator),
    "P": lambda message: " ".join(f"{name}:{value}" for name, value in message.properties.user_properties).encode(),
    "R": lambda message: _text(message.properties.response_topic),
    "S": lambda message: " ".join(map(str, message.properties.subscription_identifiers)).encode(),
    "X": lambda message: message.payload.hex().upper().encode(),
    "d": lambda message: b"%d" % message.dup,
    "l": lambda message: _text(len(message.payload)),
    "m": lambda message: _text(message.packet_id),
    "p": lambda message: message.payload,
    "q": lambda message: _text(message.qos),
    "r": lambda message: b"%d" % message.retain,
    "t": lambda message: message.topic,
    "x": lambda message: message.payload.hex().encode(),
}
#: of the time when it came,
_OF_TIME: Final[dict[str, Callable[[float], bytes]]] = {
    "I": lambda at: time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(at)).encode(),
    "U": lambda at: f"{int(at)}.{_fraction(at, 9)}".encode(),
}
#: of both.
_OF_BOTH: Final[dict[str, Piece]] = {
    "%": lambda _message, _at: b"%",
    "J": partial(_json_line, quoted=False),
    "j": partial(_json_line, quoted=True),
}


def _named(what: str) -> Piece:
    if what in _OF_BOTH:
        return _OF_BOTH[what]
    if what in _OF_TIME:
        moment = _OF_TIME[what]
        return lambda _message, at: moment(at)
    if what not in _OF_MESSAGE:
        known = sorted({*_OF_MESSAGE, *_OF_TIME, *_OF_BOTH})
        raise BadFormat(f"there is no %{what}; there are: {' '.join(f'%{one}' for one in known)}")
    value = _OF_MESSAGE[what]
    return lambda message, _at: value(message)


def _value(found: re.Match[str], safe: bool) -> Piece:
    what = found["what"]
    value, width, most = _named(what), int(found["width"] or 0), found["most"]
    if width > 10_000:
        raise BadFormat("nothing is wider than 10000 characters")
    filler = b"0" if "0" in found["flag"] and what in "AEFlmSXx" else b" "
    left = "-" in found["flag"]

    def piece(message: Publish, at: float) -> bytes:
        data = value(message, at)
        if safe:
            data = printable(data)
        if most is not None:
            data = data[: int(most)]
        return data.ljust(width) if left else data.rjust(width, filler)

    return piece


def _moment(what: str) -> Piece:
    if what == "@":
        return _fixed(b"@")
    if what == "N":
        return lambda _message, at: _fraction(at, 9).encode()
    return lambda _message, at: time.strftime(f"%{what}", time.localtime(at)).encode()


def _fixed(text: bytes) -> Piece:
    return lambda _message, _at: text


def compiled(format: str, *, safe: bool) -> Piece:
    """The format as one function. ``safe``: what comes from others cannot control the terminal."""
    pieces: list[Piece] = []
    end = 0
    for found in _SEQUENCE.finditer(format):
        if found.start() > end:
            pieces.append(_fixed(format[end : found.start()].encode()))
        end = found.end()
        if found["time"]:
            pieces.append(_moment(found["time"]))
        elif found["escape"]:
            if found["escape"] not in _ESCAPES:
                raise BadFormat(f"behind a backslash comes one of {' '.join(_ESCAPES)}, not {found['escape']}")
            pieces.append(_fixed(_ESCAPES[found["escape"]]))
        else:
            pieces.append(_value(found, safe))
    rest = format[end:]
    if rest.endswith(("%", "@", "\\")):
        raise BadFormat(f"something is missing behind the last {rest[-1]}")
    if rest:
        pieces.append(_fixed(rest.encode()))
    return lambda message, at: b"".join([piece(message, at) for piece in pieces])


def printable(data: bytes) -> bytes:
    """The same for a terminal: control characters are spelled out, except ends of lines and tabs."""
    text = data.decode(errors="backslashreplace")
    return "\n".join("\t".join(map(plain, line.split("\t"))) for line in text.split("\n")).encode()


def printer(format: str | None, *, verbose: bool, json_lines: bool, ends: bool, safe: bool) -> Piece:
    """What to write for each message. ``ends``: with an end of line."""
    end = b"\n" if ends else b""
    if json_lines:
        return lambda message, at: json.dumps(as_json(message, at), ensure_ascii=not safe).encode() + end
    if format is None:
        format = "%t %p" if verbose else "%p"
    piece = compiled(format, safe=safe)
    return lambda message, at: piece(message, at) + end


def as_json(message: Publish, at: float) -> dict[str, Any]:
    """Every name is always there; ``payload`` is null where it is no text."""
    return {
        "topic": message.topic.decode(),
        "qos": message.qos,
        "retain": message.retain,
        "dup": message.dup,
        "packet_id": message.packet_id or None,
        "payload": text_of(message.payload),
        "payload_base64": b64encode(message.payload).decode(),
        "properties": properties_json(message.properties),
        "received_at": round(at, 6),
    }


def properties_json(properties: Properties) -> dict[str, Any]:
    correlation = properties.correlation_data
    return {
        "payload_format_indicator": properties.payload_format_indicator,
        "message_expiry_interval": properties.message_expiry_interval,
        "content_type": properties.content_type,
        "response_topic": properties.response_topic,
        "correlation_data": None if correlation is None else b64encode(correlation).decode(),
        "subscription_identifiers": list(properties.subscription_identifiers),
        "user_properties": [list(pair) for pair in properties.user_properties],
    }


def text_of(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
