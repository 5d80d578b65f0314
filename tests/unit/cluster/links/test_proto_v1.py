"""The link protocol, version 1: recorded samples, any value there and back, and bytes that are none of it."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.cluster.links import items_v1, proto_v1
from iot_mqtt.cluster.links.values import (
    Data,
    Datagram,
    Head,
    Heartbeat,
    Item,
    Lost,
    Repair,
    Reply,
    Request,
    Retained,
    Route,
    Routes,
    RoutesAck,
    Unknown,
    halves,
)
from iot_mqtt.codec import PublishRun
from iot_mqtt.errors import Malformed
from iot_mqtt.ports.cluster import Forwarded
from iot_mqtt.ports.log import Reference
from iot_mqtt.values import UNKNOWN_CODEC, CodecId, Origin
from tests.cases.links_v1 import ADDED, BAD, GOOD, HEAD, OLDER_READS, raw
from tests.unit.cluster.links.linkskit import publishes

#: Of the samples, as they were when the first node spoke version 1.
FROZEN = "142f7c28ca7f00a99de614bfe58f1cd2708063ec46882ba07a93964895df778a"

U8, U32, U64 = st.integers(0, 0xFF), st.integers(0, 0xFFFF_FFFF), st.integers(0, (1 << 64) - 1)
NUMBER = st.integers(1, (1 << 63) - 200)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TOPIC = st.text(st.characters(exclude_characters="\0#+", exclude_categories=["Cs"]), min_size=1, max_size=9).map(
    str.encode
)
TIME = st.floats(allow_nan=False)
CODEC = st.none() | st.just(UNKNOWN_CODEC) | st.builds(CodecId, TEXT.filter(bool), TEXT)


@st.composite
def runs(draw: st.DrawFn, topic: bytes) -> PublishRun:
    payloads = draw(st.lists(st.binary(max_size=200), min_size=1, max_size=5))
    return publishes(topic, payloads, five=draw(st.booleans()), qos=draw(st.integers(0, 2)))


@st.composite
def forwarded(draw: st.DrawFn) -> Forwarded:
    topic = draw(TOPIC)
    run = draw(runs(topic))
    reference = Reference(draw(U32), draw(U32), draw(U64), run.count) if draw(st.booleans()) else None
    members = tuple(draw(st.lists(st.tuples(TEXT, TEXT), max_size=3)))
    origin = Origin(draw(TEXT), draw(CODEC))
    context, again = draw(st.just("") | TEXT), draw(st.booleans())
    sender, arrived, plain = draw(TEXT), draw(TIME), draw(st.booleans())
    return Forwarded(run, topic, sender, arrived, reference, plain, members, origin, context=context, again=again)


@st.composite
def retained(draw: st.DrawFn) -> Retained:
    topic = draw(TOPIC)
    return Retained(topic, draw(U64), draw(st.none() | runs(topic)), draw(TEXT), draw(TIME), draw(st.none() | TEXT))


ROUTE = st.builds(Route, TEXT, U8, U32)
ITEM: st.SearchStrategy[Item] = st.one_of(
    forwarded(),
    retained(),
    st.builds(Routes, U64, U64, st.lists(ROUTE, max_size=4).map(tuple), full=st.booleans(), more=st.booleans()),
    st.builds(RoutesAck, U64, U64),
    st.builds(Request, U32, TEXT, st.binary(max_size=20)),
    st.builds(Reply, U32, st.binary(max_size=20), st.booleans()),
)
SPAN = st.tuples(NUMBER, NUMBER).map(lambda pair: (min(pair), max(pair)))
DATAGRAM: st.SearchStrategy[Datagram] = st.one_of(
    st.builds(Data, NUMBER, U64, st.lists(ITEM, min_size=1, max_size=6).map(tuple)),
    st.builds(
        Heartbeat,
        *(NUMBER, U64, U64, U64, U64, st.floats(0, 1), st.booleans(), st.booleans(), st.booleans()),
        st.none() | st.tuples(TIME, st.none() | TIME),
    ),
    st.builds(Repair, st.lists(SPAN, max_size=5).map(tuple)),
    SPAN.map(lambda span: Lost(*span)),
)
HEADS = st.builds(Head, U8, U64, U8, U64)


def test_whoever_changes_a_datagram_makes_a_version_beside_this_one() -> None:
    """Nodes of two releases talk to each other during an update, and each says which versions it speaks."""
    samples = [(name, raw(sample[0]).hex()) for name, sample in sorted(GOOD.items())]
    assert sha256(repr(samples).encode()).hexdigest() == FROZEN, "version 1 was something else: make it another version"


@pytest.mark.parametrize("name", [*GOOD, *ADDED])
def test_samples_are_written_as_they_were_recorded(name: str) -> None:
    wire, datagram = (GOOD | ADDED)[name]
    assert proto_v1.write(HEAD, datagram).hex(" ") == raw(wire).hex(" ")


@pytest.mark.parametrize("name", [*GOOD, *ADDED, *OLDER_READS])
def test_samples_are_read(name: str) -> None:
    wire, datagram = (GOOD | ADDED | OLDER_READS)[name]
    assert proto_v1.read(raw(wire)) == (HEAD, datagram)


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_datagram_is_refused(name: str) -> None:
    with pytest.raises(Malformed):
        proto_v1.read(raw(BAD[name]))


def test_a_wire_that_stops_inside_a_packet_leaves_nothing_behind() -> None:
    """The decoders are shared by all datagrams."""
    cut = raw(BAD["a publication whose wire is cut"])
    with pytest.raises(Malformed):
        proto_v1.read(cut)
    wire, datagram = GOOD["a publication"]
    assert proto_v1.read(raw(wire)) == (HEAD, datagram)


@pytest.mark.parametrize("name", [*GOOD, *ADDED])
def test_every_beginning_of_a_sample_is_refused(name: str) -> None:
    wire = raw((GOOD | ADDED)[name][0])
    for size in range(len(wire)):
        with pytest.raises(Malformed):
            proto_v1.read(wire[:size])


@pytest.mark.parametrize(
    "item",
    [
        Unknown(99),
        RoutesAck(1 << 64),
        Forwarded(publishes(b"a", [b""]), b"a", "p" * 65_536, 0.0),
        Routes(0, 1, (Route("f" * 65_536, 1),)),
    ],
)
def test_what_does_not_fit_is_not_written(item: Item) -> None:
    with pytest.raises(ValueError):
        items_v1.write_item(item)


@given(HEADS, DATAGRAM)
def test_what_is_written_reads_back(head: Head, datagram: Datagram) -> None:
    assert proto_v1.read(proto_v1.write(head, datagram)) == (head, datagram)


@given(st.binary(max_size=120))
def test_random_bytes_are_refused_or_read_and_never_crash(noise: bytes) -> None:
    for start in (b"", b"\x01", *(bytes((1, kind)) + bytes(18) for kind in range(1, 6))):
        with suppress(Malformed):
            proto_v1.read(start + noise)


@given(DATAGRAM, st.data())
def test_damaged_datagrams_are_refused_or_read_and_never_crash(datagram: Datagram, data: st.DataObject) -> None:
    wire = bytearray(proto_v1.write(HEAD, datagram))
    for _ in range(data.draw(st.integers(1, 3))):
        wire[data.draw(st.integers(2, len(wire) - 1))] = data.draw(U8)
    with suppress(Malformed):
        proto_v1.read(bytes(wire))


@given(st.lists(ROUTE, max_size=30).map(tuple), st.integers(1, 80), st.booleans())
def test_routes_in_parts_say_the_same(routes: tuple[Route, ...], limit: int, full: bool) -> None:
    parts = list(Routes(3, 4, routes, full=full).parts(limit))
    assert tuple(route for part in parts for route in part.routes) == routes
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert [part.full for part in parts] == [full] + [False] * (len(parts) - 1)


RUNS = (publishes(b"a", [b"1", b"2"]), publishes(b"b", [b"3"], qos=1), publishes(b"c", [b""]))


def test_several_runs_are_one_publication() -> None:
    item = Forwarded(RUNS[0], b"a", "p", 1.0, origin=Origin("anna"), more=RUNS[1:])
    data = Data(1, 0, (item, item._replace(more=())))
    assert proto_v1.read(proto_v1.write(HEAD, data)) == (HEAD, data)


def test_the_context_of_a_trace_is_behind_all_that_was_there_before() -> None:
    """Who does not know its flag reads the same message without it."""
    item = Forwarded(RUNS[0], b"a", "p", 1.0, members=(("g", "c"),), origin=Origin("anna", CodecId("acme/1", "3")))
    wire = proto_v1.write(HEAD, Data(1, 0, (item._replace(context="00-1-2-01"),)))
    assert proto_v1.read(wire) == (HEAD, Data(1, 0, (item._replace(context="00-1-2-01"),)))
    flags = proto_v1.HEAD_SIZE + 20 + 5
    assert wire[flags] & 0x40
    unknown = wire[:flags] + bytes((wire[flags] & ~0x40,)) + wire[flags + 1 :]
    assert proto_v1.read(unknown) == (HEAD, Data(1, 0, (item,)))


def test_that_a_member_may_have_had_it_is_a_flag() -> None:
    """Who does not know it reads the same message without it."""
    item = Forwarded(RUNS[0], b"a", "p", 1.0, Reference(1, 2, 3, RUNS[0].count), plain=False, members=(("g", "c"),))
    wire = proto_v1.write(HEAD, Data(1, 0, (item._replace(again=True),)))
    assert proto_v1.read(wire) == (HEAD, Data(1, 0, (item._replace(again=True),)))
    flags = proto_v1.HEAD_SIZE + 20 + 5
    assert wire[flags] & 0x80
    assert proto_v1.write(HEAD, Data(1, 0, (item,))) == wire[:flags] + bytes((wire[flags] & ~0x80,)) + wire[flags + 1 :]


def test_a_codec_without_a_name_is_nobodys() -> None:
    """What is read can be written, and is the same then."""
    item = Forwarded(RUNS[0], b"a", "p", 1.0, origin=Origin("anna", CodecId("x", "3")))
    wire = proto_v1.write(HEAD, Data(1, 0, (item,)))
    named, unnamed = b"\x00\x01x\x00\x013", b"\x00\x00\x00\x023\x00"
    assert named in wire
    read = proto_v1.read(wire.replace(named, unnamed))
    assert read == (HEAD, Data(1, 0, (item._replace(origin=Origin("anna", UNKNOWN_CODEC)),)))
    assert proto_v1.read(proto_v1.write(*read)) == read


@pytest.mark.parametrize("place", [{"reference": Reference(1, 2, 3, 2)}, {"members": (("g", "c"),)}])
def test_several_runs_with_one_place_are_refused(place: dict[str, Any]) -> None:
    """Whose would it be?"""
    wire = proto_v1.write(HEAD, Data(1, 0, (Forwarded(RUNS[0], b"a", "p", 1.0, more=RUNS[1:], **place),)))
    with pytest.raises(Malformed):
        proto_v1.read(wire)


@pytest.mark.parametrize("count", [2, 3])
def test_halves_of_several_runs_are_all_of_them(count: int) -> None:
    first, second = halves(Forwarded(RUNS[0], b"a", "p", 1.0, more=RUNS[1:count]))
    assert (first.run, *first.more, second.run, *second.more) == RUNS[:count]
    assert second.topic == second.run.topic


def test_halves_of_a_run_keep_their_places_in_the_log() -> None:
    run = publishes(b"a/b", [b"1", b"2", b"3"], qos=1)
    item = Forwarded(run, b"a/b", "p", 1.0, Reference(1, 2, 100, 3), plain=False, members=(("g", "c"),))
    first, second = halves(item)
    assert (first.run.payloads(), second.run.payloads()) == ([b"1"], [b"2", b"3"])
    assert (first.reference, second.reference) == (Reference(1, 2, 100, 1), Reference(1, 2, 101, 2))
    assert (second.publisher, second.plain, second.members) == ("p", False, (("g", "c"),))
