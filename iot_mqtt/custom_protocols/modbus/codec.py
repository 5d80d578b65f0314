"""Modbus responses up, register writes down; in Modbus TCP frames, or as bare RTU frames on a transparent line.

::

    modbus       │ transaction 2 │ 0 0 │ length 2 │ slave │ function │ … │        (crc 2, if so configured)
    modbus-rtu   │ slave │ function │ … │ crc 2 │

With ``resync: skip`` a length is not believed for long. As soon as a frame that can come is whole, it is taken, and
what stands before it was none; behind bytes that were none, only what can come is waited for.

The function of a response says how long it is, so RTU frames are cut here, by a codec that takes single bytes as its
frames: there is no length field that all of them have, and the pauses between them do not survive TCP.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from iot_mqtt.custom_protocols.modbus import golden
from iot_mqtt.custom_protocols.modbus.registers import Response, response_of, write_request
from iot_mqtt.custom_protocols.modbus.settings import Config
from iot_mqtt.custom_protocols.names import is_name
from iot_mqtt.sdk import (
    Answer,
    BadBatch,
    BadFrame,
    CannotEncode,
    Codec,
    Command,
    Event,
    Fixed,
    Framing,
    Heartbeat,
    Host,
    LengthField,
    Login,
    Readings,
    checksum_of,
)

#: Writes that were not answered yet; the oldest is given up for another.
MAX_PENDING = 64
#: Bytes between two good frames, with ``resync: skip``; more is not a disturbance but something else.
MAX_SKIPPED = 1024

#: Enough to know how long something is: a heartbeat has at most 64 bytes.
_LOOK = 64

_EXCEPTIONS = {
    1: "illegal function",
    2: "illegal data address",
    3: "illegal data value",
    4: "device failure",
    5: "accepted, not done yet",
    6: "device busy",
    8: "memory parity error",
    10: "no path to the device",
    11: "the device did not respond",
}
#: An exception.
_SHORTEST = 5
_READS = (1, 2, 3, 4)
_WRITES = (5, 6, 15, 16)
_crc = checksum_of("crc16-modbus")


class _Write(NamedTuple):
    """A write under way."""

    number: int
    slave: int
    #: What the slave says if it did it: the first five bytes of the request.
    echo: bytes


class _Modbus(Codec):
    """What both forms have in common."""

    version: ClassVar[str] = "1"
    answers: ClassVar[bool] = True
    Config: ClassVar[type] = Config

    def __init__(self, host: Host[Any]) -> None:
        super().__init__(host)
        config: Config = host.config
        self._config = config
        self._names = {device.slave: device.id for device in config.devices}
        self._slaves = {device.id: device.slave for device in config.devices}
        self._responses: dict[tuple[int, int, int], Response] = {
            (poll.slave, poll.function, poll.size): response_of(poll, config.registers) for poll in config.polls
        }
        #: By transaction: the lower half of the command's number.
        self._pending: OrderedDict[int, _Write] = OrderedDict()

    # -- up ----------------------------------------------------------------------------------------------

    def _login(self, gateway: str) -> Login:
        secret = self._config.password.encode() or None
        return Login(gateway, self._config.user or None, secret)

    def _login_by_address(self) -> Login:
        host, colon, port = self.host.peer.rpartition(":")
        address = host if colon and port.isdigit() else self.host.peer
        return self._login(self._config.gateway or f"modbus-{address.strip('[]')}")

    def _response(self, slave: int, pdu: bytes, transaction: int | None) -> list[Event]:
        """What a slave says: the function, and what belongs to it."""
        function = pdu[0]
        if function & 0x80:
            return self._exception(slave, function & 0x7F, pdu, transaction)
        if function in _READS:
            if len(pdu) < 2 or len(pdu) != 2 + pdu[1]:
                raise BadFrame("length", f"{len(pdu)} bytes of a response of function {function}")
            return self._read(slave, function, pdu[2:])
        if function in _WRITES:
            if len(pdu) != 5:
                raise BadFrame("length", f"{len(pdu)} bytes of an answer to function {function}, not 5")
            return self._written(slave, pdu, transaction)
        raise BadFrame("function", f"function {function} is none of 1 to 6, 15 and 16")

    def _read(self, slave: int, function: int, data: bytes) -> list[Event]:
        response = self._responses.get((slave, function, len(data)))
        if response is None:
            # Gateways may ask for more than the broker is to know.
            self.host.count("unknown_responses", 1)
            return [Heartbeat()]
        values, quality = response.read(data)
        return [Readings(self._device(slave), values, quality=quality)] if values else [Heartbeat()]

    def _exception(self, slave: int, function: int, pdu: bytes, transaction: int | None) -> list[Event]:
        if len(pdu) != 2:
            raise BadFrame("length", f"{len(pdu)} bytes of an exception, not 2")
        self.host.count("exceptions", 1)
        if function in _WRITES:
            write = self._taken(slave, bytes((function,)), transaction)
            text = _EXCEPTIONS.get(pdu[1], "unknown")
            return [Answer(write.number, ok=False, detail=f"exception {pdu[1]}: {text}")] if write else [Heartbeat()]
        asked = [response for key, response in self._responses.items() if key[:2] == (slave, function)]
        if len(asked) == 1 and asked[0].registers:
            values = asked[0].none()
            return [Readings(self._device(slave), values, quality=asked[0].bad(values))]
        # It does not say which of several polls it is about.
        return [Heartbeat()]

    def _written(self, slave: int, pdu: bytes, transaction: int | None) -> list[Event]:
        write = self._taken(slave, pdu, transaction)
        if write is None:
            self.host.count("unknown_answers", 1)
            return [Heartbeat()]
        return [Answer(write.number, ok=True)]

    def _taken(self, slave: int, echo: bytes, transaction: int | None) -> _Write | None:
        """The oldest write that this can be the answer to; it is under way no more."""
        for key, write in self._pending.items():
            if transaction in (None, key) and write.slave == slave and write.echo.startswith(echo):
                return self._pending.pop(key)
        return None

    def _device(self, slave: int) -> str:
        return self._names.get(slave, f"slave-{slave}")

    # -- down --------------------------------------------------------------------------------------------

    def encode(self, command: Command) -> bytes:
        slave = self._slave(command.device)
        registers = [register for register in self._config.registers if register.slave in (None, slave)]
        pdu = write_request(registers, command.values)
        transaction = command.number & 0xFFFF
        self._pending.pop(transaction, None)
        self._pending[transaction] = _Write(command.number, slave, pdu[:5])
        if len(self._pending) > MAX_PENDING:
            self._pending.popitem(last=False)
            self.host.count("unanswered_writes", 1)
        return self._adu(slave, pdu, transaction)

    def _slave(self, device: str) -> int:
        slave = self._slaves.get(device)
        if slave is None:
            number = device.removeprefix("slave-")
            if not (number.isascii() and number.isdigit() and len(number) <= 3) or device == number:
                raise CannotEncode(f"no slave is called {device[:64]!r}")
            slave = int(number)
            if not 1 <= slave <= 247 or slave in self._names or device != f"slave-{slave}":
                raise CannotEncode(f"no slave is called {device!r}")
        return slave

    def _adu(self, slave: int, pdu: bytes, transaction: int) -> bytes:
        raise NotImplementedError


class ModbusTcp(_Modbus):
    """Each frame has a header with its length."""

    framing: ClassVar[Framing] = LengthField(offset=4, width=2, max_frame=6 + 256)

    @classmethod
    def vectors(cls) -> Mapping[str, Any]:
        """For the codec kit."""
        return golden.TCP

    def opened(self) -> Iterable[Event]:
        return [self._login_by_address()]

    def decode(self, frame: bytes) -> list[Event]:
        if len(frame) < 8 or int.from_bytes(frame[4:6], "big") != len(frame) - 6:
            raise BadFrame("length", f"{len(frame)} bytes: no header with the length of what follows")
        if frame[2:4] != b"\0\0":
            raise BadFrame("protocol", f"protocol {frame[2:4].hex()}, not 0")
        body = frame[6:]
        if self._config.crc:
            body = _checked(body)
        return self._response(body[0], body[1:], int.from_bytes(frame[:2], "big"))

    def _adu(self, slave: int, pdu: bytes, transaction: int) -> bytes:
        body = bytes((slave,)) + pdu
        if self._config.crc:
            body += _crc(body).to_bytes(2, "little")
        return transaction.to_bytes(2, "big") + b"\0\0" + len(body).to_bytes(2, "big") + body


class ModbusRtu(_Modbus):
    """Frames as they come from the serial line."""

    framing: ClassVar[Framing] = Fixed(size=1)

    @classmethod
    def vectors(cls) -> Mapping[str, Any]:
        """For the codec kit."""
        return golden.RTU

    def __init__(self, host: Host[Any]) -> None:
        super().__init__(host)
        self._buffer = b""
        self._skips = self._config.resync == "skip"
        #: Bytes since the last frame.
        self._skipped = 0
        self._registered = not self._config.registration
        self._heartbeat = bytes.fromhex(self._config.heartbeat)

    def opened(self) -> Iterable[Event]:
        return [self._login_by_address()] if self._registered else []

    def decode_many(self, frames: Sequence[bytes]) -> list[Event]:
        data = self._buffer + b"".join(frames)
        at = 0
        events: list[Event] = []
        try:
            while at < len(data):
                size = self._size(data, at)
                if size > len(data) - at:
                    behind = self._found_behind(data, at)
                    if behind == at:
                        break
                    self._skip(behind - at)
                    at = behind
                    continue
                used, said = self._taken_off(data[at : at + size])
                at += used
                events.extend(said)
        except Exception as error:
            raise BadBatch(events, error) from error
        finally:
            self._buffer = data[at:]
        return events

    def _size(self, data: bytes, at: int) -> int:
        """Bytes of what begins there; more than there are, if that cannot be said yet."""
        head = data[at : at + _LOOK]
        if not self._registered:
            return self._config.registration
        if self._heartbeat and self._heartbeat.startswith(head[: len(self._heartbeat)]):
            return len(self._heartbeat)
        if len(head) < 3:
            return 3
        size = _size_of(head)
        if size is None and not self._skips:
            raise BadFrame("function", f"slave {head[0]}, function {head[1]}: no such frame")
        if size is None or (self._skipped and not self._can_come(head) and not _is_whole(data, at, size)):
            return 1
        return size

    def _can_come(self, head: bytes) -> bool:
        """Whether it is asked for: a response to a poll, the echo of a write under way, or an exception of these."""
        slave, function, size = head[:3]
        if function in _READS:
            return (slave, function, size) in self._responses
        if function in _WRITES:
            return any(write.slave == slave and write.echo.startswith(head[1:6]) for write in self._pending.values())
        function &= 0x7F
        return any(key[:2] == (slave, function) for key in self._responses) or any(
            write.slave == slave and write.echo[0] == function for write in self._pending.values()
        )

    def _found_behind(self, data: bytes, at: int) -> int:
        """Where the next frame that can come is whole: what stands before it was none, or had a wrong length. ``at``:
        there is no such frame.
        """
        if self._registered and self._skips:
            for start in range(at + 1, len(data) - _SHORTEST + 1):
                head = data[start : start + _LOOK]
                size = _size_of(head)
                if size is not None and self._can_come(head) and _is_whole(data, start, size):
                    return start
        return at

    def _taken_off(self, taken: bytes) -> tuple[int, list[Event]]:
        """How much of it is used up, and what it says."""
        if not self._registered:
            self._registered = True
            name = taken.decode("ascii", "replace").strip()
            if not name.isascii() or not is_name(name):
                raise BadFrame("registration", f"{taken!r} is no id of a gateway")
            return len(taken), [self._login(name)]
        if taken == self._heartbeat:
            return len(taken), [Heartbeat()]
        try:
            body = _checked(taken)
        except BadFrame:
            if not self._skips:
                raise
            # Not a frame from here on; perhaps from the next byte on.
            self._skip(1)
            return 1, []
        self._skipped = 0
        return len(taken), self._response(body[0], body[1:], None)

    def _skip(self, size: int) -> None:
        self._skipped += size
        if self._skipped > MAX_SKIPPED:
            raise BadFrame("checksum", f"more than {MAX_SKIPPED} bytes in a row are no frame")
        self.host.count("skipped_bytes", size)

    def _adu(self, slave: int, pdu: bytes, transaction: int) -> bytes:
        body = bytes((slave,)) + pdu
        return body + _crc(body).to_bytes(2, "little")


def _size_of(head: bytes) -> int | None:
    """Bytes of the frame that begins like this; None: there is none with this function."""
    function = head[1]
    if function in _READS:
        return 5 + head[2]
    if function in _WRITES:
        return 8
    return _SHORTEST if function & 0x7F in (*_READS, *_WRITES) else None


def _is_whole(data: bytes, at: int, size: int) -> bool:
    """All of it is there, with the right checksum."""
    end = at + size
    return end <= len(data) and _crc(data[at : end - 2]) == int.from_bytes(data[end - 2 : end], "little")


def _checked(frame: bytes) -> bytes:
    """An RTU frame without its checksum."""
    if len(frame) < 4:
        raise BadFrame("checksum", f"{len(frame)} bytes are no frame with a checksum")
    if _crc(frame[:-2]) != int.from_bytes(frame[-2:], "little"):
        raise BadFrame("checksum", f"ends with {frame[-2:].hex()}, should with {_crc(frame[:-2]):04x} (low byte first)")
    return frame[:-2]
