r"""How a stream of bytes is cut into frames: said, not programmed.

::

    length field   │ offset │ length │ adjustment │ … what it counts … │      Netty's five parameters
    delimiter      │ … │ delimiter │
    line           │ … │ \\n or \\r\\n │
    fixed          │ so many bytes │

Any of them may begin with magic bytes and end with a checksum. Every frame has a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

#: What is done about bytes that are no frame: the connection is closed, or bytes are skipped up to the next magic
#: (length field, fixed) or delimiter.
Resync = Literal["close", "skip"]
ByteOrder = Literal["big", "little"]
ChecksumKind = Literal["sum8", "xor8", "crc8", "crc16-modbus", "crc16-ccitt", "crc32"]


@dataclass(frozen=True, slots=True)
class Checksum:
    """Stands at the end of a frame, over the bytes from ``start`` (of the whole frame) up to itself.

    A delimiter stands behind it and is not part of it.
    """

    kind: ChecksumKind
    order: ByteOrder = "big"
    start: int = 0
    #: Take it, and what follows it, off the frame that the codec gets.
    strip: bool = True
    #: Bytes of the frame that follow it: an end mark that is no delimiter.
    trailer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frames:
    """What all have in common."""

    #: Bytes of a whole frame, at most; a delimiter and what is stripped count, too.
    max_frame: int = 65_536
    #: What every frame begins with; empty: anything.
    magic: bytes = b""
    checksum: Checksum | None = None
    resync: Resync = "close"
    #: With resync "skip": more bytes than this between two frames are no disturbance, but something else.
    max_skipped: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthField(_Frames):
    """The frame says how long it is.

    frame length = ``offset`` + ``width`` + value + ``adjustment``; ``strip`` bytes at its beginning are not given on.
    """

    offset: int
    width: Literal[1, 2, 3, 4, 8]
    adjustment: int = 0
    strip: int = 0
    order: ByteOrder = "big"
    #: A frame that is too long is an error as soon as its length is known, rather than when all of it was thrown away.
    #: With resync "skip": its length is not believed, and the next magic is looked for at once, rather than behind it.
    fail_fast: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimiter(_Frames):
    """Frames end with one of these, whichever is complete first."""

    delimiters: tuple[bytes, ...]
    #: Take it off the frame.
    strip: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(_Frames):
    """Lines of text: a line feed, a carriage return before it or not, both taken off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(_Frames):
    """Frames of one size."""

    size: int


Framing: TypeAlias = LengthField | Delimiter | Line | Fixed
