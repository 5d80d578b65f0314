"""WebSocket frames (RFC 6455 section 5), as a server reads and writes them.

::

      0               1               2               3
     +-+-+-+-+-------+-+-------------+-------------------------------+
     |F|R|R|R| opcode|M| length (7)  |  2 or 8 bytes more if 126, 127 |
     +-+-+-+-+-------+-+-------------+-------------------------------+
     |  masking key (4 bytes, from clients always)   |  payload ...   |
     +-----------------------------------------------+----------------+

MQTT does not care where frames begin and end [MQTT-6.0.0-2], so payload is handed on as it comes: a frame is never
held back until it is complete, however long it says it is. Only control frames (125 bytes at most) are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

__all__ = ["CloseCode", "FrameError", "FrameReader", "Opcode", "Received", "close_payload", "frame", "header"]


class Opcode(IntEnum):
    """What a frame is."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class CloseCode(IntEnum):
    """Why a WebSocket is closed (section 7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED = 1003
    INVALID_DATA = 1007
    TOO_BIG = 1009
    INTERNAL = 1011


class FrameError(Exception):
    """Bytes that may not come; the code is for the peer."""

    def __init__(self, code: CloseCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(slots=True)
class Received:
    """What some bytes brought: payload, then control frames, then perhaps an error that ends it all."""

    payload: list[bytes] = field(default_factory=list)
    controls: list[tuple[Opcode, bytes]] = field(default_factory=list)
    error: FrameError | None = None
    #: How many frames began.
    frames: int = 0


_FIN, _RESERVED, _OPCODE, _MASKED, _LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
_CONTROL_MAX = 125
#: Codes that may be sent (section 7.4), besides those for libraries and applications, 3000 to 4999.
_CLOSE_CODES = frozenset((1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014))


class FrameReader:
    """Bytes in, payload and control frames out. After an error or a CLOSE everything is ignored."""

    __slots__ = ("_closed", "_fragmented", "_key", "_left", "_limit", "_position", "_rest")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        #: Bytes of the present data frame still to come, its key, and where in the key they begin.
        self._left = 0
        self._key = b""
        self._position = 0
        self._fragmented = False
        self._closed = False

    def feed(self, data: bytes) -> Received:
        """Take bytes in any pieces."""
        received = Received()
        if self._closed:
            return received
        buffer = self._rest + data if self._rest else data
        self._rest = b""
        position = 0
        try:
            while position < len(buffer) and not self._closed:
                if self._left:
                    position = self._payload(buffer, position, received)
                    continue
                after = self._frame(buffer, position, received)
                if after is None:
                    self._rest = buffer[position:]
                    break
                position = after
        except FrameError as error:
            self._closed = True
            received.error = error
        return received

    def _payload(self, buffer: bytes, position: int, received: Received) -> int:
        piece = buffer[position : position + self._left]
        received.payload.append(unmask(piece, self._key, self._position))
        self._left -= len(piece)
        self._position += len(piece)
        return position + len(piece)

    def _frame(self, buffer: bytes, position: int, received: Received) -> int | None:
        """Read a frame's header, and a control frame whole; where to go on, or None if more is needed."""
        if len(buffer) - position < 2:
            return None
        first, second = buffer[position], buffer[position + 1]
        opcode = self._check(first, second)
        found = _length(buffer, position)
        if found is None:
            return None
        length, start = found
        received.frames += 1
        if opcode < Opcode.CLOSE:
            if length > self._limit:
                raise FrameError(CloseCode.TOO_BIG, f"a frame of {length} bytes")
            if len(buffer) < start + 4:
                return None
            self._fragmented = not first & _FIN
            self._key, self._left, self._position = buffer[start : start + 4], length, 0
            return start + 4
        if len(buffer) < start + 4 + length:
            return None
        content = unmask(buffer[start + 4 : start + 4 + length], buffer[start : start + 4], 0) if length else b""
        received.controls.append((opcode, content))
        if opcode is Opcode.CLOSE:
            self._closed = True
            _check_close(content)
        return start + 4 + length

    def _check(self, first: int, second: int) -> Opcode:
        """What the two first bytes may not be."""
        if first & _RESERVED:
            raise FrameError(CloseCode.PROTOCOL_ERROR, "a reserved bit is set and no extension was agreed on")
        if not second & _MASKED:
            raise FrameError(CloseCode.PROTOCOL_ERROR, "frames of clients are masked")
        try:
            opcode = Opcode(first & _OPCODE)
        except ValueError:
            raise FrameError(CloseCode.PROTOCOL_ERROR, f"opcode {first & _OPCODE}") from None
        if opcode >= Opcode.CLOSE:
            if not first & _FIN or second & _LENGTH > _CONTROL_MAX:
                raise FrameError(CloseCode.PROTOCOL_ERROR, "a control frame is short and in one piece")
        elif opcode is Opcode.TEXT:
            raise FrameError(CloseCode.UNSUPPORTED, "MQTT is sent in binary frames [MQTT-6.0.0-1]")
        elif (opcode is Opcode.CONTINUATION) != self._fragmented:
            raise FrameError(CloseCode.PROTOCOL_ERROR, f"{opcode.name} out of turn")
        return opcode


def _length(buffer: bytes, position: int) -> tuple[int, int] | None:
    """Payload length and where the masking key starts, or None if more is needed."""
    short = buffer[position + 1] & _LENGTH
    if short < 126:
        return short, position + 2
    width = 2 if short == 126 else 8
    start = position + 2 + width
    if len(buffer) < start:
        return None
    length = int.from_bytes(buffer[position + 2 : start], "big")
    if length < (126 if width == 2 else 0x1_0000) or length >> 63:
        raise FrameError(CloseCode.PROTOCOL_ERROR, "a length is written in as few bytes as possible")
    return length, start


def _check_close(content: bytes) -> None:
    if not content:
        return
    code = int.from_bytes(content[:2], "big")
    if len(content) == 1 or not (code in _CLOSE_CODES or 3000 <= code < 5000):
        raise FrameError(CloseCode.PROTOCOL_ERROR, f"close code {code}")
    try:
        content[2:].decode()
    except UnicodeDecodeError:
        raise FrameError(CloseCode.INVALID_DATA, "the reason of a close is no UTF-8") from None


def unmask(data: bytes, key: bytes, position: int) -> bytes:
    """Payload without its mask; ``position`` is how many bytes of the frame came before."""
    size = len(data)
    turn = position & 3
    if turn:
        key = key[turn:] + key[:turn]
    mask = (key * ((size + 3) >> 2))[:size]
    # One exclusive-or of two long numbers: some hundred times faster than byte by byte.
    return (int.from_bytes(data, "little") ^ int.from_bytes(mask, "little")).to_bytes(size, "little")


def header(opcode: Opcode, length: int) -> bytes:
    """The header of an unmasked, unfragmented frame."""
    if length < 126:
        return bytes((_FIN | opcode, length))
    if length < 0x1_0000:
        return bytes((_FIN | opcode, 126)) + length.to_bytes(2, "big")
    return bytes((_FIN | opcode, 127)) + length.to_bytes(8, "big")


def frame(opcode: Opcode, payload: bytes) -> bytes:
    """A whole frame."""
    return header(opcode, len(payload)) + payload


def close_payload(code: CloseCode, detail: str = "") -> bytes:
    """The payload of a CLOSE frame."""
    return code.to_bytes(2, "big") + detail.encode()[: _CONTROL_MAX - 2]
