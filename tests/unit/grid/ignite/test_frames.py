"""The gateway's frames against frozen bytes, which the Java side reads too."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.grid.ignite import frames
from iot_mqtt.grid.ignite.frames import (
    BadFrame,
    Deliver,
    Done,
    Found,
    FrameReader,
    Op,
    Page,
    Refused,
    Room,
    Topology,
    Welcome,
)

ROOT = Path(__file__).parents[4]
TABLE = ROOT / "cluster" / "gateway" / "src" / "test" / "resources" / f"frames-v{frames.VERSION}.txt"
#: Of the samples of each version, as they were when the first gateway spoke it: they never change.
FROZEN = {2: "2f5ad015ed4db16e5e820c8039e8a0b8dcada158a740a7dd84e325fea99dc42d"}
LIMIT = 1 << 20

ROWS = [line.split("|") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
SAMPLES = {name: bytes.fromhex(row) for name, row in ROWS}

SENT = {
    "hello": frames.encode_hello("s3cret", 7, 258, 3),
    "hello-nobody": frames.encode_hello("", 0, 0, 1),
    "commit": frames.encode_commit(1, [("iot_queue", {b"\x01": b"a", b"\x02": None}), ("iot_meta", {b"": b""})]),
    "commit-needed": frames.encode_commit(2, [], needed=True),
    "swap-new": frames.encode_swap(3, [("iot_channels", b"k", None, b"v")]),
    "swap-remove": frames.encode_swap(4, [("iot_channels", b"k", b"v", None), ("iot_channels", b"j", b"v", b"w")]),
    "remove-prefix": frames.encode_remove_prefix(5, "iot_log", b"\xff\x00"),
    "listen": frames.encode_listen(6, "links/7"),
    "send": frames.encode_send("tü", b"\x00\xff"),
    "fence": frames.encode_fence(8, 9, (1 << 40) + 1),
    "ping": frames.encode_ping(0xFFFF_FFFF),
    "read": frames.encode_read(9, [("iot_queue", b"k", None, 1000), ("iot_sessions", b"k", None, 0)]),
    "read-after": frames.encode_read(10, [("iot_log", b"", b"k\xff", 1)]),
}
RECEIVED = {
    "welcome": Welcome(2, bytes.fromhex("00112233445566778899aabbccddeeff"), 16 << 20),
    "refused": Refused(2, "node 7 is fenced up to boot 258"),
    "done": Done(1, 0, ""),
    "swapped": Done(4, 0, "", b"\x00\x04\x01"),
    "done-not-ready": Done(0xFFFF_FFFF, 1, "the grid is not active"),
    "deliver": Deliver("tü", b"\x00\xff"),
    "deliver-empty": Deliver("", b""),
    "topology": Topology(1 << 33, 3, 37),
    "topology-unknown": Topology(1 << 33, 3, None),
    "room": Room(1 << 33, 1 << 34, 1 << 35),
    "found": Found(9, [Page(more=True, entries=[(b"", b"v"), (b"k\xff", b"")]), Page(more=False, entries=[])]),
}


#: Of the protocol, though no node sends it.
UNSENT = {"unlisten"}


@pytest.mark.parametrize("name", SENT)
def test_a_frame_is_written_as_agreed(name: str) -> None:
    """Byte for byte."""
    assert SENT[name] == SAMPLES[name]


@pytest.mark.parametrize("name", RECEIVED)
def test_a_frame_is_read_as_agreed(name: str) -> None:
    """Whole, and byte by byte."""
    assert FrameReader(LIMIT).feed(SAMPLES[name]) == [RECEIVED[name]]
    reader = FrameReader(LIMIT)
    found = [frame for byte in SAMPLES[name] for frame in reader.feed(bytes((byte,)))]
    assert found == [RECEIVED[name]]


def test_every_sample_is_used() -> None:
    """None was added on the other side alone, and there is one of every frame."""
    assert set(SAMPLES) == set(SENT) | UNSENT | set(RECEIVED)
    assert {sample[4] for sample in SAMPLES.values()} == set(Op)


def test_whoever_changes_a_frame_gives_the_protocol_another_number() -> None:
    """Two sides that differ are to notice at the first frame, not in the middle of one."""
    digest = sha256(repr(sorted(SAMPLES.items())).encode()).hexdigest()
    assert FROZEN[frames.VERSION] == digest, f"version {frames.VERSION} was something else: make it another version"


def test_a_welcome_of_another_version_is_read_no_further_than_that() -> None:
    """What follows may be anything."""
    welcome = b"\x00\x00\x00\x03\x81\x07\xff"
    assert FrameReader(LIMIT).feed(welcome + b"\x00\x00\x00\x01\x85") == [Welcome(7, b"", 0)]


@given(st.lists(st.sampled_from(sorted(RECEIVED)), max_size=20), st.data())
def test_however_the_bytes_come_the_frames_are_the_same(names: list[str], data: st.DataObject) -> None:
    """Many in one piece, one in many."""
    wire = b"".join(SAMPLES[name] for name in names)
    reader, found, at = FrameReader(LIMIT), [], 0
    while at < len(wire):
        size = data.draw(st.integers(1, 40))
        found += reader.feed(wire[at : at + size])
        at += size
    assert found == [RECEIVED[name] for name in names]


@pytest.mark.parametrize(
    ("wire", "why"),
    [
        (b"\x00\x10\x00\x01", "1048577 bytes; the limit is 1048576"),
        (b"\x00\x00\x00\x00", "a frame of 0 bytes"),
        (b"\x00\x00\x00\x01\x7f", "unknown frame 0x7f"),
        (b"\x00\x00\x00\x01\x01", "unknown frame 0x01"),
        (b"\x00\x00\x00\x01\x83", "ends early"),
        (b"\x00\x00\x00\x01\x82", "ends early"),
        (SAMPLES["done"].replace(b"\x08\x83", b"\x09\x83") + b"\x00", "1 bytes behind the end"),
        (b"\x00\x00\x00\x05\x82\x02\x00\x01\xff", "not UTF-8"),
        (SAMPLES["found"].replace(b"\x01\x00\x00\x00\x02", b"\x01\x00\x00\x00\x09"), "ends early"),
        (SAMPLES["found"].replace(b"\x00\x02\x01", b"\x00\x01\x01"), "5 bytes behind the end"),
        (SAMPLES["found"][:-4] + b"\x00\x00\x00\x01", "ends early"),
        (b"\x00\x00\x00\x07\x84\x00\x00\x00\x00\x00\x01", "ends early"),
    ],
)
def test_nonsense_is_refused(wire: bytes, why: str) -> None:
    """A length at once, before any of the frame is there."""
    with pytest.raises(BadFrame, match=why):
        FrameReader(LIMIT).feed(wire)
