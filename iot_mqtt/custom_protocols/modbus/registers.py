"""Registers and coils as values, and back."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from iot_mqtt.custom_protocols.modbus.settings import TABLES, WORDS, Poll, Register
from iot_mqtt.sdk import CannotEncode, Value

_LETTERS = {"u16": "H", "i16": "h", "u32": "I", "i32": "i", "f32": "f"}


class Response(NamedTuple):
    """What the values in a response mean."""

    poll: Poll
    registers: tuple[Register, ...]

    def read(self, data: bytes) -> tuple[dict[str, Value], dict[str, str] | None]:
        """Values and qualities. The size was checked."""
        values: dict[str, Value] = {}
        for register in self.registers:
            at = register.address - self.poll.start
            if register.type == "bool":
                values[register.tag] = bool(data[at >> 3] >> (at & 7) & 1)
            else:
                values[register.tag] = _value(register, data[at * 2 : (at + WORDS[register.type]) * 2])
        return values, self.bad(values)

    def bad(self, values: Mapping[str, Value]) -> dict[str, str] | None:
        """Qualities: what is nothing is bad."""
        return {tag: "bad" for tag, value in values.items() if value is None} or None

    def none(self) -> dict[str, Value]:
        """The slave could not say."""
        return dict.fromkeys([register.tag for register in self.registers])


def response_of(poll: Poll, registers: Sequence[Register]) -> Response:
    """Those registers that are in the response as a whole."""
    inside = [
        register
        for register in registers
        if register.table == TABLES[poll.function]
        and register.slave in (None, poll.slave)
        and poll.start <= register.address
        and register.address + WORDS[register.type] <= poll.start + poll.count
    ]
    return Response(poll, tuple(inside))


def _value(register: Register, data: bytes) -> Value:
    if register.words == "little":
        data = data[2:] + data[:2]
    (raw,) = struct.unpack(">" + _LETTERS[register.type], data)
    if register.scale == 1 and register.offset == 0:
        return raw if math.isfinite(raw) else None
    value = raw * register.scale + register.offset
    # 214 × 0.1 is 21.400000000000002: no sensor has so many digits.
    return float(f"{value:.12g}") if math.isfinite(value) else None


def write_request(registers: Sequence[Register], values: Mapping[str, Any]) -> bytes:
    """Function 5, 6, 15 or 16 with these values, by tag. Raises ``CannotEncode``."""
    known = {register.tag: register for register in registers}
    chosen = []
    for tag in values:
        register = known.get(tag)
        if register is None or not register.writable:
            raise CannotEncode(f"{tag!r} is {'no tag of this device' if register is None else 'not writable'}")
        chosen.append(register)
    if not chosen:
        raise CannotEncode('a command is a JSON object of tags and values, such as {"setpoint": 21.5}')
    chosen.sort(key=lambda register: register.address)
    start = at = chosen[0].address
    for register in chosen:
        if register.table != chosen[0].table or register.address != at:
            raise CannotEncode(
                "tags of one command are written at once, so their registers must be next to one another"
            )
        at += WORDS[register.type]
    if chosen[0].table == "coil":
        return _write_coils(start, [_flag(register, values[register.tag]) for register in chosen])
    words = b"".join(_words(register, values[register.tag]) for register in chosen)
    if len(words) == 2:
        return struct.pack(">BH", 6, start) + words
    if len(words) > 246:
        raise CannotEncode(f"{len(words) // 2} registers; 123 can be written at once")
    return struct.pack(">BHHB", 16, start, len(words) // 2, len(words)) + words


def _write_coils(start: int, flags: list[bool]) -> bytes:
    if len(flags) == 1:
        return struct.pack(">BHH", 5, start, 0xFF00 if flags[0] else 0)
    if len(flags) > 1968:
        raise CannotEncode(f"{len(flags)} coils; 1968 can be written at once")
    size = (len(flags) + 7) // 8
    bits = sum(flag << index for index, flag in enumerate(flags))
    return struct.pack(">BHHB", 15, start, len(flags), size) + bits.to_bytes(size, "little")


def _flag(register: Register, value: object) -> bool:
    if not isinstance(value, bool):
        raise CannotEncode(f"{register.tag} is true or false, not {value!r:.40}")
    return value


def _words(register: Register, value: object) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CannotEncode(f"{register.tag} is a number, not {value!r:.40}")
    raw = value if register.scale == 1 and register.offset == 0 else (value - register.offset) / register.scale
    try:
        data = struct.pack(">" + _LETTERS[register.type], raw if register.type == "f32" else round(raw))
    except (struct.error, OverflowError) as error:
        raise CannotEncode(f"{register.tag} = {value!r:.40} does not fit in {register.type}") from error
    return data[2:] + data[:2] if register.words == "little" else data
