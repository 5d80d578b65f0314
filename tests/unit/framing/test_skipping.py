"""Bad frames are skipped and counted, and the good ones behind them are found."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest

from iot_mqtt.framing import Checksum, Delimiter, Fixed, Framing, LengthField, Line, checksum_of, framer_of
from tests.cases.framing import fed, in_every_way

SIMPLE = LengthField(offset=2, width=2, magic=b"\xca\xfe", strip=4, max_frame=32, resync="skip")
SUMMED = replace(SIMPLE, adjustment=1, checksum=Checksum("xor8", start=4))
LINES = Line(max_frame=16, magic=b"$", resync="skip")
BLOCKS = Fixed(size=4, max_frame=16, magic=b"\xca\xfe", resync="skip")


def simple(body: bytes) -> bytes:
    """Magic, length, body."""
    return b"\xca\xfe" + len(body).to_bytes(2, "big") + body


def summed(body: bytes) -> bytes:
    """And the checksum."""
    return simple(body) + checksum_of("xor8")(body).to_bytes(1, "big")


#: framing, bytes, frames, refused, bytes skipped
ROWS: dict[str, tuple[Framing, bytes, list[bytes], dict[str, int], int]] = {
    "noise before the first": (SIMPLE, b"noise" + simple(b"a"), [b"a"], {"magic": 1}, 5),
    "noise between two": (SIMPLE, simple(b"a") + b"\r\n" + simple(b"b"), [b"a", b"b"], {"magic": 1}, 2),
    "noise, a frame, noise": (SIMPLE, b"x" + simple(b"a") + b"y" + simple(b"b"), [b"a", b"b"], {"magic": 2}, 2),
    "noise like half a magic": (SIMPLE, b"\xca\xca" + simple(b"a") + b"\xca", [b"a"], {"magic": 1}, 2),
    "noise only": (SIMPLE, b"x" * 100, [], {"magic": 1}, 100),
    "a magic in the noise": (SIMPLE, b"x\xca\xfe\xff\xff" + simple(b"a"), [b"a"], {"magic": 1, "too_long": 1}, 5),
    "too long": (SIMPLE, simple(b"x" * 29) + simple(b"a"), [b"a"], {"too_long": 1}, 33),
    "a lying length": (SIMPLE, b"\xca\xfe\xff\xff" + simple(b"abc"), [b"abc"], {"too_long": 1}, 4),
    "too short": (
        replace(SIMPLE, adjustment=-4),
        b"\xca\xfe\x00\x00\xca\xfe\x00\x05a",
        [b"a"],
        {"length": 1},
        4,
    ),
    "a wrong checksum": (
        SUMMED,
        summed(b"a") + simple(b"bb") + b"\xff" + summed(b"c"),
        [b"a", b"c"],
        {"checksum": 1},
        7,
    ),
    # The length is what went wrong: frames inside what it says are found all the same.
    "a wrong length under a checksum": (
        SUMMED,
        b"\xca\xfe\x00\x0cabc" + summed(b"d") * 3,
        [b"d"] * 3,
        {"checksum": 1},
        7,
    ),
    "slowly: thrown away by its length": (
        replace(SIMPLE, fail_fast=False),
        simple(b"\xca\xfe" * 20) + simple(b"a"),
        [b"a"],
        {"too_long": 1},
        44,
    ),
    "a line that begins wrong": (LINES, b"$a\nb\r\n$c\r\n", [b"$a", b"$c"], {"magic": 1}, 3),
    "a line that is too long": (LINES, b"$" + b"x" * 20 + b"\r\n$a\n", [b"$a"], {"too_long": 1}, 23),
    "any line that is too long": (
        Line(max_frame=8, resync="skip"),
        b"x" * 20 + b"\nok\n",
        [b"ok"],
        {"too_long": 1},
        21,
    ),
    "a wrong line that is too long": (LINES, b"x" * 20 + b"\n$a\n", [b"$a"], {"magic": 1}, 21),
    "a delimiter in two parts": (
        Delimiter(delimiters=(b"\r\n", b"\0"), max_frame=8, resync="skip"),
        b"x" * 30 + b"\r\r\n" + b"ok\0",
        [b"ok"],
        {"too_long": 1},
        33,
    ),
    "blocks": (BLOCKS, b"\xca\xfe12--\xca\xfe34\xca\xfd", [b"\xca\xfe12", b"\xca\xfe34"], {"magic": 2}, 4),
    "no room for a checksum": (
        Delimiter(delimiters=(b";",), max_frame=8, resync="skip", checksum=Checksum("crc16-ccitt")),
        b"a;" + b"1" + checksum_of("crc16-ccitt")(b"1").to_bytes(2, "big") + b";",
        [b"1"],
        {"length": 1},
        2,
    ),
}


@pytest.mark.parametrize(("framing", "wire", "frames", "refused", "skipped"), ROWS.values(), ids=ROWS)
def test_the_good_frames_are_found_again(
    framing: Framing, wire: bytes, frames: list[bytes], refused: dict[str, int], skipped: int
) -> None:
    """However the bytes arrive; none of them is unaccounted for."""
    assert in_every_way(framing, wire) == (frames, "", refused)
    framer = framer_of(framing)
    framer.feed(wire)
    assert framer.skipped == skipped
    assert not framer.over


def test_recovery_as_in_netty() -> None:
    """A frame above the limit, thrown away by the length it says, then a good one; twice, slowly and fast."""
    slow = replace(SIMPLE, max_frame=8, fail_fast=False)
    wire = b"\xca\xfe\x00\x05" + b"\0" * 5 + simple(b"A")
    assert in_every_way(slow, wire * 2) == ([b"A"] * 2, "", {"too_long": 2})
    fast = replace(slow, fail_fast=True)
    assert in_every_way(fast, wire * 2) == ([b"A"] * 2, "", {"too_long": 2})
    long = b"\xca\xfe\x00\x20" + bytes(range(32)) + simple(b"a")
    assert in_every_way(slow, long).frames == in_every_way(fast, long).frames == [b"a"]


def test_wrong_checksums_cost_no_more_than_a_few_looks_at_each_byte() -> None:
    """Every byte begins a frame whose checksum is wrong: 65,536 of 4 KiB each would be a quarter of a GiB to add up."""
    framing = replace(SUMMED, magic=b"\x10", offset=1, strip=3, max_frame=8192, checksum=Checksum("sum8"))
    framer = framer_of(framing)
    assert framer.feed(b"\x10" * 65_536) == []
    checked = framer.refused["checksum"] * (0x1010 + 4)  # type: ignore[index]
    assert 65_536 / 2 < checked <= 4 * 65_536 + 8 * 8192 + 65_536
    wire = b"\x10\x00\x01a"
    wire += checksum_of("sum8")(wire).to_bytes(1, "big")
    assert framer.feed(wire * 4000)[-1:] == [b"a"]


def test_what_a_lost_connection_sends_is_not_kept() -> None:
    """A megabyte of noise leaves a byte in memory."""
    framer = framer_of(replace(SIMPLE, max_skipped=1024 * 1024))
    for _ in range(1024):
        assert framer.feed(b"\xca" * 1024) == []
        assert framer.buffered <= 1
    assert framer.skipped + framer.buffered == 1024 * 1024


def test_fifty_good_ones_among_noise() -> None:
    """Glued, in pieces of every size."""
    wire = b"".join(chain.from_iterable((b"~" * (at % 3), simple(b"v%d" % at)) for at in range(50)))
    expected = [b"v%d" % at for at in range(50)]
    for size in range(1, 40):
        outcome = fed(SIMPLE, [wire[at : at + size] for at in range(0, len(wire), size)])
        assert outcome == (expected, "", {"magic": 33})


#: Framing, noise of ten bytes, a frame, what is given of it.
NOISY: dict[str, tuple[Framing, bytes, bytes, bytes]] = {
    "length field": (SIMPLE, b"~" * 10, simple(b"a"), b"a"),
    "wrong checksums": (SUMMED, simple(b"12345") + b"\0", summed(b"a"), b"a"),
    "thrown away by its length": (replace(SIMPLE, max_frame=8, fail_fast=False), simple(b"x" * 6), simple(b"a"), b"a"),
    "lines": (LINES, b"no magic!\n", b"$a\n", b"$a"),
    "blocks": (BLOCKS, b"~" * 10, b"\xca\xfe12", b"\xca\xfe12"),
}


@pytest.mark.parametrize(("framing", "noise", "frame", "given"), NOISY.values(), ids=NOISY)
def test_too_much_noise_in_a_row_is_the_end(framing: Framing, noise: bytes, frame: bytes, given: bytes) -> None:
    """With a reason; a frame in between makes it begin anew, in the same bytes or in others."""
    framing = replace(framing, max_skipped=2 * len(noise))
    often = (noise * 2 + frame) * 3
    frames, error, refused = in_every_way(framing, often)
    assert (frames, error, refused.get("noise", 0)) == ([given] * 3, "", 0)
    framing = replace(framing, max_skipped=2 * len(noise) - 1)
    frames, error, refused = in_every_way(framing, frame + noise + frame + noise * 2 + frame)
    assert (frames, error, refused["noise"]) == ([given] * 2, "noise", 1)
    framer = framer_of(framing)
    framer.feed(frame + noise * 3)
    assert framer.over and framer.feed(frame) == []
