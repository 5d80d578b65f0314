"""Events as JSON objects: what golden vectors hold, ``iot-mqtt frames decode`` prints and a capture keeps.

::

    {"event": "readings", "device": "7", "values": {"t": 21.5}, "time": 1700000000000, "sequence": 12}
    {"event": "login", "gateway": "line-3", "secret": "70617373", "heartbeat": 30}
    {"event": "send", "data": "0601"}

What an event does not say is left out. Bytes are in hexadecimal.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from iot_mqtt.sdk.codec import Command
from iot_mqtt.sdk.events import Event, Readings

Json = dict[str, Any]

HIDDEN = "(hidden)"


class IllTold(ValueError):
    """JSON that is no event, no values or no command."""


def as_json(event: Event, *, secrets: bool = False) -> Json:
    """The event; a password only if it is asked for."""
    told: Json = {"event": name_of(event)}
    for field in event.__slots__:
        value = getattr(event, field)
        if value is None or (field, value) in _UNSAID:
            continue
        if field == "secret" and not secrets:
            value = HIDDEN
        elif field == "values":
            value = values_of(event) if isinstance(event, Readings) else dict(value)
        elif isinstance(value, bytes):
            value = value.hex()
        elif isinstance(value, Mapping):
            value = dict(value)
        told[field] = value
    return told


#: Defaults that say nothing.
_UNSAID = (("heartbeat", 0.0), ("detail", ""))


def name_of(event: Event) -> str:
    """``WhenSafe`` is "when_safe"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()


def values_of(event: Readings) -> Json:
    """The values, also of a codec that writes its JSON itself. Raises ``ValueError`` if that is none."""
    if not isinstance(event.values, bytes):
        return dict(event.values)
    values = json.loads(event.values)
    if not isinstance(values, dict):
        raise IllTold("values are no JSON object")
    return values


def difference(expected: object, found: object, path: str = "") -> str | None:
    """Where two JSON values differ first, in words; None if they do not. Floats have six digits in common."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in [*expected, *(key for key in found if key not in expected)]:
            where = f"{path}.{key}" if path else str(key)
            if key not in found:
                return f"{where} is missing, {_told(expected[key])} was expected"
            if key not in expected:
                return f"{where} is {_told(found[key])}, which was not expected"
            if text := difference(expected[key], found[key], where):
                return text
        return None
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return _difference_of_lists(expected, found, path)
    if _equal(expected, found):
        return None
    return f"{f'{path} is ' if path else ''}{_told(found)}, {_told(expected)} was expected"


def _difference_of_lists(expected: Any, found: Any, path: str) -> str | None:
    for place, (one, other) in enumerate(zip(expected, found, strict=False)):
        if text := difference(one, other, f"{path}[{place}]"):
            return text
    if len(expected) == len(found):
        return None
    rest = (expected if len(expected) > len(found) else found)[min(len(expected), len(found))]
    return (
        f"{path or 'there'} has {len(found)}, {len(expected)} were expected; the first without a partner: {_told(rest)}"
    )


def _equal(expected: object, found: object) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return expected == found or math.isclose(expected, found, rel_tol=1e-6, abs_tol=1e-9)
    return expected == found


def _told(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}…"


def command_from(told: Mapping[str, Any], number: int = 1) -> Command:
    """A command of ``{"device": …, "values": {…}}``; ``body`` is text, ``body_hex`` bytes. Raises ``ValueError``."""
    unknown = sorted(set(told) - {"number", "device", "values", "body", "body_hex", "deadline"})
    if unknown:
        raise ValueError(f"a command has no {unknown[0]!r}; it has device, values, body or body_hex, number, deadline")
    values = told.get("values", {})
    if not isinstance(told.get("device"), str) or not isinstance(values, Mapping):
        raise IllTold('a command is at least {"device": "…", "values": {…}}')
    if "body_hex" in told:
        body = bytes.fromhex(told["body_hex"])
    elif "body" in told:
        body = str(told["body"]).encode()
    else:
        body = json.dumps(values, ensure_ascii=False).encode()
    return Command(int(told.get("number", number)), told["device"], dict(values), body, told.get("deadline"))
