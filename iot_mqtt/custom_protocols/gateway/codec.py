"""The broker's end of the gateway protocol.

::

    frame ─▶ layout seen before, values of fixed sizes? ─ yes ─▶ one unpack, one template per device ─▶ Readings
                                 └ no ─▶ piece by piece ─▶ Readings; Login, Answer …

Both ways give the same events. The second one says what is wrong with a frame, and remembers its layout for the first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar

from iot_mqtt.custom_protocols.gateway import golden, wire
from iot_mqtt.custom_protocols.gateway.plans import Plan, dumps, read_fields, read_layout
from iot_mqtt.custom_protocols.gateway.wire import Code, Flag, Kind, Reader
from iot_mqtt.custom_protocols.names import is_name
from iot_mqtt.sdk import (
    Answer,
    BadBatch,
    BadFrame,
    CannotEncode,
    Close,
    Codec,
    Command,
    Event,
    Framing,
    Heartbeat,
    Host,
    LengthField,
    Login,
    Readings,
    Send,
    WhenSafe,
)

#: Bytes of layouts that a connection remembers: a plan takes some forty times as much memory.
REMEMBERED = 65_536

#: All of a frame's first eight bytes but the time.
_MAGIC_AND_CHANNELS = 0xFF000000_000000FF
_JSON_BOOL = ("false", "true")


class _Fast:
    """A layout that was seen before, for frames with the same flags."""

    __slots__ = ("unpack", "head", "length", "parts", "single", "floats", "bools", "wants_ack")

    def __init__(self, layout: bytes, plan: Plan, *, wants_ack: bool) -> None:
        # The first eight bytes, the length of data, the sequence, the values.
        shape = struct.Struct(f">QHQ3x{len(layout)}x{plan.letters}")
        self.unpack = shape.unpack
        self.head = wire.MAGIC << 56 | len(plan.parts)
        self.length = shape.size - wire.HEADER
        self.parts = plan.parts
        self.single = plan.parts[0] if len(plan.parts) == 1 else None
        self.floats = bool(plan.floats)
        self.bools = plan.bools
        self.wants_ack = wants_ack

    def add(self, frame: bytes, events: list[Event]) -> bool:
        """Adds what the frame says; not if anything about it is unusual."""
        try:
            word, length, sequence, *values = self.unpack(frame)
        except struct.error:
            return False
        if (
            word & _MAGIC_AND_CHANNELS != self.head
            or length != self.length
            or sequence > wire.MAX_SEQUENCE
            or (self.wants_ack and not sequence)
            # A sum is finite only if every one of them is.
            or (self.floats and not isfinite(sum(values)))
        ):
            return False
        time = (word >> 8 & wire.MAX_TIME) or None
        for index in self.bools:
            values[index] = _JSON_BOOL[values[index]]
        row = tuple(values)
        number = sequence or None
        if self.single is not None:
            events.append(Readings(self.single.device, (self.single.template % row).encode(), time, number))
        else:
            for device, _, start, stop, template in self.parts:
                events.append(Readings(device, (template % row[start:stop]).encode(), time, number))
        if self.wants_ack:
            events.append(WhenSafe(sequence))
        return True


class GatewayCodec(Codec):
    """One connection of a gateway."""

    version: ClassVar[str] = "1"
    answers: ClassVar[bool] = True
    framing: ClassVar[Framing] = LengthField(
        offset=8, width=2, magic=bytes((wire.MAGIC,)), max_frame=wire.HEADER + wire.MAX_DATA
    )

    def __init__(self, host: Host[Any]) -> None:
        super().__init__(host)
        self._spoken = 0
        self._welcome = False
        self._heartbeat = 0
        #: By flags, length or number of the layout, and layout: one slice of a frame.
        self._fast: dict[bytes, _Fast] = {}
        #: By layout; and the declared ones by number.
        self._plans: dict[bytes, Plan] = {}
        self._declared: dict[int, tuple[bytes, Plan]] = {}
        self._remembered = 0
        self._declared_bytes = 0

    @classmethod
    def vectors(cls) -> Mapping[str, Any]:
        """For the codec kit."""
        return {"vectors": golden.VECTORS}

    # -- up ----------------------------------------------------------------------------------------------

    def decode_many(self, frames: Sequence[bytes]) -> list[Event]:
        events: list[Event] = []
        find = self._fast.get
        for frame in frames:
            if len(frame) > wire.LAYOUT_AT:
                if frame[18] & Flag.DECLARED:
                    fast = find(frame[18:21])
                else:
                    fast = find(frame[18 : 21 + (frame[19] << 8 | frame[20])])
                if fast is not None and fast.add(frame, events):
                    continue
            try:
                events.extend(self._slow(frame))
            except Exception as error:
                raise BadBatch(events, error) from error
        return events

    def _slow(self, frame: bytes) -> Iterable[Event]:
        """Any frame, piece by piece."""
        reader = Reader(frame)
        if frame and frame[0] != wire.MAGIC:
            raise BadFrame("magic", f"a frame begins with 0x{wire.MAGIC:02x}, this one with 0x{frame[0]:02x}")
        _, high, low, channels, length = wire.HEAD.unpack(reader.take(wire.HEADER, "header"))
        if length != reader.rest:
            raise BadFrame("length", f"the header says {length} bytes of data, {reader.rest} are there")
        if channels:
            if not self._spoken:
                raise BadFrame("no_login", "data before the login")
            return self._data(reader, (high << 32 | low) or None, channels)
        kind = reader.number(1, "kind")
        if not self._spoken:
            if kind != Kind.LOGIN:
                raise BadFrame("no_login", f"kind {kind} before the login")
            return self._login_came(reader)
        handle = self._control.get(kind)
        if handle is None:
            raise BadFrame("kind", "a second login" if kind == Kind.LOGIN else f"a gateway does not send kind {kind}")
        return handle(self, reader)

    def _data(self, reader: Reader, time: int | None, channels: int) -> Iterable[Event]:
        """Readings of several devices."""
        sequence, flags, number = wire.DATA_HEAD.unpack(reader.take(wire.DATA_HEAD.size, "sequence, flags and layout"))
        if flags & ~wire.KNOWN_FLAGS:
            raise BadFrame("flags", f"flags 0x{flags:02x}: only 0x{wire.KNOWN_FLAGS:02x} are known")
        if sequence > wire.MAX_SEQUENCE:
            raise BadFrame("sequence", f"{sequence} is above {wire.MAX_SEQUENCE}")
        wants_ack = bool(flags & Flag.WANTS_ACK)
        if wants_ack and not sequence:
            raise BadFrame("sequence", "a frame without a sequence cannot be acknowledged")
        if flags & Flag.DECLARED:
            if number not in self._declared:
                raise BadFrame("layout", f"layout {number} was not declared on this connection")
            layout, plan = self._declared[number]
        else:
            layout = reader.take(number, "layout")
            plan = self._plan(layout, channels)
        if len(plan.parts) != channels:
            raise BadFrame("layout", f"the header says {channels} devices, the layout {len(plan.parts)}")
        values = plan.read(reader)
        words = plan.qualities(reader if flags & Flag.QUALITIES else None, values)
        reader.end()
        if not flags & Flag.QUALITIES:
            self._hasten(flags, number, b"" if flags & Flag.DECLARED else layout, plan)
        events: list[Event] = [
            Readings(
                part.device,
                dumps(dict(zip(part.tags, values[part.start : part.stop], strict=True))).encode(),
                time,
                sequence or None,
                _not_good(part.tags, words[part.start : part.stop]) if words else None,
            )
            for part in plan.parts
        ]
        if wants_ack:
            events.append(WhenSafe(sequence))
        return events

    def _plan(self, layout: bytes, channels: int) -> Plan:
        """The plan of a layout that stands in the frame."""
        plan = self._plans.get(layout)
        if plan is None or len(plan.parts) != channels:
            plan = read_layout(Reader(layout), channels)
            if self._remembered + len(layout) > REMEMBERED:
                self._plans.clear()
                self._fast.clear()
                self._remembered = 0
                self.host.count("layouts_forgotten", 1)
            if len(layout) <= REMEMBERED:
                self._plans[layout] = plan
                self._remembered += len(layout)
        return plan

    def _hasten(self, flags: int, number: int, layout: bytes, plan: Plan) -> None:
        """The next frame of this layout goes the short way."""
        if plan.letters is None or (layout and layout not in self._plans):
            return
        key = bytes((flags, number >> 8, number & 0xFF)) + layout
        self._fast[key] = _Fast(layout, plan, wants_ack=bool(flags & Flag.WANTS_ACK))

    # -- control frames ----------------------------------------------------------------------------------

    def _login_came(self, reader: Reader) -> Iterable[Event]:
        lowest, highest = reader.number(1, "lowest version"), reader.number(1, "highest version")
        if not 0 < lowest <= highest:
            raise BadFrame("login", f"versions {lowest} to {highest}: the lower one first, from 1 on")
        if lowest > wire.HIGHEST or highest < wire.LOWEST:
            self.host.count("other_version", 1)
            detail = f"versions {wire.LOWEST} to {wire.HIGHEST} are spoken here"
            return [Send(self._login_answer(Code.VERSION, detail)), Close("version")]
        heartbeat = reader.number(2, "heartbeat")
        gateway = reader.name("gateway")
        username = reader.text(1, "user")
        secret = reader.take(reader.number(2, "length of secret"), "secret")
        if highest == wire.HIGHEST:
            # A later version may have more to say; it is not for us.
            reader.end()
        self._spoken = min(highest, wire.HIGHEST)
        self._heartbeat = heartbeat
        return [Login(gateway, username or None, secret or None, float(heartbeat))]

    def _heartbeat_came(self, reader: Reader) -> Iterable[Event]:
        reader.end()
        return [Heartbeat(), Send(wire.control(self._now(), Kind.HEARTBEAT_ANSWER))]

    def _heartbeat_answered(self, reader: Reader) -> Iterable[Event]:
        reader.end()
        return [Heartbeat()]

    def _layout_came(self, reader: Reader) -> Iterable[Event]:
        number, channels = reader.number(2, "number of layout"), reader.number(1, "channels")
        layout = reader.take(reader.rest, "layout")
        if not channels:
            raise BadFrame("layout", "a layout of no devices")
        before = self._declared.get(number)
        if before is not None and (before[0] != layout or len(before[1].parts) != channels):
            raise BadFrame("layout", f"number {number} stands for another layout already")
        if before is None:
            # Some bytes more, so that a thousand small ones count as well.
            self._declared_bytes += len(layout) + 64
            if self._declared_bytes > REMEMBERED:
                raise BadFrame("layout", f"declared layouts of more than {REMEMBERED} bytes, 64 added for each")
            self._declared[number] = layout, read_layout(Reader(layout), channels)
        return [Heartbeat()]

    def _answer_came(self, reader: Reader) -> Iterable[Event]:
        number = reader.number(4, "number of the command")
        result = reader.number(1, "result")
        if not number or result > 1:
            raise BadFrame("answer", f"number {number}, result {result}: numbers are above 0, results 0 or 1")
        detail = reader.text(1, "detail")
        plan = Plan([("", read_fields(reader, least=0))])
        values = plan.read(reader)
        reader.end()
        plan.qualities(None, values)
        named = dict(zip(plan.parts[0].tags, values, strict=True))
        return [Answer(number, bool(result), detail, named or None)]

    def _close_came(self, reader: Reader) -> Iterable[Event]:
        reason = reader.text(1, "reason")
        reader.end()
        self.host.log.info("the gateway closes: %r", reason)
        return [Close("goodbye")]

    #: What a gateway says besides its login and data, by kind.
    _control: ClassVar[Mapping[int, Callable[[Any, Reader], Iterable[Event]]]] = {
        Kind.HEARTBEAT: _heartbeat_came,
        Kind.HEARTBEAT_ANSWER: _heartbeat_answered,
        Kind.LAYOUT: _layout_came,
        Kind.COMMAND_ANSWER: _answer_came,
        Kind.CLOSE: _close_came,
    }

    # -- down --------------------------------------------------------------------------------------------

    def welcome(self) -> bytes:
        self._welcome = True
        return self._login_answer(Code.WELCOME, "")

    def refuse(self, reason: str) -> bytes:
        """Before the welcome it answers the login; after it, it says why the connection is closed."""
        if self._welcome:
            return wire.control(self._now(), Kind.CLOSE, wire.clipped(reason))
        return self._login_answer(Code.REFUSED, reason)

    def safe(self, token: int) -> bytes:
        return wire.control(self._now(), Kind.ACK, token.to_bytes(8, "big"))

    def encode(self, command: Command) -> bytes:
        body = command.body or (dumps(dict(command.values)).encode() if command.values else b"")
        deadline = command.deadline or 0
        if not is_name(command.device):
            raise CannotEncode(f"no device can be called {command.device[:64]!r}")
        if not 0 <= deadline <= wire.MAX_TIME:
            raise CannotEncode(f"the deadline {deadline} is no time in milliseconds since 1970")
        try:
            device = wire.short_text(command.device)
        except ValueError as error:
            raise CannotEncode(f"the device's id: {error}") from error
        data = command.number.to_bytes(4, "big") + deadline.to_bytes(6, "big") + device + body
        if len(data) >= wire.MAX_DATA:
            raise CannotEncode(f"{len(body)} bytes of body do not fit in a frame")
        return wire.control(self._now(), Kind.COMMAND, data)

    def idle(self) -> Iterable[Event]:
        return [Send(wire.control(self._now(), Kind.HEARTBEAT))]

    def _login_answer(self, code: Code, detail: str) -> bytes:
        body = bytes((code, self._spoken)) + self._heartbeat.to_bytes(2, "big") + wire.clipped(detail)
        return wire.control(self._now(), Kind.LOGIN_ANSWER, body)

    def _now(self) -> int:
        return min(max(self.host.now(), 0), wire.MAX_TIME)


def _not_good(tags: tuple[str, ...], words: list[str]) -> dict[str, str] | None:
    """Qualities that are worth a word."""
    return {tag: word for tag, word in zip(tags, words, strict=True) if word != "good"} or None


__all__ = ["REMEMBERED", "GatewayCodec"]
