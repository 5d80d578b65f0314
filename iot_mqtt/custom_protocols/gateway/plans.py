"""Layouts: which devices a frame has values of, and what those are; and a plan for reading frames of one layout.

::

    layout   per device:  │ length, id │ count │ count × (│ length, tag │ type │) │
    values   │ v │ v │ v │ …          of all devices, in the layout's order, nothing between them

The layout stands in one piece before the values so that a frame's layout is one slice of it, and a layout that was seen
before is one look in a dictionary. What remains of a frame then is one ``struct.unpack`` and one template per device.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from iot_mqtt.custom_protocols.gateway.wire import LETTERS, QUALITIES, Reader, Type
from iot_mqtt.sdk import BadFrame, Value

dumps = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


#: Of a layout. Reading one that is new takes a few microseconds for each of them, while everybody else waits.
MAX_READINGS = 4096
_TYPES = tuple(Type)
#: Not part of a ``struct``.
_APART = frozenset((Type.NOTHING, Type.STRING, Type.BYTES))
#: Where a value goes in a template.
_PLACES = {Type.BOOL: "%s", Type.F32: "%r", Type.F64: "%r"}
_quoted = json.encoder.encode_basestring_ascii


class Part(NamedTuple):
    """What one device says."""

    device: str
    tags: tuple[str, ...]
    #: Where its values begin and end among those of the frame.
    start: int
    stop: int
    #: A JSON object with places for the values.
    template: str


class Plan:
    """How values of one layout are read."""

    __slots__ = ("parts", "types", "letters", "floats", "bools", "_steps")

    def __init__(self, devices: Sequence[tuple[str, Sequence[tuple[str, Type]]]]) -> None:
        self.types = tuple(kind for _, readings in devices for _, kind in readings)
        #: Format of all values, if one ``struct.unpack`` gives them: no texts, and nothing that is not there.
        self.letters: str | None = None
        if not _APART.intersection(self.types):
            self.letters = "".join([LETTERS[kind] for kind in self.types])
        self._steps = [
            kind if apart else struct.Struct(">" + "".join([LETTERS[one] for one in run]))
            for apart, group in groupby(self.types, key=_APART.__contains__)
            for run in [list(group)]
            for kind in (run if apart else run[:1])
        ]
        #: Where floats are.
        self.floats = [index for index, kind in enumerate(self.types) if kind in (Type.F32, Type.F64)]
        self.bools = [index for index, kind in enumerate(self.types) if kind is Type.BOOL]
        stops = accumulate((len(readings) for _, readings in devices), initial=0)
        self.parts = tuple(
            Part(device, tuple(tag for tag, _ in readings), start, stop, _template(readings))
            for (device, readings), (start, stop) in zip(devices, pairwise(stops), strict=True)
        )

    def read(self, reader: Reader) -> list[Value]:
        """The values of a frame. Floats may be infinite or not a number still."""
        data, at = reader.data, reader.at
        values: list[Value] = []
        try:
            for step in self._steps:
                if isinstance(step, struct.Struct):
                    values += step.unpack_from(data, at)
                    at += step.size
                elif step is Type.NOTHING:
                    values.append(None)
                    at += 1
                else:
                    start = at + 2
                    at = start + (data[at] << 8 | data[at + 1])
                    piece = data[start:at]
                    values.append(piece.decode() if step is Type.STRING else piece.hex())
        except (struct.error, IndexError) as error:
            raise BadFrame("length", "values are cut off") from error
        except UnicodeDecodeError as error:
            raise BadFrame("text", f"a string is no UTF-8: {error.reason}") from error
        if at > len(data):
            raise BadFrame("length", f"values want {at - len(data)} bytes more than are left")
        reader.at = at
        return values

    def qualities(self, reader: Reader | None, values: list[Value]) -> list[str] | None:
        """Words for ``values``; None: all good. What JSON has no number for becomes nothing; nothing is not good."""
        for index in self.floats:
            if not math.isfinite(values[index]):  # type: ignore[arg-type]  # only floats are there
                values[index] = None
        if reader is None and None not in values:
            return None
        words = ["good"] * len(values)
        if reader is not None:
            for index, number in enumerate(reader.take(len(values), "qualities")):
                if number >= len(QUALITIES):
                    raise BadFrame("quality", f"there is no quality {number}")
                words[index] = QUALITIES[number]
        for index, value in enumerate(values):
            if value is None and words[index] == "good":
                words[index] = "bad"
        return words


def read_layout(reader: Reader, channels: int) -> Plan:
    """All of a reader's bytes as the layout of so many devices."""
    devices = []
    total = 0
    for _ in range(channels):
        device = reader.name("device")
        fields = read_fields(reader)
        devices.append((device, fields))
        total += len(fields)
        if total > MAX_READINGS:
            raise BadFrame("layout", f"more than {MAX_READINGS} readings")
    reader.end()
    if len({device for device, _ in devices}) < channels:
        raise BadFrame("layout", "a device is there twice")
    return Plan(devices)


def read_fields(reader: Reader, *, least: int = 1) -> list[tuple[str, Type]]:
    """The tags of one device and their types."""
    count = reader.number(1, "number of readings")
    if count < least:
        raise BadFrame("layout", "a device without readings")
    fields = []
    # Spelled out rather than taken from the reader piece by piece: a layout may have thousands of them.
    data, at = reader.data, reader.at
    try:
        for _ in range(count):
            stop = at + 1 + data[at]
            tag, number = data[at + 1 : stop].decode(), data[stop]
            if not tag or not tag.isprintable():
                raise BadFrame("text", f"tag {tag!r}: printable characters, at least one")
            if number >= len(_TYPES):
                raise BadFrame("layout", f"tag {tag!r}: there is no type {number}")
            fields.append((tag, _TYPES[number]))
            at = stop + 1
    except IndexError as error:
        raise BadFrame("length", f"{count} readings are announced, {len(fields)} are there") from error
    except UnicodeDecodeError as error:
        raise BadFrame("text", f"a tag is no UTF-8: {error.reason}") from error
    reader.at = at
    if len({tag for tag, _ in fields}) < count:
        raise BadFrame("layout", "a tag is there twice")
    return fields


def _template(readings: Sequence[tuple[str, Type]]) -> str:
    """``{"temperature":%r,"count":%d}``: ``%r`` writes a float as JSON does."""
    inner = ",".join([f"{_quoted(tag).replace('%', '%%')}:{_PLACES.get(kind, '%d')}" for tag, kind in readings])
    return f"{{{inner}}}"
