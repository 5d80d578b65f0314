"""Frames that are wrong inside but right outside: with the length, magic and checksum that the framing wants.

Without that nearly everything hostile would be caught by the framing, and the codec would never see it.
"""

from __future__ import annotations

from random import Random

from iot_mqtt.framing import Delimiter, Fixed, Framing, LengthField
from iot_mqtt.framing.checksums import SIZES, checksum_of

_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 64) - 1)
#: Hostile frames are no longer than this, unless golden ones are.
_LONG = 512


def with_length(framing: LengthField, frame: bytes, value: int) -> bytes:
    """The frame with another length field; nothing else is mended."""
    stop = framing.offset + framing.width
    frame = frame.ljust(stop, b"\0")
    return frame[: framing.offset] + value.to_bytes(framing.width, framing.order) + frame[stop:]


def mended(framing: Framing, frame: bytes) -> bytes:
    """The frame as near as it gets to one that the framing takes; with frames of one size, as many of them."""
    if isinstance(framing, Fixed):
        pieces = range(0, max(1, len(frame)), framing.size)
        return b"".join(_of_size(framing, frame[place : place + framing.size]) for place in pieces)
    end = b""
    if not isinstance(framing, LengthField):
        ends = framing.delimiters if isinstance(framing, Delimiter) else (b"\r\n", b"\n")
        for one in ends:
            frame = frame.replace(one, b"")
        end = ends[0]
    frame = framing.magic + frame[len(framing.magic) :]
    if isinstance(framing, LengthField):
        frame = _with_true_length(framing, frame)
    return _with_checksum(framing, frame) + end


def units(framing: Framing, frames: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """What is changed as a whole. Frames of one size may be pieces of something longer that the codec puts together."""
    return (b"".join(frames),) if isinstance(framing, Fixed) else frames


def _of_size(framing: Fixed, piece: bytes) -> bytes:
    frame = framing.magic + piece[len(framing.magic) :]
    return _with_checksum(framing, frame.ljust(framing.size, b"\0"))


def _with_true_length(framing: LengthField, frame: bytes) -> bytes:
    behind = 0 if framing.checksum is None else SIZES[framing.checksum.kind] + framing.checksum.trailer
    least = max(framing.offset + framing.width, framing.strip) + behind
    frame = frame.ljust(max(least, framing.offset + framing.width + framing.adjustment), b"\0")
    most = framing.offset + framing.width + framing.adjustment + (1 << 8 * framing.width) - 1
    frame = frame[: min(most, framing.max_frame)]
    value = len(frame) - framing.offset - framing.width - framing.adjustment
    return with_length(framing, frame, max(0, value))


def _with_checksum(framing: Framing, frame: bytes) -> bytes:
    """Written over the end of the frame, where it stands."""
    checksum = framing.checksum
    if checksum is None:
        return frame
    size = SIZES[checksum.kind]
    frame = frame.ljust(checksum.start + size + checksum.trailer, b"\0")
    at = len(frame) - size - checksum.trailer
    value = checksum_of(checksum.kind)(frame[checksum.start : at])
    return frame[:at] + value.to_bytes(size, checksum.order) + frame[at + size :]


def mutated(frame: bytes, other: bytes, random: Random) -> bytes:
    """The frame with one to four things changed; ``other`` is one to take a piece of."""
    data = bytearray(frame)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        place = random.randrange(len(data)) if data else 0
        match random.randrange(8):
            case 0 if data:
                data[place] ^= 1 << random.randrange(8)
            case 1 if data:
                data[place] = random.randrange(256)
            case 2:
                del data[place : place + random.randrange(1, 9)]
            case 3:
                data[place:place] = random.randbytes(random.randrange(1, 9))
            case 4:
                data[place:place] = data[place : place + random.randrange(1, 17)]
            case 5:
                del data[place:]
            case 6:
                width = random.choice((1, 2, 4, 8))
                value = random.choice(_INTERESTING) & ((1 << 8 * width) - 1)
                data[place : place + width] = value.to_bytes(width, random.choice(("big", "little")))
            case _ if other:
                start = random.randrange(len(other))
                data[place:] = other[start:]
    return bytes(data[: max(_LONG, 2 * len(frame))])


def from_nothing(framing: Framing, like: int, random: Random) -> bytes:
    """Random bytes, about as long as golden frames are; half of them look like text."""
    most = max(2, framing.max_frame - len(framing.magic) - 4)
    size = random.randrange(1, min(most, max(64, min(_LONG, 2 * like))))
    if random.random() < 0.5:
        return framing.magic + random.randbytes(size)
    return framing.magic + bytes(random.choices(b"0123456789+-.,;:= ABCXYZabc\t\0\xff", k=size))
