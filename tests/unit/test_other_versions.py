"""What another version has written or says: understood, or refused in words; never taken for something else.

Three of each kind, as bytes: of a newer minor version (more than this one knows, behind what it knows), of a newer
major one, and garbage. ``tests/unit/grid/test_records.py`` and ``test_log_page.py`` have those of the older records.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from zlib import crc32

import pytest

from iot_mqtt.cluster import channels
from iot_mqtt.cluster.channels import Home
from iot_mqtt.cluster.joining import Known, NoNumber, Place, join, known_nodes, known_record
from iot_mqtt.cluster.links import proto_v1
from iot_mqtt.cluster.links.values import Head, Heartbeat
from iot_mqtt.cluster.registry import entry
from iot_mqtt.cluster.registry.entry import BadEntry
from iot_mqtt.cluster.roster import Life
from iot_mqtt.errors import Malformed, Unavailable
from iot_mqtt.grid.archive import ArchiveReader, BadArchive
from iot_mqtt.grid.devices import (
    decode_command,
    decode_device,
    decode_sequence,
    decode_shadow,
    encode_command,
    encode_device,
    encode_sequence,
    encode_shadow,
)
from iot_mqtt.grid.ignite.frames import BadFrame, FrameReader, Welcome
from iot_mqtt.grid.ignite.whole import Finisher, claim_key, head_key, note_of
from iot_mqtt.grid.marks import GridMarks, kept_accounts
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.grid.places import GridPlaces
from iot_mqtt.grid.records.base import Unreadable
from iot_mqtt.grid.records.directory import (
    Changes,
    decode_changes,
    decode_document,
    document_key,
    encode_changes,
    encode_document,
)
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.devices import State, StoredCommand, StoredDevice, StoredSequence, StoredShadow
from iot_mqtt.ports.directory import Document
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.ports.registry import Member
from iot_mqtt.ports.uplink import Place as UplinkPlace
from iot_mqtt.uplink.rulebook import RuleBook
from tests.contract.driving import Pump
from tests.seeds import seeds_of

DOCUMENT = Document("rules", "a", 3, {"x": 1})
DOCUMENT_KEY = document_key("rules", "a")
COMMAND = StoredCommand(id="c", target="t", state=State.QUEUED, accepted_at=1.0)
DEVICE = StoredDevice("g", "d", 1.0, 2.0)
SEQUENCE = StoredSequence(1, 2, "ann")
SHADOW = StoredShadow(2, {"x": 1}, {"x": 1}, None)
MEMBER = Member("n", 1, 2, "1.0", (1,))
HEARTBEAT = Heartbeat(1, 2, 3, 4, 5, 0.5)
#: What anything may raise that is not this version's; anything else would end up as a traceback.
REFUSALS = (Unreadable, Unavailable, NoNumber, BadEntry, Malformed, BadArchive, BadFrame)


@dataclass(frozen=True)
class Kind:
    """One kind of record: how it is read, what of, and how the same looks from a newer minor and a newer major."""

    name: str
    read: Callable[[bytes], Any]
    value: Any
    ours: bytes
    minor: bytes
    major: bytes
    #: Said of a newer major.
    says: str


def binary(name: str, read: Callable[[bytes], Any], value: Any, ours: bytes, says: str = "format 2") -> Kind:
    """The version in the first byte; later fields behind the last."""
    return Kind(name, read, value, ours, b"\x11" + ours[1:] + b"\xee\x00\x01", b"\x20" + ours[1:], says)


def fields(name: str, read: Callable[[bytes], Any], value: Any, ours: bytes, says: str = "format 2") -> Kind:
    """The version in the first byte, and JSON behind it."""
    more = json.dumps({**json.loads(ours[1:]), "later": [1]}).encode()
    return Kind(name, read, value, ours, b"\x11" + more, b"\x20" + ours[1:], says)


RECORDS = [
    binary("the home of a session", channels.read, Home(Life(3, 4), 5), channels.write(Home(Life(3, 4), 5))),
    fields("a document", lambda data: decode_document(DOCUMENT_KEY, data), DOCUMENT, encode_document(DOCUMENT, "w")),
    fields("changes of documents", decode_changes, Changes(3), encode_changes(Changes(3))),
    fields("a command", decode_command, COMMAND, encode_command(COMMAND)),
    fields("a device", decode_device, DEVICE, encode_device(DEVICE)),
    binary("a sequence", decode_sequence, SEQUENCE, encode_sequence(SEQUENCE)),
    fields("a shadow", decode_shadow, SHADOW, encode_shadow(SHADOW)),
]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.name)
def test_a_record_of_a_newer_minor_is_read_and_of_a_newer_major_refused(kind: Kind) -> None:
    """In words that name the version."""
    assert kind.read(kind.ours) == kind.value
    assert kind.read(kind.minor) == kind.value
    with pytest.raises(REFUSALS, match=kind.says):
        kind.read(kind.major)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("seed", seeds_of("records that are garbage", 3))
def test_a_record_that_is_garbage_is_refused(kind: Kind, seed: int) -> None:
    """Cut anywhere, with any bytes behind the version, or any at all."""
    rng = random.Random(seed)
    spoilt = [kind.ours[:size] for size in range(len(kind.ours))]
    spoilt += [kind.ours[:1] + rng.randbytes(rng.randrange(len(kind.ours))) for _ in range(50)]
    spoilt += [rng.randbytes(rng.randrange(60)) for _ in range(50)]
    for data in spoilt:
        try:
            kind.read(data)
        except REFUSALS:
            continue
        # Binary records have no sum: any numbers can be some.
        assert data[0] >> 4 == 1


# Records of META that a node goes by when it starts.


@pytest.fixture
def pump() -> Pump:
    return Pump()


@pytest.fixture
def grid(pump: Pump) -> MemoryGrid:
    grid = MemoryGrid()
    pump.run(grid.open())
    return grid


def put(pump: Pump, grid: MemoryGrid, key: bytes, value: bytes) -> None:
    batch = WriteBatch()
    batch.put(CacheName.META, key, value)
    pump.run(grid.commit(batch))


def test_a_node_does_not_join_by_a_record_of_another_major(pump: Pump, grid: MemoryGrid) -> None:
    """Nor does it give out a number twice because it cannot read who has it; a newer minor is no trouble."""
    _, key, ours = known_record(Known(1, "n", 7, 6))
    put(pump, grid, key, b"\x11" + ours[1:])
    assert pump.run(known_nodes(grid)) == [Known(1, "n", 7, 6)]
    put(pump, grid, b"boot", b"\x11" + (7).to_bytes(8) + b"more")
    assert pump.run(join(grid, "n")) == Place("n", 1, 8)
    for spoilt, says in ((b"\x20" + ours[1:], "run a later one"), (ours[:9], "cut short"), (b"", "cut short")):
        put(pump, grid, key, spoilt)
        for name in ("n", "other"):
            with pytest.raises(NoNumber, match=says):
                pump.run(join(grid, name))


MARK = b'{"v":%d,"account":{},"waiting":0,"stopped":true}'


@pytest.mark.parametrize(
    ("key", "ours", "read"),
    [
        (
            b"uplink/1",
            b'{"v":%d,"spool":"s","position":4,"recorded":0,"recorded_bytes":0,"taken":0,"taken_bytes":0}',
            lambda grid: GridPlaces(grid, 1).load(),
        ),
        (b"identity/1", MARK, lambda grid: GridMarks(grid, 1).load()),
        (b"identity/1", MARK, kept_accounts),
        (b"uplink/1/rules", b'{"v":%d,"stretches":[]}', lambda grid: RuleBook(grid, 1, "n").load([], 9)),
    ],
    ids=["the place of the uplink", "the figures of a node", "those of another", "the rules of the uplink"],
)
def test_what_a_later_version_keeps_is_not_begun_anew(
    pump: Pump, grid: MemoryGrid, key: bytes, ours: bytes, read: Callable[[MemoryGrid], Any]
) -> None:
    """It is there, whoever can read it: to go on without it would lose what it stands for."""
    put(pump, grid, key, ours % 2)
    with pytest.raises(Unavailable, match="later version"):
        pump.run(read(grid))
    assert pump.run(grid.get(CacheName.META, key)) == ours % 2


def test_a_field_that_a_later_version_adds_is_passed_over(pump: Pump, grid: MemoryGrid) -> None:
    """Of the place, for one."""
    kept = {"v": 1, "later": 5, **UplinkPlace("s", 4, 9, 8, 7, 6)._asdict()}
    put(pump, grid, b"uplink/1", json.dumps(kept).encode())
    assert pump.run(GridPlaces(grid, 1).load()) == UplinkPlace("s", 4, 9, 8, 7, 6)


# What a node that died was writing.


class Identified(MemoryGrid):
    """One that is written by this life."""

    identity = (2, 9)


@pytest.fixture
def identified(pump: Pump) -> Identified:
    grid = Identified()
    pump.run(grid.open())
    return grid


def note(tag: bytes = b"\x02") -> bytes:
    """The head of one entry's note, whose cache has this tag."""
    _, (_, _, head) = note_of((1, 5), 3, [(CacheName.SESSIONS, b"key", b"value")])
    assert head is not None
    body = tag + head[24:]
    return head[:19] + crc32(body).to_bytes(4) + body


def test_what_a_dead_node_of_another_version_was_writing_stays(pump: Pump, identified: Identified) -> None:
    """Until somebody comes who can read it: half of it would be wrong."""
    finisher = Finisher(identified, ManualClock())
    ours = note()
    for head, says in (
        (b"\x20" + ours[1:], "format 2"),
        (note(b"\xde"), "a cache that this version does not know"),
        (ours[:10], "cut short"),
        (ours[:-1] + b"x", "damaged"),
    ):
        put(pump, identified, head_key(1), head)
        with pytest.raises(Unavailable, match=says):
            pump.run(finisher.finish(1, 5))
        assert pump.run(identified.get(CacheName.META, head_key(1))) == head
    put(pump, identified, head_key(1), b"\x11" + ours[1:])
    pump.run(finisher.finish(1, 5))
    assert finisher.finished == 1


def test_whoever_finishes_by_another_version_is_not_taken_for_dead(pump: Pump, identified: Identified) -> None:
    """The bytes of its claim may mean something else."""
    finisher = Finisher(identified, ManualClock())
    claim = b"\x20\x01" + (5).to_bytes(8)
    for spoilt in (claim, claim[:4], b""):
        put(pump, identified, claim_key(4), spoilt)
        with pytest.raises(Unavailable, match=r"claim .* of format 2|claim .* cut short"):
            pump.run(finisher.finish(1, 5))
        assert pump.run(identified.get(CacheName.META, claim_key(4))) == spoilt


# Between nodes, and to the grid.


def test_a_member_of_a_later_release_is_understood_or_left_out() -> None:
    """Unknown fields are passed over; what it cannot be without has to be right."""
    ours = json.loads(entry.dump(MEMBER))
    assert entry.load("n", json.dumps({**ours, "later": {"x": 1}, "protocols": [1, 2]}).encode()).protocols == (1, 2)
    for wrong in ({"number": 256}, {"number": "1"}, {"boot": None}, {"protocols": "1"}, {"node_id": "other"}):
        with pytest.raises(BadEntry):
            entry.load("n", json.dumps({**ours, **wrong}).encode())


def test_a_datagram_of_a_later_release_is_understood_or_refused() -> None:
    """Fields behind the last one are passed over, kinds that are not known are counted; a version 2 is refused."""
    ours = proto_v1.write(Head(1, 2, 3, 4), HEARTBEAT)
    assert proto_v1.read(ours + b"later")[1] == HEARTBEAT
    with pytest.raises(Malformed, match="link protocol version 2; this node speaks 1"):
        proto_v1.read(b"\x02" + ours[1:])
    for size in range(len(ours)):
        with pytest.raises(Malformed):
            proto_v1.read(ours[:size])


def test_a_gateway_of_another_version_is_told_from_one_of_ours() -> None:
    """By the first byte of its welcome; whatever stands behind it is not looked at."""
    for version in (0, 1, 3, 255):
        welcome = bytes((0x81, version)) + random.Random(version).randbytes(40)
        assert FrameReader(1 << 16).feed(len(welcome).to_bytes(4) + welcome + b"rest") == [Welcome(version, b"", 0)]


def test_a_backup_of_a_later_release_is_refused() -> None:
    """By its file's version, or by its header's."""
    with pytest.raises(BadArchive, match="later version"):
        ArchiveReader(BytesIO(b"IMQBACK\x02" + bytes(100)))
