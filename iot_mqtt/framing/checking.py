"""Whether a declaration makes sense: what is wrong with it, in words, with the name of the key.

Types first, because a declaration may come from a vendor's Python; then each number by itself; then what contradicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias, get_args

from iot_mqtt.framing.checksums import SIZES
from iot_mqtt.framing.declare import ByteOrder, Checksum, Delimiter, Fixed, Framing, LengthField, Line, Resync

#: A frame is held in memory whole, more than once: a declaration for more is a mistake.
MOST: Final = 256 * 1024 * 1024


class BadFraming(ValueError):
    """A declaration that makes no sense; ``problems`` are all that were found."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def check(framing: Framing | object) -> list[str]:
    """The problems of a declaration; empty: it may be used."""
    if not isinstance(framing, LengthField | Delimiter | Line | Fixed):
        return [f"{type(framing).__name__} is no framing; there are LengthField, Delimiter, Line and Fixed"]
    problems = list(_types(framing))
    if problems:
        return problems
    problems += _common(framing)
    if isinstance(framing, LengthField):
        problems += _length_field(framing)
    elif isinstance(framing, Fixed):
        problems += _fixed(framing)
    elif isinstance(framing, Delimiter):
        problems += _delimiters(framing)
    return problems


# -- types

_Type: TypeAlias = tuple[str, Callable[[Any], bool]]

_INT: Final[_Type] = ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
_BOOL: Final[_Type] = ("true or false", lambda value: isinstance(value, bool))
_BYTES: Final[_Type] = ("bytes", lambda value: isinstance(value, bytes))


def _one_of(*choices: object) -> _Type:
    words = ", ".join(str(choice) for choice in choices)
    return f"one of {words}", lambda value: type(value) in (int, str) and value in choices


_ORDER = _one_of(*get_args(ByteOrder))
_TYPES: Final[dict[str, _Type]] = {
    "max_frame": _INT,
    "magic": _BYTES,
    "checksum": ("a checksum or nothing", lambda value: value is None or isinstance(value, Checksum)),
    "resync": _one_of(*get_args(Resync)),
    "max_skipped": _INT,
    "offset": _INT,
    "width": _one_of(1, 2, 3, 4, 8),
    "adjustment": _INT,
    "order": _ORDER,
    "fail_fast": _BOOL,
    "size": _INT,
    "delimiters": (
        "one or more delimiters",
        lambda value: isinstance(value, tuple) and value != () and all(isinstance(each, bytes) for each in value),
    ),
    "checksum.kind": _one_of(*SIZES),
    "checksum.order": _ORDER,
    "checksum.start": _INT,
    "checksum.strip": _BOOL,
    "checksum.trailer": _INT,
}
#: Bytes to strip here, whether to strip there.
_STRIP: Final = {LengthField: _INT, Delimiter: _BOOL}


def _types(framing: Framing) -> Iterator[str]:
    for name in all_fields(framing):
        value = getattr(framing, name)
        words, fits = _STRIP[type(framing)] if name == "strip" else _TYPES[name]
        if not fits(value):
            yield f"{name} must be {words}, not {value!r}"
        elif isinstance(value, Checksum):
            for inner in Checksum.__dataclass_fields__:
                words, fits = _TYPES[f"checksum.{inner}"]
                if not fits(getattr(value, inner)):
                    yield f"checksum.{inner} must be {words}, not {getattr(value, inner)!r}"


def all_fields(framing: Framing | type[Framing]) -> list[str]:
    """Names of the fields of a declaration."""
    return list(framing.__dataclass_fields__)


# -- sense


def _common(framing: Framing) -> Iterator[str]:
    if not 1 <= framing.max_frame <= MOST:
        yield f"max_frame is {framing.max_frame}; it may be 1 to {MOST}"
    elif len(framing.magic) >= framing.max_frame:
        yield f"max_frame is {framing.max_frame}; the magic alone has {len(framing.magic)} bytes"
    if not 1 <= framing.max_skipped <= MOST:
        yield f"max_skipped is {framing.max_skipped}; it may be 1 to {MOST}"
    sized = isinstance(framing, LengthField | Fixed)
    if sized and framing.resync == "skip" and not framing.magic:
        yield "resync is skip, but there is no magic to look for behind a bad frame"
    if framing.checksum:
        for name, value in (("start", framing.checksum.start), ("trailer", framing.checksum.trailer)):
            if value < 0:
                yield f"checksum.{name} is {value}; it may not be negative"
        least = framing.checksum.start + SIZES[framing.checksum.kind] + framing.checksum.trailer
        if 1 <= framing.max_frame < least:
            yield f"max_frame is {framing.max_frame}; a frame with this checksum has {least} bytes at least"


def _length_field(framing: LengthField) -> Iterator[str]:
    header = framing.offset + framing.width
    if framing.offset < 0:
        yield f"offset is {framing.offset}; it may not be negative"
    elif framing.offset < len(framing.magic):
        yield f"offset is {framing.offset}, inside the magic of {len(framing.magic)} bytes"
    elif header > framing.max_frame >= 1:
        yield f"max_frame is {framing.max_frame}; the length field ends at {header}"
    most = header + max(framing.adjustment, 0)
    if framing.strip < 0:
        yield f"strip is {framing.strip}; it may not be negative"
    elif framing.offset >= 0 and framing.strip > most:
        yield f"strip is {framing.strip}; the header has {most} bytes, and a frame may have no more"
    longest = header + (1 << 8 * framing.width) - 1 + framing.adjustment
    if longest < header:
        yield f"adjustment is {framing.adjustment}: no length of {framing.width} bytes makes up for it"
    elif framing.offset >= 0 and framing.adjustment + header > framing.max_frame >= header:
        yield f"adjustment is {framing.adjustment}: every frame is longer than max_frame, {framing.max_frame}"


def _fixed(framing: Fixed) -> Iterator[str]:
    if framing.size < 1:
        yield f"size is {framing.size}; it must be 1 or more"
        return
    if framing.size > framing.max_frame >= 1:
        yield f"size is {framing.size}; max_frame is {framing.max_frame}"
    if framing.size < len(framing.magic):
        yield f"size is {framing.size}; the magic has {len(framing.magic)} bytes"
    if framing.checksum:
        least = framing.checksum.start + SIZES[framing.checksum.kind] + framing.checksum.trailer
        if framing.size < least:
            yield f"size is {framing.size}; a frame with this checksum has {least} bytes at least"


def _delimiters(framing: Delimiter) -> Iterator[str]:
    delimiters = framing.delimiters
    if b"" in delimiters:
        yield "delimiters: an empty one is everywhere"
        return
    for index, delimiter in enumerate(delimiters):
        if delimiter in delimiters[:index]:
            yield f"delimiters: {delimiter.hex(' ')} is there twice"
        if len(delimiter) >= framing.max_frame >= 1:
            yield f"delimiters: {delimiter.hex(' ')} is as long as max_frame, {framing.max_frame}"
        if delimiter in framing.magic:
            yield f"delimiters: {delimiter.hex(' ')} is in the magic, so that no frame could begin"
        for other in delimiters:
            # What is complete first ends the frame; one that ends in another is a longer way to say the same.
            if other in delimiter[:-1]:
                yield f"delimiters: {delimiter.hex(' ')} never ends a frame, because {other.hex(' ')} is there before"
