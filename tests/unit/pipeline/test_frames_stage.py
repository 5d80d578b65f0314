"""Declared frames as a stage."""

from __future__ import annotations

from iot_mqtt.framing import FrameReason, LengthField, framer_of
from iot_mqtt.pipeline import Batch, Context, FrameRefused, FramesStage, Stage
from iot_mqtt.pipeline.reasons import CloseReason
from tests.doubles.channel import EmbeddedChannel

FRAMING = LengthField(offset=1, width=1, magic=b"\x68", strip=2, max_frame=16)


class Device(Stage):
    """What stands above: keeps each batch, and closes for a refused frame."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: list[list[bytes] | str] = []

    def read(self, ctx: Context, batch: Batch) -> None:
        self.seen.append(list(batch))
        ctx.fire_read(batch)

    def failed(self, ctx: Context, error: BaseException) -> None:
        assert isinstance(error, FrameRefused)
        self.seen.append(str(error))
        ctx.close(CloseReason(f"frame_{error.reason}", error.detail))


def test_bytes_become_frames_in_any_pieces() -> None:
    """Glued, byte by byte, and as a batch of chunks from a stage below."""
    wire = b"\x68\x02ab\x68\x00\x68\x01c"
    embedded = EmbeddedChannel([("frames", FramesStage(framer_of(FRAMING)))])
    embedded.feed(wire)
    embedded.feed(*[wire[at : at + 1] for at in range(len(wire))])
    embedded.read(wire[:3], wire[3:])
    assert embedded.items == [b"ab", b"", b"c"] * 3
    assert embedded.errors == []


def test_frames_of_one_chunk_are_one_batch() -> None:
    """And a chunk that completes none is no batch."""
    device = Device()
    embedded = EmbeddedChannel([("frames", FramesStage(framer_of(FRAMING))), ("device", device)])
    embedded.feed(b"\x68\x02", b"ab\x68\x01c\x68")
    assert device.seen == [[b"ab", b"c"]]


def test_a_refused_frame_comes_after_the_frames_before_it() -> None:
    """Once, with its reason; what follows is not read."""
    device = Device()
    stage = FramesStage(framer_of(FRAMING))
    embedded = EmbeddedChannel([("frames", stage), ("device", device)])
    embedded.feed(b"\x68\x01a\x68\x01b\x99\x01c")
    embedded.read(b"\x68\x01d")
    assert device.seen == [[b"a", b"b"], "magic: begins with 99 01 63 instead of 68"]
    assert embedded.reason is not None
    assert embedded.reason.name == "frame_magic"
    assert stage.framer.refused == {FrameReason.MAGIC: 1}


def test_a_refused_frame_alone_makes_no_batch() -> None:
    """Nothing was right before it."""
    device = Device()
    embedded = EmbeddedChannel([("frames", FramesStage(framer_of(FRAMING))), ("device", device)])
    embedded.feed(b"GET / HTTP/1.1\r\n\r\n")
    assert device.seen == ["magic: begins with 47 45 54 20 instead of 68"]
    assert embedded.closed


def test_what_is_written_passes_untouched() -> None:
    """A codec writes whole frames."""
    embedded = EmbeddedChannel([("frames", FramesStage(framer_of(FRAMING)))])
    embedded.write(b"\x68\x01", b"x", b"not a frame")
    assert embedded.take() == b"\x68\x01xnot a frame"
