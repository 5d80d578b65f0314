"""The pure-Python twin of ``_lines.pyx``: payloads as lines of JSON for the uplink, and what codecs wrote as JSON.

A payload that is JSON is copied as it was written, but for line breaks, which stand between tokens only; anything else
becomes base64. JSON is what Python's decoder takes without ``NaN`` and its like, no deeper than ``MAX_DEPTH`` and
without integers of more than ``MAX_DIGITS`` digits: bounds that readers have too, and that both twins can keep.
"""

from __future__ import annotations

import json
from base64 import b64encode
from math import isinf

from iot_mqtt.native._pure_runs import payloads

#: Objects and lists within one another.
MAX_DEPTH = 256
#: What Python converts by default.
MAX_DIGITS = 4300
_BREAKS = b"\r\n"


class NotRead(ValueError):
    """JSON that is not taken; says why, as the end of a sentence."""


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise NotRead(f"holds a number with more than {MAX_DIGITS} digits")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if isinf(value):
        raise OverflowError(digits[:32])
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise NotRead(f"holds the name {name[:100]!r} twice")
        found[name] = value
    return found


NOT_JSON = object()
#: ``ValueError`` or ``RecursionError`` for what is none, or too deep for Python.
_decode = json.JSONDecoder(parse_constant=_refuse, parse_int=_integer).decode
#: For what is written anew from its value; ``OverflowError`` for a number that would become ``Infinity`` there.
decode = json.JSONDecoder(parse_constant=_refuse, parse_int=_integer, parse_float=_finite).decode
#: The same, where a name that stands twice in an object must not be passed over.
decode_once = json.JSONDecoder(
    parse_constant=_refuse, parse_int=_integer, parse_float=_finite, object_pairs_hook=_once
).decode


def lines(wire: bytes, count: int, prefix: int, first: int, head: bytes, middle: bytes) -> list[bytes]:
    """One line for each payload of a run of publishes (``payloads`` says what the first three are).

    It stands behind ``head``, its position, counted from ``first``, and ``middle``.
    """
    found: list[bytes] = []
    for position, payload in enumerate(payloads(wire, count, prefix), start=first):
        if decoded(payload) is NOT_JSON:
            found.append(b'%s%d%s"payload_b64":"%s"}' % (head, position, middle, b64encode(payload)))
        else:
            found.append(b'%s%d%s"payload":%s}' % (head, position, middle, payload.translate(None, _BREAKS)))
    return found


def object_line(text: bytes) -> bytes | None:
    """A JSON object without its line breaks; None if it is none. It may become the member of a line's object, and is
    therefore one level less deep than lines are.
    """
    value = decoded(text, MAX_DEPTH - 1)
    return text.translate(None, _BREAKS) if isinstance(value, dict) else None


def decoded(payload: bytes, depth: int = MAX_DEPTH) -> object:
    """The JSON value of a payload, or ``NOT_JSON``."""
    try:
        value: object = _decode(payload.decode())
    except (ValueError, RecursionError):
        return NOT_JSON
    return NOT_JSON if is_deep(payload, value, depth) else value


def is_deep(text: bytes, value: object, depth: int) -> bool:
    """Whether the value of a text has more than so many levels. Few brackets are soon counted."""
    if text.count(b"[") + text.count(b"{") <= depth:
        return False
    level = [value]
    for _ in range(depth):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        level = [one for one in inner if isinstance(one, dict | list)]
        if not level:
            return False
    return True
