"""Truths about framers for any declaration, any frames and any bytes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iot_mqtt.framing import (
    BadFraming,
    Checksum,
    Delimiter,
    Fixed,
    FrameError,
    Framing,
    LengthField,
    Line,
    check,
    checksum_of,
    framer_of,
    framing_from,
    framing_to,
)
from iot_mqtt.framing.checksums import SIZES
from tests.cases.framing import fed

SMALL = st.integers(-3, 9)
ORDER = st.sampled_from(["big", "little"])
#: Few letters, so that magics, delimiters and garbage meet.
LETTERS = st.sampled_from(b"\x00\x01\x02\x03ab\r\n\xff")
LITTLE = st.lists(LETTERS, max_size=3).map(bytes)
CHECKSUM = st.none() | st.builds(
    Checksum,
    st.sampled_from(list(SIZES)),
    ORDER,
    st.integers(0, 4),
    st.booleans(),
    st.integers(0, 2),
)
COMMON: dict[str, Any] = {
    "max_frame": st.integers(1, 40),
    "magic": LITTLE,
    "checksum": CHECKSUM,
    "resync": st.sampled_from(["close", "skip"]),
}
LENGTH_FIELD = st.builds(
    LengthField,
    offset=SMALL,
    width=st.sampled_from([1, 2, 3, 4, 8]),
    adjustment=st.integers(-12, 12),
    strip=SMALL,
    order=ORDER,
    fail_fast=st.booleans(),
    **COMMON,
)
DELIMITER = st.builds(
    Delimiter, delimiters=st.lists(LITTLE, min_size=1, max_size=3).map(tuple), strip=st.booleans(), **COMMON
)
ANY = LENGTH_FIELD | DELIMITER | st.builds(Line, **COMMON) | st.builds(Fixed, size=SMALL, **COMMON)
SOUND = ANY.filter(lambda framing: not check(framing))
STREAM = st.binary(max_size=200) | st.lists(LETTERS, max_size=200).map(bytes)


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    """The stream in pieces."""
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:stop] for start, stop in pairwise(places)]


def body_of(framing: Framing, body: bytes) -> bytes | None:
    """A frame with this body, as a sender would write it; None: the declaration has no such frame."""
    check_size = SIZES[framing.checksum.kind] + framing.checksum.trailer if framing.checksum else 0
    end = b""
    if isinstance(framing, LengthField):
        head = framing.magic.ljust(framing.offset, b"\x07")
        value = len(body) + check_size - framing.adjustment
        if not 0 <= value < 1 << min(8 * framing.width, 63):
            return None
        wire = head + value.to_bytes(framing.width, framing.order) + body
        if len(wire) < framing.strip:
            return None
    elif isinstance(framing, Fixed):
        wire = (framing.magic + body)[: framing.size - check_size].ljust(framing.size - check_size, b"\x07")
    else:
        end = framing.delimiters[0] if isinstance(framing, Delimiter) else b"\n"
        wire = framing.magic + body
    if framing.checksum:
        if len(wire) < framing.checksum.start:
            return None
        value = checksum_of(framing.checksum.kind)(wire[framing.checksum.start :])
        wire += (
            value.to_bytes(SIZES[framing.checksum.kind], framing.checksum.order) + b"\x16" * framing.checksum.trailer
        )
    if end:
        delimiters = framing.delimiters if isinstance(framing, Delimiter) else (b"\n",)
        whole = wire + end
        # One that begins earlier ends the frame there, also where it ends as late.
        if any(delimiter in whole[:-1] or whole.endswith(delimiter) for delimiter in delimiters if delimiter != end):
            return None
        if end in whole[:-1] or wire.endswith(b"\r"):
            return None
        wire = whole
    return wire if len(wire) <= framing.max_frame and wire.startswith(framing.magic) else None


def handed_on(framing: Framing, wire: bytes) -> bytes:
    """What the codec gets of a frame."""
    begin, stop, end = 0, len(wire), b""
    if isinstance(framing, LengthField):
        begin = framing.strip
    elif isinstance(framing, Delimiter | Line):
        end = framing.delimiters[0] if isinstance(framing, Delimiter) else b"\n"
        stop -= len(end)
        end = b"" if isinstance(framing, Line) or framing.strip else end
    if framing.checksum and framing.checksum.strip:
        stop -= SIZES[framing.checksum.kind] + framing.checksum.trailer
    return wire[begin:stop] + end


@given(SOUND, st.lists(st.binary(max_size=20), max_size=6), st.lists(st.integers(0, 500), max_size=8))
def test_frames_come_out_as_they_were_sent(framing: Framing, bodies: list[bytes], cuts: list[int]) -> None:
    """Any frames, glued and cut anywhere: the same ones, no error, nothing skipped, nothing kept."""
    wires = [wire for body in bodies if (wire := body_of(framing, body)) is not None]
    outcome = fed(framing, split(b"".join(wires), cuts))
    assert outcome == ([handed_on(framing, wire) for wire in wires], "", {})


@given(SOUND, STREAM, st.lists(st.integers(0, 500), max_size=12))
@example(Delimiter(delimiters=(b"\n", b"\r\n"), max_frame=3, resync="skip"), b"aaaaa\r\nb\n", [6])
def test_it_does_not_matter_how_bytes_arrive(framing: Framing, stream: bytes, cuts: list[int]) -> None:
    """Any bytes: the same frames, the same end, the same counts; ``fed`` looks at memory and at the order of things."""
    assert fed(framing, split(stream, cuts)) == fed(framing, [stream])


@given(SOUND, st.lists(STREAM, max_size=6))
def test_every_byte_is_accounted_for(framing: Framing, pieces: list[bytes]) -> None:
    """Handed on, skipped, waiting or behind the end: a framer that goes on loses none and invents none."""
    framer = framer_of(framing)
    total = 0
    most = 0
    for piece in pieces:
        total += len(piece)
        frames = [item for item in framer.feed(piece) if not isinstance(item, FrameError)]
        assert all(len(frame) <= framing.max_frame for frame in frames)
        most += sum(map(len, frames))
        assert framer.buffered < framing.max_frame
    assert most + framer.skipped + framer.buffered <= total
    if isinstance(framing, Fixed) and not framing.checksum and not framer.over:
        assert most + framer.skipped + framer.buffered == total


@given(SOUND.filter(lambda framing: framing.resync == "skip"), STREAM, st.lists(st.binary(max_size=20), max_size=3))
def test_one_that_skips_never_ends(framing: Framing, noise: bytes, bodies: list[bytes]) -> None:
    """Whatever noise there was, it reads on."""
    wires = [wire for body in bodies if (wire := body_of(framing, body)) is not None]
    framer = framer_of(framing)
    framer.feed(noise)
    for wire in wires:
        framer.feed(wire)
    assert not framer.over


@given(ANY)
def test_a_declaration_is_data_or_is_refused(framing: Framing) -> None:
    """The data of a sound one gives it back, that of any other the same complaints."""
    data = framing_to(framing)
    if problems := check(framing):
        with pytest.raises(BadFraming) as caught:
            framing_from(data)
        assert list(caught.value.problems) == problems
    else:
        assert framing_from(data) == framing


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
LENGTH_KEYS = ["kind", "offset", "width", "adjustment", "strip", "order", "fail_fast", "max_frame", "magic", "resync"]
KEYS = st.sampled_from([*LENGTH_KEYS, "checksum", "delimiters", "size", "start", "trailer"])
WORDS = st.sampled_from(["length_field", "delimiter", "line", "fixed", "big", "skip", "crc8", "0x68", "0x"])


@given(st.dictionaries(KEYS | st.text(max_size=4), JUNK | WORDS | SMALL, max_size=8) | JUNK)
def test_any_data_is_a_declaration_or_refused(data: Any) -> None:
    """And never anything worse."""
    try:
        framing = framing_from(data)
    except BadFraming:
        return
    assert check(framing) == []
    assert framing_from(framing_to(framing)) == framing
