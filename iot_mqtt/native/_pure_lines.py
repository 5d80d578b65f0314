"""The pure-Python twin of ``_lines.pyx``: payloads as lines of JSON, for the uplink.

A payload that is JSON is copied as it was written, but for line breaks, which stand between tokens only; anything else
becomes base64. JSON is what Python's decoder takes without ``NaN`` and its like, no deeper than ``MAX_DEPTH`` and
without integers of more than ``MAX_DIGITS`` digits: bounds that readers have too, and that both twins can keep.
"""

from __future__ import annotations

import json
from base64 import b64encode

from iot_mqtt.native._pure import payloads

#: Objects and lists within one another.
MAX_DEPTH = 256
#: What Python converts by default.
MAX_DIGITS = 4300
#: What an object has that is a reading.
READING = frozenset(("id", "node", "gateway", "device", "ts"))
_BREAKS = b"\r\n"

#: Of a reading: its place in the run, its codec and schema; "" where it does not say.
Told = tuple[int, str, str]


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError("an integer that nobody reads")
    return int(digits)


NOT_JSON = object()
_decode = json.JSONDecoder(parse_constant=_refuse, parse_int=_integer).decode


def lines(
    wire: bytes, count: int, prefix: int, first: int, head: bytes, middle: bytes, gateway: str, device: str
) -> tuple[list[bytes], list[Told]]:
    """One line for each payload of a run of publishes (``payloads`` says what the first three are).

    Where the caller knows that a codec made the run, for this ``gateway`` and ``device``, a reading that says the same
    is its own line, and is told of in the second list. Any other payload stands behind ``head``, its position, counted
    from ``first``, and ``middle``. An empty ``gateway``: there are no readings among these, whatever they look like.
    """
    values: list[bytes] = []
    readings: list[Told] = []
    for index, payload in enumerate(payloads(wire, count, prefix)):
        value = decoded(payload)
        if value is NOT_JSON:
            values.append(b'%s%d%s"payload_b64":"%s"}' % (head, first + index, middle, b64encode(payload)))
            continue
        line = payload.translate(None, _BREAKS)
        told = _reading(value, gateway, device) if gateway else None
        if told is not None:
            readings.append((index, *told))
            values.append(line)
        else:
            values.append(b'%s%d%s"payload":%s}' % (head, first + index, middle, line))
    return values, readings


def decoded(payload: bytes) -> object:
    """The JSON value of a payload, or ``NOT_JSON``."""
    try:
        value: object = _decode(payload.decode())
    except (ValueError, RecursionError):
        return NOT_JSON
    if payload.count(b"[") + payload.count(b"{") > MAX_DEPTH and _is_deep(value):
        return NOT_JSON
    return value


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
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


def reading_of(payload: bytes, gateway: str, device: str) -> tuple[str, str] | None:
    """(codec, schema) if it is a reading of this gateway's device, else None."""
    return _reading(decoded(payload), gateway, device)


def _reading(value: object, gateway: str, device: str) -> tuple[str, str] | None:
    """A codec that writes its values itself could name another gateway or device in them."""
    if not isinstance(value, dict) or not value.keys() >= READING:
        return None
    if value["gateway"] != gateway or value["device"] != device:
        return None
    return str(value.get("codec", "")), str(value.get("schema", ""))
