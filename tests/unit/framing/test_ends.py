"""Delimiters, lines and frames of one size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iot_mqtt.framing import Checksum, Delimiter, Fixed, FrameError, Framing, Line, checksum_of, framer_of
from tests.cases.framing import fed, in_every_way

CRLF = Delimiter(delimiters=(b"\r\n",), max_frame=16)
SEVERAL = Delimiter(delimiters=(b"\n", b"\r\n", b";"), max_frame=16)
LINE = Line(max_frame=16)
FIXED = Fixed(size=4, max_frame=16)

ROWS: dict[str, tuple[Framing, bytes, list[bytes], str]] = {
    "one delimiter": (CRLF, b"ab\r\ncd\r\nef", [b"ab", b"cd"], ""),
    "half a delimiter is none": (CRLF, b"a\rb\nc\r\r\n", [b"a\rb\nc\r"], ""),
    "nothing between two delimiters": (CRLF, b"\r\n\r\na\r\n", [b"", b"", b"a"], ""),
    "delimiters are kept": (replace(CRLF, strip=False), b"ab\r\n\r\n", [b"ab\r\n", b"\r\n"], ""),
    "several delimiters": (SEVERAL, b"a;b\r\nc\nd\re;", [b"a", b"b", b"c", b"d\re"], ""),
    "several are kept as they came": (replace(SEVERAL, strip=False), b"a;b\r\n", [b"a;", b"b\r\n"], ""),
    "a delimiter that repeats itself": (Delimiter(delimiters=(b"--",)), b"a---b--", [b"a", b"-b"], ""),
    "zero bytes as delimiter": (Delimiter(delimiters=(b"\0",)), b"\0a\0", [b"", b"a"], ""),
    "delimiters with signs that patterns know": (Delimiter(delimiters=(b".*", b"+")), b"a.b.*c+", [b"a.b", b"c"], ""),
    "exactly the limit": (CRLF, b"x" * 14 + b"\r\n", [b"x" * 14], ""),
    "one above the limit": (CRLF, b"ok\r\n" + b"x" * 15 + b"\r\n", [b"ok"], "too_long"),
    "above the limit without an end": (CRLF, b"ok\r\n" + b"x" * 90, [b"ok"], "too_long"),
    "several, one above the limit": (SEVERAL, b"x" * 15 + b"\r\n", [], "too_long"),
    "lines with both ends": (LINE, b"ab\ncd\r\n\r\n\n", [b"ab", b"cd", b"", b""], ""),
    "a carriage return inside a line": (LINE, b"a\rb\r\r\n", [b"a\rb\r"], ""),
    "a line of the limit": (LINE, b"x" * 15 + b"\n" + b"x" * 14 + b"\r\n", [b"x" * 15, b"x" * 14], ""),
    "a line above the limit": (LINE, b"a\n" + b"x" * 15 + b"\r\n", [b"a"], "too_long"),
    "a line that begins wrong": (replace(LINE, magic=b"$GP"), b"$GPRMC\r\n$GXRMC\r\n", [b"$GPRMC"], "magic"),
    "a line shorter than its magic": (replace(LINE, magic=b"$GP"), b"$G\n", [], "magic"),
    "fixed": (FIXED, b"abcdefghij", [b"abcd", b"efgh"], ""),
    "fixed, single bytes": (Fixed(size=1), b"abc", [b"a", b"b", b"c"], ""),
    "fixed, with magic": (replace(FIXED, magic=b"a"), b"abcdaaaabbbb", [b"abcd", b"aaaa"], "magic"),
}


@pytest.mark.parametrize(("framing", "wire", "frames", "reason"), ROWS.values(), ids=ROWS)
def test_frames_are_cut_however_their_bytes_arrive(
    framing: Framing, wire: bytes, frames: list[bytes], reason: str
) -> None:
    """Whole, byte by byte and cut in two at every byte."""
    assert in_every_way(framing, wire) == (frames, reason, {reason: 1} if reason else {})


@pytest.mark.parametrize("framing", [CRLF, replace(CRLF, strip=False), SEVERAL])
def test_fifty_glued_together_are_fifty(framing: Delimiter) -> None:
    """In one piece."""
    frame = b"ab" if framing.strip else b"ab\r\n"
    assert fed(framing, [b"ab\r\n" * 50]).frames == [frame] * 50


def test_a_line_that_begins_wrong_is_known_before_its_end() -> None:
    """Its end may never come."""
    framer = framer_of(replace(LINE, magic=b"$GP"))
    assert framer.feed(b"$G") == []
    (error,) = framer.feed(b"X")
    assert str(error) == "magic: begins with 24 47 58 instead of 24 47 50"


def test_a_long_line_byte_by_byte_is_searched_once() -> None:
    """Searching it anew with every byte would look at 8 GiB."""
    framer = framer_of(Delimiter(delimiters=(b"\r\n", b"\0\0"), max_frame=200_000))
    for _ in range(131_072):
        assert framer.feed(b"\r") == []
    assert framer.feed(b"\n") == [b"\r" * 131_071]


def test_a_checksum_stands_before_the_delimiter() -> None:
    """And goes with it, or stays."""
    body = b"V=12"
    sum8 = checksum_of("sum8")(body).to_bytes(1, "big")
    framing = Delimiter(delimiters=(b"\r\n",), checksum=Checksum("sum8"))
    assert in_every_way(framing, (body + sum8 + b"\r\n") * 2).frames == [body] * 2
    kept = replace(framing, strip=False, checksum=Checksum("sum8", strip=False))
    assert in_every_way(kept, body + sum8 + b"\r\n").frames == [body + sum8 + b"\r\n"]
    assert in_every_way(framing, b"V=13" + sum8 + b"\r\n").reason == "checksum"
    assert in_every_way(framing, b"\r\n").reason == "length"
    # Nothing adds up to nothing, but these four bytes are not even what is not under the checksum.
    late = replace(framing, checksum=Checksum("sum8", start=4))
    assert in_every_way(late, b"abc\0\r\n").reason == "length"


def test_an_error_says_what_is_wrong() -> None:
    """For a person."""
    (error,) = framer_of(LINE).feed(b"x" * 40)
    assert isinstance(error, FrameError)
    assert str(error) == "too_long: a frame of 41 bytes or more; 16 are allowed"
    framing = Fixed(size=4, checksum=Checksum("crc16-modbus", order="little"))
    (error,) = framer_of(framing).feed(b"\x01\x02\x03\x04")
    assert str(error) == "checksum: ends with 03 04 instead of 81 e1"
