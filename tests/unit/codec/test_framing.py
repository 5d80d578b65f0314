"""The length-field framer against every rule of its five parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iot_mqtt.codec.framing import FrameError, FrameTooLong, LengthField, LengthFieldFramer
from iot_mqtt.errors import ReasonCode

PLAIN = LengthField(max_frame_length=64, length_field_length=2)
BODY = b"HELLO, WORLD"

#: The pictures of the module: parameters, bytes, frame.
PICTURES = [
    (PLAIN, b"\x00\x0c" + BODY, b"\x00\x0c" + BODY),
    (replace(PLAIN, initial_bytes_to_strip=2), b"\x00\x0c" + BODY, BODY),
    (replace(PLAIN, length_adjustment=-2), b"\x00\x0e" + BODY, b"\x00\x0e" + BODY),
    (
        replace(PLAIN, length_field_offset=2, length_field_length=3),
        b"\xca\xfe\x00\x00\x0c" + BODY,
        b"\xca\xfe\x00\x00\x0c" + BODY,
    ),
    (
        replace(PLAIN, length_field_length=3, length_adjustment=2),
        b"\x00\x00\x0c\xca\xfe" + BODY,
        b"\x00\x00\x0c\xca\xfe" + BODY,
    ),
    (
        replace(PLAIN, length_field_offset=1, length_adjustment=1, initial_bytes_to_strip=3),
        b"\xca\x00\x0c\xfe" + BODY,
        b"\xfe" + BODY,
    ),
    (
        replace(PLAIN, length_field_offset=1, length_adjustment=-3, initial_bytes_to_strip=3),
        b"\xca\x00\x10\xfe" + BODY,
        b"\xfe" + BODY,
    ),
    (replace(PLAIN, byte_order="little"), b"\x0c\x00" + BODY, b"\x0c\x00" + BODY),
    (replace(PLAIN, length_field_length=1), b"\x0c" + BODY, b"\x0c" + BODY),
    (replace(PLAIN, length_field_length=4), b"\0\0\0\x0c" + BODY, b"\0\0\0\x0c" + BODY),
    (replace(PLAIN, length_field_length=8), b"\0" * 7 + b"\x0c" + BODY, b"\0" * 7 + b"\x0c" + BODY),
    (replace(PLAIN, length_field_length=3, byte_order="little"), b"\x0c\0\0" + BODY, b"\x0c\0\0" + BODY),
    (replace(PLAIN, initial_bytes_to_strip=2), b"\0\0", b""),
]
TOO_LONG = b"\x00\x64" + b"x" * 100


@pytest.mark.parametrize(("spec", "wire", "frame"), PICTURES)
def test_frames_are_cut_as_pictured(spec: LengthField, wire: bytes, frame: bytes) -> None:
    """One frame in one piece."""
    framer = LengthFieldFramer(spec)
    assert framer.feed(wire) == [frame]
    assert framer.buffered == 0


@pytest.mark.parametrize(("spec", "wire", "frame"), PICTURES)
def test_a_split_at_every_byte_gives_the_same_frames(spec: LengthField, wire: bytes, frame: bytes) -> None:
    """Two frames in two pieces, cut at each place; and byte by byte."""
    glued = wire * 2
    for cut in range(len(glued) + 1):
        framer = LengthFieldFramer(spec)
        assert framer.feed(glued[:cut]) + framer.feed(glued[cut:]) == [frame] * 2
    framer = LengthFieldFramer(spec)
    assert [found for at in range(len(glued)) for found in framer.feed(glued[at : at + 1])] == [frame] * 2


@pytest.mark.parametrize(("spec", "wire", "frame"), PICTURES)
def test_fifty_glued_frames_come_apart(spec: LengthField, wire: bytes, frame: bytes) -> None:
    """And the half frame behind them waits."""
    framer = LengthFieldFramer(spec)
    assert framer.feed(wire * 50 + wire[:1]) == [frame] * 50
    assert framer.buffered == 1


def test_a_frame_of_exactly_the_maximum_is_taken() -> None:
    """64 bytes with its length; one more is too long."""
    framer = LengthFieldFramer(PLAIN)
    assert framer.feed(b"\0\x3e" + b"x" * 62) == [b"\0\x3e" + b"x" * 62]
    with pytest.raises(FrameTooLong) as caught:
        framer.feed(b"\0\x3f" + b"x" * 63)
    assert caught.value.reason is ReasonCode.PACKET_TOO_LARGE


def test_fail_fast_complains_when_the_length_is_known() -> None:
    """Once; then the frame is discarded across reads and the next one is read."""
    framer = LengthFieldFramer(PLAIN)
    assert framer.feed(TOO_LONG[:1]) == []
    with pytest.raises(FrameTooLong):
        framer.feed(TOO_LONG[1:2])
    for at in range(2, len(TOO_LONG)):
        assert framer.feed(TOO_LONG[at : at + 1]) == []
        assert framer.buffered == 0
    assert framer.feed(b"\0\2ok") == [b"\0\2ok"]


def test_without_fail_fast_it_complains_when_the_frame_is_gone() -> None:
    """Not before the last of its bytes."""
    framer = LengthFieldFramer(replace(PLAIN, fail_fast=False))
    for at in range(len(TOO_LONG) - 1):
        assert framer.feed(TOO_LONG[at : at + 1]) == []
        assert framer.buffered <= 1
    with pytest.raises(FrameTooLong):
        framer.feed(TOO_LONG[-1:])
    assert framer.feed(b"\0\2ok") == [b"\0\2ok"]


@pytest.mark.parametrize("fail_fast", [True, False])
@pytest.mark.parametrize("cut", [1, 2, 3, 50, 101, 102])
def test_a_too_long_frame_is_discarded_wherever_it_is_cut(fail_fast: bool, cut: int) -> None:
    """Exactly one complaint, and the frames around it are found."""
    framer = LengthFieldFramer(replace(PLAIN, fail_fast=fail_fast))
    wire = b"\0\1a" + TOO_LONG + b"\0\1b"
    frames: list[bytes] = []
    complaints = 0
    for piece in (wire[: 3 + cut], wire[3 + cut :], b""):
        try:
            frames += framer.feed(piece)
        except FrameTooLong as error:
            frames += error.frames
            complaints += 1
    assert frames == [b"\0\1a", b"\0\1b"]
    assert complaints == 1
    assert framer.buffered == 0


def test_a_length_that_ends_in_front_of_its_own_field_is_an_error() -> None:
    """The length counts itself but says 1; the header is skipped."""
    framer = LengthFieldFramer(replace(PLAIN, length_adjustment=-2))
    with pytest.raises(FrameError) as caught:
        framer.feed(b"\0\3a" + b"\0\1" + b"\0\3b")
    assert not isinstance(caught.value, FrameTooLong)
    assert caught.value.reason is ReasonCode.MALFORMED_PACKET
    assert caught.value.frames == [b"\0\3a"]
    assert framer.feed(b"") == [b"\0\3b"]


def test_stripping_more_than_there_is_is_an_error() -> None:
    """A frame of three bytes, four of them to be stripped."""
    framer = LengthFieldFramer(replace(PLAIN, initial_bytes_to_strip=4))
    with pytest.raises(FrameError):
        framer.feed(b"\0\1a" + b"\0\3abc")
    assert framer.feed(b"") == [b"c"]


def test_a_huge_length_takes_no_memory() -> None:
    """Eight bytes of 0xff announce 18 exabytes."""
    framer = LengthFieldFramer(replace(PLAIN, length_field_length=8))
    with pytest.raises(FrameTooLong):
        framer.feed(b"\xff" * 8)
    assert framer.feed(b"x" * 100_000) == []
    assert framer.buffered == 0


def test_a_large_frame_in_many_pieces_is_gathered() -> None:
    """And the next one is found behind it."""
    framer = LengthFieldFramer(LengthField(max_frame_length=1 << 20))
    wire = (500_000).to_bytes(4, "big") + b"y" * 500_000 + b"\0\0\0\1z"
    found = [frame for at in range(0, len(wire), 999) for frame in framer.feed(wire[at : at + 999])]
    assert [len(frame) for frame in found] == [500_004, 5]


@pytest.mark.parametrize(
    "wrong",
    [
        {"length_field_length": 5},
        {"length_field_length": 0},
        {"max_frame_length": 0},
        {"length_field_offset": -1},
        {"initial_bytes_to_strip": -1},
        {"length_field_offset": 63},
        {"byte_order": "middle"},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    """When they are declared, not when bytes come."""
    with pytest.raises(ValueError, match=r"."):
        replace(PLAIN, **wrong)  # type: ignore[arg-type]
