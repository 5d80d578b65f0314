"""The gateway's end of the gateway protocol: for tests, simulators and load.

socket.sendall(login("gw-1", user="gw-1", secret=b"..."))
socket.sendall(data([("plc-1", [("temperature", Type.F32, 21.5), ("running", Type.BOOL, True)])], sequence=1))
for message in Inbox().feed(socket.recv(4096)): ...
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from iot_mqtt.custom_protocols.gateway import wire
from iot_mqtt.custom_protocols.gateway.wire import Code, Flag, Kind, Reader, Type
from iot_mqtt.sdk import BadFrame

#: Tag, type, value. A value of ``BYTES`` is bytes, one of ``NOTHING`` is None.
Reading: TypeAlias = "tuple[str, Type, bool | int | float | str | bytes | None]"
Device: TypeAlias = "tuple[str, Sequence[Reading]]"


def login(
    gateway: str,
    *,
    user: str = "",
    secret: bytes = b"",
    heartbeat: int = 0,
    versions: tuple[int, int] = (wire.LOWEST, wire.HIGHEST),
    time: int = 0,
) -> bytes:
    """The first frame."""
    body = bytes(versions) + heartbeat.to_bytes(2, "big") + wire.short_text(gateway) + wire.short_text(user)
    return wire.control(time, Kind.LOGIN, body + len(secret).to_bytes(2, "big") + secret)


def data(
    devices: Sequence[Device],
    *,
    sequence: int = 0,
    time: int = 0,
    wants_ack: bool = False,
    layout: int | None = None,
    qualities: Mapping[tuple[str, str], str] | None = None,
) -> bytes:
    """Readings; with the number of a declared layout, or with their layout. Qualities are by (device, tag)."""
    described = b"" if layout is not None else layout_of(devices)
    flags = wants_ack * Flag.WANTS_ACK | (layout is not None) * Flag.DECLARED
    tail = b""
    if qualities is not None:
        flags |= Flag.QUALITIES
        words = [qualities.get((device, tag), "good") for device, readings in devices for tag, _, _ in readings]
        tail = bytes(wire.QUALITIES.index(word) for word in words)
    head = wire.DATA_HEAD.pack(sequence, flags, layout if layout is not None else len(described))
    values = b"".join(values_of(readings) for _, readings in devices)
    return wire.frame(time, len(devices), head + described + values + tail)


def declare(number: int, devices: Sequence[Device], *, time: int = 0) -> bytes:
    """From now on ``data(..., layout=number)`` stands for this layout; values do not matter."""
    body = number.to_bytes(2, "big") + bytes((len(devices),)) + layout_of(devices)
    return wire.control(time, Kind.LAYOUT, body)


def heartbeat(*, time: int = 0) -> bytes:
    return wire.control(time, Kind.HEARTBEAT)


def heartbeat_answer(*, time: int = 0) -> bytes:
    return wire.control(time, Kind.HEARTBEAT_ANSWER)


def answer(number: int, ok: bool, detail: str = "", values: Sequence[Reading] = (), *, time: int = 0) -> bytes:
    """What became of a command."""
    head = number.to_bytes(4, "big") + bytes((ok,)) + wire.clipped(detail)
    return wire.control(time, Kind.COMMAND_ANSWER, head + _fields(values) + values_of(values))


def close(reason: str, *, time: int = 0) -> bytes:
    return wire.control(time, Kind.CLOSE, wire.clipped(reason))


def layout_of(devices: Iterable[Device]) -> bytes:
    """Which devices, which tags, which types."""
    return b"".join(wire.short_text(device) + _fields(readings) for device, readings in devices)


def values_of(readings: Iterable[Reading]) -> bytes:
    """The values, one behind the other."""
    return b"".join(_value(kind, value) for _, kind, value in readings)


def _fields(readings: Sequence[Reading]) -> bytes:
    return bytes((len(readings),)) + b"".join(wire.short_text(tag) + bytes((kind,)) for tag, kind, _ in readings)


def _value(kind: Type, value: bool | float | str | bytes | None) -> bytes:
    if kind is Type.NOTHING:
        return b"\0"
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return len(value).to_bytes(2, "big") + value
    return struct.pack(">" + wire.LETTERS[kind], value)


# -- what the broker says --------------------------------------------------------------------------------


class LoginAnswer(NamedTuple):
    """Whether the gateway is let in."""

    code: Code
    version: int
    heartbeat: int
    detail: str
    #: The broker's clock.
    time: int


class Ack(NamedTuple):
    """Everything up to this sequence is safe."""

    sequence: int


class Ordered(NamedTuple):
    """A command."""

    number: int
    deadline: int
    device: str
    body: bytes


class Closed(NamedTuple):
    """The broker closes the connection."""

    reason: str


class Ping(NamedTuple):
    """A heartbeat, or the answer to one."""

    answer: bool


Message: TypeAlias = "LoginAnswer | Ack | Ordered | Closed | Ping"


class Inbox:
    """Cuts what a broker sends and reads it."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[Message]:
        """What has come whole by now."""
        self._buffer += data
        messages = []
        while len(self._buffer) >= wire.HEADER:
            size = wire.HEADER + int.from_bytes(self._buffer[8:10], "big")
            if len(self._buffer) < size:
                break
            messages.append(read(self._buffer[:size]))
            self._buffer = self._buffer[size:]
        return messages


def read(frame: bytes) -> Message:
    """One whole frame of a broker. Raises ``BadFrame``."""
    reader = Reader(frame)
    magic, time, channels = reader.number(1, "magic"), reader.number(6, "time"), reader.number(1, "channels")
    length, kind = reader.number(2, "length"), reader.number(1, "kind")
    if magic != wire.MAGIC or channels or length != len(frame) - wire.HEADER:
        raise BadFrame("length", "no control frame")
    message: Message
    if kind == Kind.LOGIN_ANSWER:
        code, version, seconds = (reader.number(width, "login answer") for width in (1, 1, 2))
        message = LoginAnswer(Code(code), version, seconds, reader.text(1, "detail"), time)
    elif kind == Kind.ACK:
        message = Ack(reader.number(8, "sequence"))
    elif kind == Kind.COMMAND:
        number, deadline = reader.number(4, "number"), reader.number(6, "deadline")
        device = reader.text(1, "device")
        message = Ordered(number, deadline, device, reader.take(reader.rest, "body"))
    elif kind == Kind.CLOSE:
        message = Closed(reader.text(1, "reason"))
    elif kind in (Kind.HEARTBEAT, Kind.HEARTBEAT_ANSWER):
        message = Ping(kind == Kind.HEARTBEAT_ANSWER)
    else:
        raise BadFrame("kind", f"a broker does not send kind {kind}")
    reader.end()
    return message
