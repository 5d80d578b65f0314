"""IEC 60870-5-104 as a vendor writes it: the controlling station speaks first, and asks who is silent.

::

    │ 0x68 │ length │ control 4 │ type │ how many │ cause 2 │ station 2 │ object 3 │ value … │
                                 └ only I frames have these

A substation says nothing before it was sent STARTDT, and closes when nobody answers its test frames. What it sent is
acknowledged with S frames once it is safe.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from iot_mqtt.sdk import (
    Answer,
    BadFrame,
    CannotEncode,
    Codec,
    Command,
    Event,
    Heartbeat,
    Host,
    LengthField,
    Login,
    Readings,
    Schema,
    Send,
    Tag,
    WhenSafe,
)

STARTDT_ACT, STARTDT_CON = 0x07, 0x0B
STOPDT_ACT, STOPDT_CON = 0x13, 0x23
TESTFR_ACT, TESTFR_CON = 0x43, 0x83
SINGLE_POINT, MEASURED_FLOAT, SINGLE_COMMAND, END_OF_INIT, INTERROGATION = 1, 13, 45, 70, 100
ACTIVATION, CONFIRMED = 6, 7
_HEAD = struct.Struct("<BBHH")
_SEQUENCE = 1 << 15
_INVALID = 0x80


@dataclass(frozen=True, slots=True)
class Settings:
    """``plugins.iec104.config``."""

    prefix: str = "station-"
    #: Of the user that has the station's name; empty: it logs in without one.
    password: str = ""
    #: T3 of the standard: seconds of silence after which the other side is tested.
    silence: float = 20.0


class Iec104(Codec):
    """One substation."""

    version = "1.0.0"
    framing = LengthField(magic=b"\x68", offset=1, width=1, max_frame=255)
    schema = Schema(version=1, tags={"closed": Tag("bool"), "value": Tag("float")}, open=False)
    Config = Settings

    def __init__(self, host: Host[Settings]) -> None:
        super().__init__(host)
        self._settings = host.config
        self._station: int | None = None
        self._sent = self._received = 0
        self._asked: dict[int, int] = {}

    def opened(self) -> Iterable[Event]:
        """The controlling station speaks first."""
        return (Send(_unnumbered(STARTDT_ACT)),)

    def idle(self) -> Iterable[Event]:
        """Is it still there?"""
        return (Send(_unnumbered(TESTFR_ACT)),)

    def welcome(self) -> bytes:
        """Ask for all that it has."""
        return self._numbered(INTERROGATION, ACTIVATION, 0, b"\x14")

    def refuse(self, reason: str) -> bytes:
        """It need not go on."""
        return _unnumbered(STOPDT_ACT)

    def safe(self, token: int) -> bytes:
        """An S frame."""
        return struct.pack("<BBHH", 0x68, 4, 1, (token % _SEQUENCE) << 1)

    def decode(self, frame: bytes) -> Iterable[Event]:
        """One frame, which may have several objects."""
        if len(frame) < 6:
            raise BadFrame("size", "the control field has four bytes")
        if frame[2] & 3 == 3:
            return self._unnumbered(frame[2])
        if frame[2] & 3 == 1:
            return (Heartbeat(),)
        return list(self._information(frame))

    def _unnumbered(self, kind: int) -> Iterable[Event]:
        if kind in (STARTDT_CON, STOPDT_CON, TESTFR_CON):
            return (Heartbeat(),)
        if kind == TESTFR_ACT:
            return (Send(_unnumbered(TESTFR_CON)), Heartbeat())
        raise BadFrame("control", f"{kind:#04x}")

    def _information(self, frame: bytes) -> Iterator[Event]:
        if len(frame) < 6 + _HEAD.size:
            raise BadFrame("size", "an I frame without a head")
        self._received = (int.from_bytes(frame[2:4], "little") >> 1) + 1
        kind, count, cause, station = _HEAD.unpack_from(frame, 6)
        if kind == END_OF_INIT:
            yield self._login(station)
        elif self._station is None:
            raise BadFrame("no_login", "the end of initialisation comes first")
        elif kind == SINGLE_COMMAND and cause == CONFIRMED:
            yield from self._confirmed(frame)
        elif kind in (SINGLE_POINT, MEASURED_FLOAT):
            yield from self._values(frame, kind, count & 0x7F)
        elif kind != INTERROGATION:
            raise BadFrame("type", str(kind))
        if self._station is not None:
            yield WhenSafe(self._received)

    def _login(self, station: int) -> Login:
        if self._station is not None:
            raise BadFrame("second_login")
        self._station = station
        name = f"{self._settings.prefix}{station}"
        password = self._settings.password
        return Login(
            name, name if password else None, password.encode() or None, heartbeat=self._settings.silence * 1.5
        )

    def _values(self, frame: bytes, kind: int, count: int) -> Iterator[Event]:
        size = 1 if kind == SINGLE_POINT else 5
        if len(frame) != 12 + count * (3 + size):
            raise BadFrame("size", f"{count} objects in {len(frame)} bytes")
        for at in range(12, len(frame), 3 + size):
            device = str(int.from_bytes(frame[at : at + 3], "little"))
            data = frame[at + 3 : at + 3 + size]
            bad = data[-1] & _INVALID
            if kind == SINGLE_POINT:
                yield Readings(device, {"closed": bool(data[0] & 1)}, quality={"closed": "bad"} if bad else None)
            else:
                (value,) = struct.unpack_from("<f", data)
                bad = bad or not math.isfinite(value)
                yield Readings(device, {"value": None if bad else value}, quality={"value": "bad"} if bad else None)

    def _confirmed(self, frame: bytes) -> Iterator[Event]:
        if len(frame) != 16:
            raise BadFrame("size", "a command has one object")
        number = self._asked.pop(int.from_bytes(frame[12:15], "little"), None)
        if number is not None:
            yield Answer(number, ok=not frame[8] & 0x40, detail="")

    def encode(self, command: Command) -> bytes:
        """Open or close a breaker."""
        closed = command.values.get("close")
        if not isinstance(closed, bool) or not command.device.isdecimal() or not command.device.isascii():
            raise CannotEncode('a breaker is a number, and can {"close": true}')
        if int(command.device) >= 1 << 24 or len(self._asked) >= 64:
            raise CannotEncode("there is no such object, or too much is under way")
        self._asked[int(command.device)] = command.number
        return self._numbered(SINGLE_COMMAND, ACTIVATION, int(command.device), bytes((closed,)))

    def _numbered(self, kind: int, cause: int, address: int, element: bytes) -> bytes:
        control = struct.pack("<HH", (self._sent % _SEQUENCE) << 1, (self._received % _SEQUENCE) << 1)
        self._sent += 1
        body = control + _HEAD.pack(kind, 1, cause, self._station or 0) + address.to_bytes(3, "little") + element
        return bytes((0x68, len(body))) + body


def _unnumbered(kind: int) -> bytes:
    return bytes((0x68, 4, kind, 0, 0, 0))
