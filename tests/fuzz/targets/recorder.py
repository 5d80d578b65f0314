"""Packets in words: files of the flight recorder, which may be damaged, and streams that a trace cuts into packets.

Nothing is raised. A text stays on one line, and is no longer than what it describes allows. A stream makes the same
packets however it arrives, none of which is larger than it may be; and what a ring keeps of it can be read wholly.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from iot_mqtt.codec.describing import PacketInfo, Splitter, described, described_one
from iot_mqtt.native import _pure_packets
from tests.cases.packets import CASES
from tests.fuzz.target import Target, head, ways

#: Characters that a byte of an image makes in a text, at most, and beside them.
WIDEST, WORDS = 12, 4096
LARGEST = 1024 * 1024


def _check_text(text: str, size: int) -> None:
    assert text.isprintable(), f"a terminal may obey {text!r}"
    assert len(text) <= WIDEST * size + WORDS, "a text is longer than what it describes"


def _check(records: list[PacketInfo], image: bytes) -> None:
    assert len(records) <= len(image) // 16, "there are more records than there is room for"
    for record in records:
        _check_text(record.text, len(image))
        assert record.direction in {"in", "out"}
        assert record.packet.isupper()
        assert record.packets >= 0


def run_image(data: bytes) -> None:
    """What a file of the recorder has."""
    _check(described(data), data)


def run_stream(data: bytes) -> None:
    """What goes over a connection."""
    choice, stream = head(data, 2)
    whole: list[tuple[int, int, bytes]] | None = None
    for pieces in ways(stream, choice[1]):
        splitter = Splitter(skip=choice[0] >> 4)
        found = [packet for piece in pieces for packet in splitter.feed(piece)]
        assert all(len(body) == min(length, Splitter.KEEP) for _, length, body in found)
        assert whole is None or found == whole, "it matters how the bytes arrive"
        whole = found
    for first, length, body in whole or ():
        name, text, topic = described_one(first, length, body, bool(choice[0] & 1))
        assert name.isupper()
        assert topic in body
        _check_text(text, len(body))
    ring = _pure_packets.PacketRing(count(1_700_000_000).__next__, LARGEST, choice[0] >> 1 & 7)
    ring.sent([stream])
    assert not stream or len(described(ring.image())) == ring.written, "what was kept cannot be read"
    _check(described(ring.image()), ring.image())


def _streams() -> Iterator[bytes]:
    """Each packet by itself, and several in one piece."""
    joined = b""
    for case in CASES:
        if len(case.wire) < 300:
            yield bytes((case.version == 5, 3)) + case.wire
            joined = (joined + case.wire)[-300:]
    yield b"\x01\x03" + joined


def _images() -> Iterator[bytes]:
    for stream in _streams():
        ring = _pure_packets.PacketRing(count(1_700_000_000).__next__, LARGEST, 4)
        ring.sent([stream[2:]])
        ring.received(stream[2:])
        yield ring.image()


TARGETS = (
    Target("packet-image", run_image, _images, (b"\xff\xff", b"\x00\x00\x00\x00", b"\x1b[2J", b"\n"), 700, 6000),
    Target("packet-stream", run_stream, _streams, (b"\xff\xff\xff\xff", b"\x82", b"\x30", b"\x1b]0;"), 400, 3000),
)
__all__ = ["TARGETS"]
