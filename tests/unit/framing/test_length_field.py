"""Length fields: Netty's five parameters, and what has gone wrong with them elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from iot_mqtt.framing import FrameError, LengthField, framer_of
from tests.cases.framing import fed, in_every_way

HELLO = b"HELLO, WORLD"
TWO = LengthField(offset=0, width=2, max_frame=64)
#: A magic byte, the length of what follows, and that.
SIMPLE = LengthField(offset=1, width=2, magic=b"\x68", strip=3, max_frame=64)

PICTURES = {
    "the length counts what follows": (TWO, b"\x00\x0c" + HELLO, b"\x00\x0c" + HELLO),
    "the length is stripped": (replace(TWO, strip=2), b"\x00\x0c" + HELLO, HELLO),
    "the length counts itself": (replace(TWO, adjustment=-2), b"\x00\x0e" + HELLO, b"\x00\x0e" + HELLO),
    "a header before it": (
        LengthField(offset=2, width=3, max_frame=64),
        b"\xca\xfe\x00\x00\x0c" + HELLO,
        b"\xca\xfe\x00\x00\x0c" + HELLO,
    ),
    "a header behind it": (
        LengthField(offset=0, width=3, adjustment=2, max_frame=64),
        b"\x00\x00\x0c\xca\xfe" + HELLO,
        b"\x00\x00\x0c\xca\xfe" + HELLO,
    ),
    "headers on both sides, the first stripped": (
        LengthField(offset=1, width=2, adjustment=1, strip=3, max_frame=64),
        b"\xca\x00\x0c\xfe" + HELLO,
        b"\xfe" + HELLO,
    ),
    "headers on both sides, the length counts all": (
        LengthField(offset=1, width=2, adjustment=-3, strip=3, max_frame=64),
        b"\xca\x00\x10\xfe" + HELLO,
        b"\xfe" + HELLO,
    ),
    "header and more stripped": (
        LengthField(offset=0, width=1, adjustment=2, strip=3, max_frame=64),
        b"\x0c\xca\xfe" + HELLO,
        HELLO,
    ),
    "an end mark behind what the length counts": (
        LengthField(offset=1, width=2, adjustment=3, magic=b"\x68", max_frame=64),
        bytes.fromhex("68 0007 68 ffff0149840005 d1 16"),
        bytes.fromhex("68 0007 68 ffff0149840005 d1 16"),
    ),
}


@pytest.mark.parametrize(("framing", "wire", "frame"), PICTURES.values(), ids=PICTURES)
def test_the_pictures_of_netty_hold(framing: LengthField, wire: bytes, frame: bytes) -> None:
    """Once, cut everywhere, and fifty glued together."""
    assert in_every_way(framing, wire).frames == [frame]
    assert in_every_way(framing, wire * 3) == ([frame] * 3, "", {})
    assert fed(framing, [wire * 50]).frames == [frame] * 50


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 255])
def test_every_width_in_both_byte_orders(order: str, width: int, size: int) -> None:
    """With the values at which signs and carries go wrong."""
    framing = LengthField(offset=1, width=width, order=order, magic=b"#", strip=1 + width)  # type: ignore[arg-type]
    wire = b"#" + size.to_bytes(width, order) + b"x" * size  # type: ignore[arg-type]
    assert in_every_way(framing, wire) == ([b"x" * size], "", {})


@pytest.mark.parametrize("size", [256, 32_767, 32_768, 65_535])
def test_a_two_byte_length_goes_up_to_65535(size: int) -> None:
    """The limit is one for whole frames."""
    wire = size.to_bytes(2, "big") + b"x" * size
    framing = LengthField(offset=0, width=2, strip=2, max_frame=65_537)
    assert fed(framing, [wire[:1], wire[1:5], wire[5:], wire]) == ([b"x" * size] * 2, "", {})
    assert fed(replace(framing, max_frame=size + 1), [wire]).reason == "too_long"


class Row(NamedTuple):
    """Bytes that are no frame, or only seem to be none."""

    framing: LengthField
    wire: bytes
    frames: list[bytes]
    reason: str


GOOD = b"\x68\x00\x03abc"
ROWS = {
    "zero bytes": Row(SIMPLE, b"\x68\x00\x00" + GOOD, [b"", b"abc"], ""),
    "exactly the limit": Row(replace(SIMPLE, max_frame=6), GOOD, [b"abc"], ""),
    "one above the limit": Row(replace(SIMPLE, max_frame=5), GOOD, [], "too_long"),
    "65535": Row(SIMPLE, GOOD + b"\x68\xff\xff" + b"x" * 70, [b"abc"], "too_long"),
    "shorter than its own header": Row(replace(TWO, adjustment=-2), b"\x00\x03x\x00\x01x", [b"\x00\x03x"], "length"),
    "negative after adjustment": Row(replace(TWO, adjustment=-2), b"\x00\x00x", [], "length"),
    "shorter than what is stripped": Row(
        LengthField(offset=0, width=1, adjustment=2, strip=3, max_frame=9), b"\x00ab\x00ab", [b"", b""], ""
    ),
    "eight bytes, all ones": Row(LengthField(offset=0, width=8), b"\xff" * 8, [], "length"),
    "eight bytes, all ones, the other way round": Row(
        LengthField(offset=0, width=8, order="little"), b"\xff" * 8, [], "length"
    ),
    "eight bytes, the greatest": Row(LengthField(offset=0, width=8), b"\x7f" + b"\xff" * 7, [], "too_long"),
    "eight bytes, with a great adjustment": Row(
        LengthField(offset=0, width=8, adjustment=32_768), b"\x7f" + b"\xff" * 7, [], "too_long"
    ),
    "four bytes are not signed": Row(LengthField(offset=0, width=4), b"\xff\xff\xff\xff", [], "too_long"),
    "wrong first byte": Row(SIMPLE, GOOD + b"\x69\x00\x03abc", [b"abc"], "magic"),
    "wrong second byte of the magic": Row(replace(SIMPLE, magic=b"\x68\x69", offset=2), b"\x68\x68", [], "magic"),
    "a text protocol instead": Row(SIMPLE, b"GET / HTTP/1.1\r\n\r\n", [], "magic"),
    # A length that lies by one: the frame swallows a byte of the next, which then begins wrong.
    "lying, too long": Row(SIMPLE, b"\x68\x00\x04abc" + GOOD, [b"abc\x68"], "magic"),
    "lying, too short": Row(SIMPLE, b"\x68\x00\x02abc" + GOOD, [b"ab"], "magic"),
    "lying without a magic": Row(replace(TWO, strip=2), b"\x00\x04abc\x00\x03abc", [b"abc\x00"], "too_long"),
    # A frame above the limit that has arrived whole, and more behind it: what was skipped came out negative.
    "netty#1798: too long and all there": Row(
        replace(TWO, max_frame=8), b"\x00\x02ab" + b"\x00\x0c" + HELLO + b"\x00\x02ab", [b"\x00\x02ab"], "too_long"
    ),
    # Text where the length should be: 1920230005 - 4 is "rtj1".
    "netty#13331: text read as a length": Row(
        LengthField(offset=0, width=4, max_frame=1024), b"rtj1, and so on", [], "too_long"
    ),
    # A length of four bytes in one read, its frame in the next: the first four bytes got lost.
    "netty#10098: the header comes alone": Row(
        LengthField(offset=0, width=4, strip=4), b"\x00\x00\x00\x0c" + HELLO, [HELLO], ""
    ),
    # A frame that is longer than it says, again and again, kept the decoder waiting for ever.
    "dotnetty#335: more behind the end mark": Row(
        LengthField(offset=1, width=2, adjustment=3, magic=b"\x68"),
        bytes.fromhex("68 0007 68 ffff0149840005 d1 16 11 12"),
        [bytes.fromhex("68 0007 68 ffff0149840005 d1 16")],
        "magic",
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_is_no_frame_is_refused_behind_those_that_are(row: Row) -> None:
    """However its bytes arrive."""
    outcome = in_every_way(row.framing, row.wire)
    assert (outcome.frames, outcome.reason) == (row.frames, row.reason)
    assert outcome.refused == ({row.reason: 1} if row.reason else {})


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_all_of_it_is_ignored_behind_the_end(row: Row) -> None:
    """Good frames, too."""
    framer = framer_of(row.framing)
    items = framer.feed(row.wire)
    if isinstance(items[-1], FrameError):
        assert framer.feed(GOOD * 10) == []
        assert framer.refused == {row.reason: 1}


def test_a_wrong_first_byte_is_known_at_once() -> None:
    """Without waiting for the header, whose bytes may never come."""
    framer = framer_of(LengthField(offset=9, width=4, magic=b"\xca\xfe"))
    assert framer.feed(b"\xca") == []
    (error,) = framer.feed(b"\xff")
    assert isinstance(error, FrameError)
    assert str(error) == "magic: begins with ca ff instead of ca fe"


def test_failing_fast_refuses_when_the_length_is_known() -> None:
    """Failing slowly, when all of it was thrown away."""
    fast, slow = (
        framer_of(LengthField(offset=0, width=2, max_frame=8, fail_fast=fail_fast)) for fail_fast in (True, False)
    )
    (error,) = fast.feed(b"\x00\x64")
    assert str(error) == "too_long: a frame of 102 bytes; 8 are allowed"
    assert slow.feed(b"\x00\x64") == []
    for _ in range(99):
        assert slow.feed(b"x") == []
        assert slow.buffered == 0
    (error,) = slow.feed(b"x")
    assert str(error) == "too_long: a frame of 102 bytes; 8 are allowed"
    assert slow.skipped == 102


def test_a_big_frame_in_small_pieces_is_not_joined_each_time() -> None:
    """Four megabytes by 8 bytes would be copied half a million times: a terabyte."""
    framer = framer_of(LengthField(offset=0, width=4, strip=4, max_frame=5_000_000))
    body = bytes(range(256)) * 16_384
    items = framer.feed(len(body).to_bytes(4, "big"))
    for at in range(0, len(body), 8):
        items += framer.feed(body[at : at + 8])
    assert items == [body]
