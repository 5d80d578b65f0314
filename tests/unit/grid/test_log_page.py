"""Pages and records of the log: samples of the first version, and what is not one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from struct import pack
from typing import Any
from zlib import crc32

import pytest

from iot_mqtt.codec import Decoder, PublishRun
from iot_mqtt.grid.log import keys, records
from iot_mqtt.grid.log.generation import Generation, read_generation, read_stream
from iot_mqtt.grid.log.page import DamagedPage, PageDecoder, encode_page
from iot_mqtt.grid.log.records import Begun, TurnRecord, WrittenPage
from iot_mqtt.grid.records.base import Unreadable
from iot_mqtt.ports.log import TURN_BITS, WRITER_SHIFT, LogRun, Reference, writer_of
from iot_mqtt.values import NOBODY, UNKNOWN_CODEC, CodecId, Origin, ProtocolVersion

THREE = "3207 0003612f62 0007" + "320a 0003612f62 0008 787878"
FIVE = "3009 0003612f62 02 0101 ff"


def run_of(wire: str, five: bool) -> PublishRun:
    (run,) = Decoder(version=ProtocolVersion.V5 if five else ProtocolVersion.V311).feed(bytes.fromhex(wire))
    assert isinstance(run, PublishRun)
    return run


TURN = 0x0102
RUNS = [
    LogRun(Reference(3, 4, TURN << TURN_BITS | 5, 2), run_of(THREE, five=False), b"a/b", "dev-1", 1.5),
    LogRun(Reference(3, 4, TURN << TURN_BITS | 9, 1), run_of(FIVE, five=True), b"a/b", "g\u00fc", 2.0),
]
HEAD = "00000002"
FIRST_RUN = "00000005 00000002 00 3ff8000000000000 0005 00000015 6465762d31" + THREE
SECOND_RUN = "00000009 00000001 01 4000000000000000 0003 0000000b 67c3bc" + FIVE
#: What version 1.0 wrote. Never changed: a later version proves with it that it still reads its predecessors.
PAGE = bytes.fromhex("10 0fdeb795" + HEAD + FIRST_RUN + SECOND_RUN)

GENERATION = (1.5, 2.0, "a/#", 1 << 24, 2 << 24, 3, 4, 1, 5, 6)
STREAM = (2, "m/+/v", 0x155, 1024, 7, 8, 9, 10, 11, 12)
TURN_RECORD = TurnRecord(258, 1.5, (WrittenPage(1, 2, 3, 4), WrittenPage(5, 6, 7, 8)), 3)


def _generation(record: bytes) -> Any:
    read = read_generation(3, record, {"a/#": 2})
    assert (read.id, read.retention_class, read.loaded, read.record(read.counted)) == (3, 2, False, _GENERATION)
    times = read.began_at, read.ended_at
    return *times, read.filter, read.first, read.end, read.messages, read.bytes, read.state, read.counted, 6


def _stream(record: bytes) -> Any:
    read = read_stream(4, Generation(3, 0, "", 1.5, 0), record)
    assert (read.id, read.record(read.counted)) == (4, _STREAM)
    turns = read.first_turn, read.last_turn, read.counted
    return read.shard, read.structure, read.bucket, read.buckets, *turns, read.pages, read.messages, read.bytes


_GENERATION_BEFORE_TIMES = bytes.fromhex(
    "10 01 00000008 3ff8000000000000  02 00000008 4000000000000000  03 00000003 612f23"
    "04 00000008 0000000001000000  05 00000008 0000000002000000  06 00000008 0000000000000003"
    "07 00000008 0000000000000004  08 00000001 01  09 00000008 0000000000000005"
    "0a 00000004 00000006"
)
#: With the time of retention, which was that of its last message.
_GENERATION = _GENERATION_BEFORE_TIMES + bytes.fromhex("0b 00000008 4000000000000000")
_STREAM = bytes.fromhex(
    "10 0000 0002 0155 0400 0000000000000007 0000000000000008 0000000000000009"
    "000000000000000a 000000000000000b 000000000000000c 0005 6d2f2b2f76"
)
GOLDEN: list[tuple[str, Callable[[bytes], Any], Any, bytes, str]] = [
    ("generation", _generation, GENERATION, _GENERATION_BEFORE_TIMES, _GENERATION_BEFORE_TIMES.hex()),
    ("stream", _stream, STREAM, _STREAM, _STREAM.hex()),
    (
        "turn",
        records.decode_turn,
        TURN_RECORD,
        records.encode_turn(258, 1.5, pack(">8I", *chain.from_iterable(TURN_RECORD.pages)), 3),
        (
            "11 0000000000000102 3ff8000000000000 00000002"
            "00000001 00000002 00000003 00000004  00000005 00000006 00000007 00000008"
            "0003"
        ),
    ),
    ("index", records.decode_index, b"\x01\xff", records.encode_index(b"\x01\xff"), "10 01ff"),
    (
        "directory",
        records.decode_directory,
        {1: b"\x00\x07", 2: b"\xff"},
        records.encode_directory([(1, b"\x00\x07"), (2, b"\xff")]),
        "10 00000002  00000001 0002 0007  00000002 0001 ff",
    ),
    ("begun", records.decode_begun, Begun(258, 4), records.encode_begun(Begun(258, 4)), "11 0000000000000102 0004"),
    (
        "times",
        records.decode_times,
        (1.5, *[0.0] * 15),
        records.encode_times((1.5, *[0.0] * 15)),
        "10 3ff8000000000000" + "00" * 120,
    ),
]


@pytest.mark.parametrize(("decode", "value", "written", "sample"), [case[1:] for case in GOLDEN])
def test_records_are_frozen(decode: Callable[[bytes], Any], value: Any, written: bytes, sample: str) -> None:
    """Written as ever, read as ever, with what a later minor adds behind."""
    frozen = bytes.fromhex(sample)
    assert written == frozen
    assert decode(frozen) == value
    if decode is not records.decode_index:
        minor = b"\x1f" + frozen[1:] + bytes.fromhex("ee 00000002 abcd")
        assert decode(minor) == value


@pytest.mark.parametrize(("decode", "sample"), [(case[1], case[4]) for case in GOLDEN])
def test_what_is_no_record_is_unreadable(decode: Callable[[bytes], Any], sample: str) -> None:
    """Empty, of another major, or cut anywhere."""
    frozen = bytes.fromhex(sample)
    for record in (b"", b"\x20" + frozen[1:]):
        with pytest.raises(Unreadable):
            decode(record)
    if decode is not records.decode_index:
        for size in range(1, len(frozen)):
            with pytest.raises(Unreadable):
                decode(frozen[:size])


def test_a_generation_has_the_time_of_retention() -> None:
    """A field more than before; where it is not there, the time of the last message is."""
    assert _generation(_GENERATION) == _generation(_GENERATION_BEFORE_TIMES) == GENERATION
    later = _GENERATION[:-8] + bytes.fromhex("4008000000000000")
    assert read_generation(3, later, {}).known_time == 3.0


def test_records_of_version_one_dot_zero_are_read() -> None:
    """They do not say how many shards there are."""
    for decode, value, _, sample in [case[1:] for case in GOLDEN if case[0] in ("turn", "begun")]:
        older = b"\x10" + bytes.fromhex(sample)[1:-2]
        assert decode(older) == (
            Begun(258, 0) if isinstance(value, Begun) else TurnRecord(258, 1.5, TURN_RECORD.pages, 0)
        )


def test_a_writer_is_in_every_key() -> None:
    """Generations begin with it, so that those of one writer are under one prefix; a reference tells it."""
    generation = 0xAB << WRITER_SHIFT | 1
    assert writer_of(generation) == Reference(generation, 0, 0, 1).writer == 0xAB
    assert keys.page_key(generation, 2, 3, 4).hex(" ", 4) == "ab000001 00020000 000300ab 00000000 00000004"
    for key in (keys.generation_key(generation), keys.stream_key(generation, 7)):
        assert key[1:5].hex() == "ab000001"
    assert keys.generation_key(generation).startswith(keys.generations_prefix(0xAB))
    assert keys.ring_key(0xAB, 3, 513) == b"r\0\xab\0\x03\0\x01"
    assert keys.ring_key(0xAB, 3, 513).startswith(keys.ring_prefix(0xAB))
    assert keys.times_key(0xAB, 7) == b"w\0\xab\0\0\0\0\0\0\0\x07"
    assert keys.begun_key(0xAB) == b"b\0\xab"


def test_keys_are_frozen() -> None:
    """In the order of generation, shard, stream, writer, turn."""
    assert keys.page_key(1, 2, 3, 4).hex(" ", 4) == "00000001 00020000 00030000 00000000 00000004"
    assert keys.generation_key(1) == b"g\0\0\0\x01"
    assert keys.stream_key(1, 2) == b"s\0\0\0\x01\0\0\0\x02"
    assert keys.ring_key(0, 3, 513) == b"r\0\0\0\x03\0\x01"
    assert keys.times_key(0, 7) == b"w\0\0\0\0\0\0\0\0\0\x07"
    assert keys.page_key(1, 2, 3, 4).startswith(keys.generation_prefix(1))
    assert keys.stream_key(1, 2).startswith(keys.streams_prefix(1))
    assert keys.begun_key(0) == b"b\0\0"


def test_pages_are_frozen() -> None:
    """Written as ever, read as ever."""
    assert encode_page(RUNS) == PAGE
    found = PageDecoder().decode(PAGE, 3, 4, TURN)
    assert [(run.reference, run.run, run.topic, run.publisher, run.arrived) for run in found] == [
        (run.reference, run.run, run.topic, run.publisher, run.arrived) for run in RUNS
    ]


USERS = [Origin("anna", UNKNOWN_CODEC), NOBODY, Origin("gü"), Origin(codec=UNKNOWN_CODEC)]
WITH_ORIGINS = [
    LogRun(Reference(3, 4, TURN << TURN_BITS | place, 1), run_of(FIVE, five=True), b"a/b", "g", 2.0, origin)
    for place, origin in enumerate(USERS)
]
RUN_OF_G = "00000001 {} 4000000000000000 0001 0000000b 67" + FIVE
#: What version 1.1 wrote: flags, and users behind the runs.
PAGE_WITH_ORIGINS = bytes.fromhex(
    "11 aef39e43 00000004"
    + "".join(f"{place:08x}" + RUN_OF_G.format(flags) for place, flags in enumerate(("07", "01", "05", "03")))
    + "0004 616e6e61 0003 67c3bc"
)


def test_pages_with_origins_are_frozen() -> None:
    """Who answers for each run comes back, and nobody answers for what a page of 1.0 has."""
    assert encode_page(WITH_ORIGINS).hex() == PAGE_WITH_ORIGINS.hex()
    assert [run.origin for run in PageDecoder().decode(PAGE_WITH_ORIGINS, 3, 4, TURN)] == USERS
    assert [run.origin for run in PageDecoder().decode(PAGE, 3, 4, TURN)] == [NOBODY, NOBODY]
    for missing in range(1, 11):
        body = PAGE_WITH_ORIGINS[5:-missing]
        with pytest.raises(DamagedPage):
            PageDecoder().decode(b"\x11" + crc32(body).to_bytes(4, "big") + body, 3, 4, TURN)


TOLD = [Origin("anna", CodecId("acme/1", "3")), NOBODY, Origin("gü"), Origin(codec=CodecId("ü", "10"))]
WITH_CODECS = [
    LogRun(one.reference, one.run, one.topic, one.publisher, one.arrived, origin)
    for one, origin in zip(WITH_ORIGINS, TOLD, strict=True)
]
#: What version 1.2 wrote: codecs and schemas behind the users.
PAGE_WITH_CODECS = bytes.fromhex(
    "12 11bcb4c5 00000004"
    + "".join(f"{place:08x}" + RUN_OF_G.format(flags) for place, flags in enumerate(("0f", "01", "05", "0b")))
    + "0004 616e6e61 0003 67c3bc"
    + "0006 61636d652f31 0001 33 0002 c3bc 0002 3130"
)


def test_pages_with_codecs_are_frozen() -> None:
    """What a reading is known by comes back."""
    assert encode_page(WITH_CODECS).hex() == PAGE_WITH_CODECS.hex()
    assert [run.origin for run in PageDecoder().decode(PAGE_WITH_CODECS, 3, 4, TURN)] == TOLD
    for missing in range(1, 17):
        body = PAGE_WITH_CODECS[5:-missing]
        with pytest.raises(DamagedPage):
            PageDecoder().decode(b"\x12" + crc32(body).to_bytes(4, "big") + body, 3, 4, TURN)


def test_a_page_of_a_later_minor_is_read() -> None:
    """What it adds stands behind the runs."""
    body = PAGE[5:] + b"later"
    page = b"\x11" + crc32(body).to_bytes(4, "big") + body
    assert [run.reference for run in PageDecoder().decode(page, 3, 4, TURN)] == [run.reference for run in RUNS]


def test_a_damaged_page_is_never_read() -> None:
    """Whatever bit is flipped and wherever it is cut; the next good one is."""
    decoder = PageDecoder()
    for bit in range(len(PAGE) * 8):
        if bit not in range(4, 8):  # the minor version
            spoilt = bytearray(PAGE)
            spoilt[bit // 8] ^= 0x80 >> bit % 8
            with pytest.raises(DamagedPage):
                decoder.decode(bytes(spoilt), 3, 4, TURN)
    for size in range(len(PAGE)):
        with pytest.raises(DamagedPage):
            decoder.decode(PAGE[:size], 3, 4, TURN)
    assert len(decoder.decode(PAGE, 3, 4, TURN)) == 2


@pytest.mark.parametrize("wire", ["3207", "3207 0003612f62 0000", "c000", "3207 0003612f62 0007", ""])
def test_a_run_that_does_not_read_back_is_damage(wire: str) -> None:
    """Even with a checksum that fits: another program wrote it."""
    data = bytes.fromhex(wire)
    body = bytes.fromhex(HEAD[:7] + "1" + "00000005 00000002 00 3ff8000000000000 0001") + len(data).to_bytes(4, "big")
    page = b"\x10" + crc32(body + b"p" + data).to_bytes(4, "big") + body + b"p" + data
    decoder = PageDecoder()
    with pytest.raises(DamagedPage):
        decoder.decode(page, 3, 4, TURN)
    assert len(decoder.decode(PAGE, 3, 4, TURN)) == 2
