"""Length-field framing as a declaration: Netty's five parameters, the byte order and when to complain.

A binary protocol that says its frames' lengths needs no code to be cut into frames::

    offset 0, width 2, adjustment 0, strip 0              the length counts what follows it
      | 000c | HELLO, WORLD |                          →  | 000c | HELLO, WORLD |
    offset 0, width 2, adjustment 0, strip 2              … and is of no further interest
      | 000c | HELLO, WORLD |                          →  | HELLO, WORLD |
    offset 0, width 2, adjustment -2, strip 0             the length counts itself, too
      | 000e | HELLO, WORLD |                          →  | 000e | HELLO, WORLD |
    offset 2, width 3, adjustment 0, strip 0              a header in front of the length
      | cafe | 00000c | HELLO, WORLD |                 →  | cafe | 00000c | HELLO, WORLD |
    offset 0, width 3, adjustment 2, strip 0              a header behind the length, not counted by it
      | 00000c | cafe | HELLO, WORLD |                 →  | 00000c | cafe | HELLO, WORLD |
    offset 1, width 2, adjustment -3, strip 3             headers on both sides, the length counts everything
      | ca | 0010 | fe | HELLO, WORLD |                →  | fe | HELLO, WORLD |

Sans-IO: bytes in, frames out; one ``LengthFieldFramer`` per connection, one ``LengthField`` per protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from iot_mqtt.errors import Malformed, ReasonCode


class FrameError(Malformed):
    """A frame that cannot be cut out; ``frames`` are those completed before it in the same feed.

    The framer stays usable: ``feed(b"")`` goes on behind the bad frame. Most callers close instead.
    """

    def __init__(self, detail: str, frames: list[bytes] | None = None, reason: ReasonCode | None = None) -> None:
        super().__init__(detail, reason)
        self.frames = [] if frames is None else frames


class FrameTooLong(FrameError):
    """A frame longer than the maximum; its bytes are discarded, not kept."""

    default = ReasonCode.PACKET_TOO_LARGE


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthField:
    """Where the length stands and what it counts.

    A frame has ``length_field_offset + length_field_length + value + length_adjustment`` bytes, of which
    the first ``initial_bytes_to_strip`` are not handed on. ``fail_fast`` complains about a frame that is too
    long as soon as its length is known; otherwise once all of it has been discarded.
    """

    max_frame_length: int
    length_field_offset: int = 0
    length_field_length: int = 4
    length_adjustment: int = 0
    initial_bytes_to_strip: int = 0
    byte_order: Literal["big", "little"] = "big"
    fail_fast: bool = True

    def __post_init__(self) -> None:
        if self.length_field_length not in (1, 2, 3, 4, 8):
            raise ValueError(f"length_field_length is {self.length_field_length}; it may be 1, 2, 3, 4 or 8")
        if self.byte_order not in ("big", "little"):
            raise ValueError(f"byte_order is {self.byte_order!r}; it may be big or little")
        if self.max_frame_length < 1:
            raise ValueError("max_frame_length must be positive")
        if self.length_field_offset < 0 or self.initial_bytes_to_strip < 0:
            raise ValueError("length_field_offset and initial_bytes_to_strip may not be negative")
        if self.header > self.max_frame_length:
            raise ValueError("the length field would stand behind max_frame_length")

    @property
    def header(self) -> int:
        """Bytes up to and including the length field."""
        return self.length_field_offset + self.length_field_length


class LengthFieldFramer:
    """Cuts what one connection sends into frames."""

    __slots__ = ("_buffer", "_discarding", "_need", "_spec", "_too_long")

    def __init__(self, spec: LengthField) -> None:
        self._spec = spec
        self._buffer: bytes | bytearray = b""
        #: Bytes that the frame at the front of the buffer has, as far as known.
        self._need = 0
        #: Bytes of a too long frame that are still to come, and how long it said it was.
        self._discarding = 0
        self._too_long = 0

    @property
    def buffered(self) -> int:
        """Bytes waiting for the rest of their frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that these bytes complete; FrameError for the first that cannot be."""
        frames: list[bytes] = []
        if len(self._buffer) + len(data) < self._need:
            # A big frame arrives in many pieces: gather them without joining each time.
            self._buffer = bytearray(self._buffer) if isinstance(self._buffer, bytes) else self._buffer
            self._buffer += data
            return frames
        buffer = b"".join((self._buffer, data)) if self._buffer else data
        pos = self._need = 0
        try:
            while pos < len(buffer) or self._too_long:
                after = self._discard(buffer, pos) if self._too_long else self._cut(buffer, pos, frames)
                if after < 0:
                    break
                pos = after
        except _Bad as bad:
            pos = bad.pos
            bad.error.frames = frames
            raise bad.error from None
        finally:
            self._buffer = buffer[pos:]
        return frames

    def _cut(self, buffer: bytes, pos: int, frames: list[bytes]) -> int:
        """Take the frame at ``pos``; return where it ends, or -1 if it is not all there."""
        spec = self._spec
        body = pos + spec.header
        if body > len(buffer):
            return -1
        value = int.from_bytes(buffer[pos + spec.length_field_offset : body], spec.byte_order)
        size = spec.header + value + spec.length_adjustment
        if size < spec.header:
            raise _Bad(FrameError(f"a frame of {size} bytes ends in front of its length field"), body)
        if size > spec.max_frame_length:
            self._too_long = self._discarding = size
            if spec.fail_fast:
                raise _Bad(self._complaint(), self._discard(buffer, pos, complain=False))
            return pos
        if pos + size > len(buffer):
            self._need = size
            return -1
        if spec.initial_bytes_to_strip > size:
            raise _Bad(FrameError(f"a frame of {size} bytes is shorter than what is stripped off it"), pos + size)
        frames.append(buffer[pos + spec.initial_bytes_to_strip : pos + size])
        return pos + size

    def _discard(self, buffer: bytes, pos: int, *, complain: bool = True) -> int:
        """Skip what is there of a too long frame; complain at its end, unless that was done at its start."""
        here = min(self._discarding, len(buffer) - pos)
        self._discarding -= here
        pos += here
        if self._discarding:
            return pos if here or not complain else -1
        error = self._complaint()
        self._too_long = 0
        if complain and not self._spec.fail_fast:
            raise _Bad(error, pos)
        return pos

    def _complaint(self) -> FrameTooLong:
        return FrameTooLong(f"a frame of {self._too_long} bytes; the most is {self._spec.max_frame_length}")


class _Bad(Exception):
    """Carries a frame error, and where to go on behind it, out of the loop."""

    def __init__(self, error: FrameError, pos: int) -> None:
        super().__init__(error.detail)
        self.error = error
        self.pos = pos
