"""Feeding a framer in every way that bytes can arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from iot_mqtt.framing import FrameError, Framing, framer_of


class Outcome(NamedTuple):
    """What came of a stream, apart from how its bytes arrived."""

    frames: list[bytes]
    #: Why it ended; empty: it goes on.
    reason: str
    refused: dict[str, int]


def fed(framing: Framing, pieces: Iterable[bytes]) -> Outcome:
    """A new framer, fed with the pieces. Every promise of ``feed`` about each of them is checked here."""
    framer = framer_of(framing)
    frames: list[bytes] = []
    reason = ""
    for piece in pieces:
        for item in (items := framer.feed(piece)):
            if isinstance(item, FrameError):
                assert item is items[-1], "an error is the last of its list"
                assert not reason, "there is one error at most"
                reason = item.reason
            else:
                assert type(item) is bytes
                frames.append(item)
        assert framer.buffered < framing.max_frame, "what waits is less than a frame"
        assert framer.over == bool(reason)
        assert not (framer.over and framer.buffered), "nothing is kept behind the end"
    return Outcome(frames, reason, {str(name): count for name, count in framer.refused.items()})


def cuts(stream: bytes) -> Iterator[list[bytes]]:
    """Whole, byte by byte, and cut in two at every byte."""
    yield [stream]
    yield [stream[at : at + 1] for at in range(len(stream))]
    for at in range(1, len(stream)):
        yield [stream[:at], stream[at:]]


def in_every_way(framing: Framing, stream: bytes) -> Outcome:
    """The outcome, which does not depend on how the bytes arrive."""
    first, *others = (fed(framing, pieces) for pieces in cuts(stream))
    for other in others:
        assert other == first
    return first
