"""Records: what was written is read, by this version, by the next, and from samples of the first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.grid import records
from iot_mqtt.grid.records import (
    DupRecord,
    PubrelRecord,
    QueueRecord,
    ReceivedRecord,
    RetainedRecord,
    SessionRecord,
    SubscriptionRecord,
    Unreadable,
    WillRecord,
    encode_message,
    encode_queue,
    encode_retained,
)
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.store import StoredFlight, StoredPast, StoredPlace, StoredProgress, StoredReplay
from iot_mqtt.values import Message, Subscription, Will

PLAIN = Message(b"a/b", b"hello", 1, publisher="dev-1")
FULL = Message(
    b"\xc3\xbc/x", b"\x00\xff", 2, retain=True, properties=b"\x01\x01", expires_at=1_700_000_000.5, publisher="g\u00fc"
)
EMPTY = Message(b"t", b"")
IN_LOG = Subscription("t", 1)
FLIGHT = StoredFlight(Reference(5, 2, 7, 3), 1, True, (4,), "", ((0, (1, 2)),))

PLAIN_HEX = "10 01 0003 0005 00000000 00000005 612f62 6465762d31 68656c6c6f"
FULL_HEX = "10 0e 0004 0003 00000002 00000002 41d954fc40200000 c3bc2f78 67c3bc 0101 00ff"

IN_LOG_HEX = "10 01 00000001 74 02 00000001 01"
FLIGHT_HEX = "00000002 0000000000000007 00000003 05 0001 0000 0001 00000004 00000000 0002 0001 0002"

#: What version 1.0 wrote. Never changed: a later version proves with it that it still reads its predecessors.
GOLDEN: list[tuple[str, Callable[[bytes], Any], Any, str]] = [
    ("message", records.decode_message, PLAIN, PLAIN_HEX),
    ("message with everything", records.decode_message, FULL, FULL_HEX),
    ("empty message", records.decode_message, EMPTY, "10 00 0001 0000 00000000 00000000 74"),
    ("queue, not sent", records.decode_queue, QueueRecord(PLAIN, 1), "10 01 0000 0000" + PLAIN_HEX),
    (
        "queue with everything",
        records.decode_queue,
        QueueRecord(FULL, 2, 0xABCD, retain=True, identifiers=(1, 268_435_455), shared=True),
        "10 1e abcd 000a 0002 00000001 0fffffff" + FULL_HEX,
    ),
    ("dup", records.decode_dup, DupRecord(258, 2, 77), "10 02 0000000000000102 000000000000004d"),
    ("pubrel", records.decode_pubrel, PubrelRecord(1 << 40), "10 0000010000000000"),
    ("received", records.decode_received, ReceivedRecord(), "10"),
    (
        "retained",
        records.decode_retained,
        RetainedRecord(PLAIN, (3, 9)),
        "10 0000000000000003 0000000000000009" + PLAIN_HEX,
    ),
    (
        "session",
        records.decode_session,
        SessionRecord("dev-1", 4, 0xFFFF_FFFF, 1.5),
        (
            "10 01 00000005 6465762d31  02 00000001 04  03 00000004 ffffffff  04 00000008 3ff8000000000000"
            "07 00000008 0000000000000000  08 00000008 0000000000000000  09 00000000"
        ),
    ),
    (
        "session with everything",
        records.decode_session,
        SessionRecord("d", 5, 60, 1.5, 2.0, "u", 7, 8, "n1"),
        (
            "10 01 00000001 64  02 00000001 05  03 00000004 0000003c  04 00000008 3ff8000000000000"
            "05 00000008 4000000000000000  06 00000001 75  07 00000008 0000000000000007"
            "08 00000008 0000000000000008  09 00000002 6e31"
        ),
    ),
    (
        "session with an owner",
        records.decode_session,
        SessionRecord("d", 5, 60, 1.5, owner="al"),
        (
            "10 01 00000001 64  02 00000001 05  03 00000004 0000003c  04 00000008 3ff8000000000000"
            "07 00000008 0000000000000000  08 00000008 0000000000000000  09 00000000  0a 00000002 616c"
        ),
    ),
    (
        "session of an anonymous client",
        records.decode_session,
        SessionRecord("d", 5, 60, 1.5, owner=""),
        (
            "10 01 00000001 64  02 00000001 05  03 00000004 0000003c  04 00000008 3ff8000000000000"
            "07 00000008 0000000000000000  08 00000008 0000000000000000  09 00000000  0a 00000000"
        ),
    ),
    (
        "subscription",
        records.decode_subscription,
        SubscriptionRecord(Subscription("a/#", 1)),
        "10 01 00000003 612f23  02 00000001 01",
    ),
    (
        "subscription with everything",
        records.decode_subscription,
        SubscriptionRecord(
            Subscription("$share/g/+", 2, no_local=True, retain_as_published=True, retain_handling=2, identifier=300)
        ),
        "10 01 0000000a 2473686172652f672f2b  02 00000001 2e  03 00000004 0000012c",
    ),
    (
        "subscription with a place in the log",
        records.decode_subscription,
        SubscriptionRecord(IN_LOG, 9),
        IN_LOG_HEX + "04 00000008 0000000000000009",
    ),
    (
        "subscription with places in other logs",
        records.decode_subscription,
        SubscriptionRecord(IN_LOG, 0, ((2, 6), (3, 8))),
        IN_LOG_HEX + "05 00000012 02 0000000000000006 03 0000000000000008",
    ),
    ("progress", records.decode_progress, StoredProgress(7), "10 01 00000008 0000000000000007"),
    (
        "progress with the last packet id",
        records.decode_progress,
        StoredProgress(7, last_id=8192),
        "10 01 00000008 0000000000000007  07 00000002 2000",
    ),
    (
        "progress with everything of one log",
        records.decode_progress,
        StoredProgress(
            7, (StoredPast(IN_LOG, 1, 2),), (StoredReplay("$replay/0/t", 3), StoredReplay("$replay/1h/t", 0, 1.5))
        ),
        (
            "10 01 00000008 0000000000000007"
            f"02 00000021 0000000000000001 0000000000000002 0000000d {IN_LOG_HEX}"
            "03 00000017 0000000000000003 0000000b 247265706c61792f302f74"
            "04 00000018 3ff8000000000000 0000000c 247265706c61792f31682f74"
        ),
    ),
    (
        "progress in three logs",
        records.decode_progress,
        StoredProgress(
            0,
            (),
            (StoredReplay("$replay/0/t", 3, None, 2),),
            0,
            (StoredPlace(2, 7, (StoredPast(IN_LOG, 1, 2),)), StoredPlace(3, 8), StoredPlace(1, 9)),
        ),
        (
            "10 01 00000008 0000000000000000"
            f"05 00000048 02 0000000000000007 00000021 0000000000000001 0000000000000002 0000000d {IN_LOG_HEX}"
            "03 0000000000000008 00000000  01 0000000000000009 00000000"
            "06 00000018 02 0000000000000003 0000000b 247265706c61792f302f74"
        ),
    ),
    ("segment", records.decode_segment, [FLIGHT], "10 0001 0000 00000005" + FLIGHT_HEX),
    (
        "segment of another log",
        records.decode_segment,
        [FLIGHT._replace(reference=Reference(0x0200_0005, 2, 7, 3))],
        "10 0001 0002 02000005" + FLIGHT_HEX,
    ),
    (
        "will",
        records.decode_will,
        WillRecord(Will(EMPTY)),
        "10 01 0000000f 10 00 0001 0000 00000000 00000000 74  02 00000004 00000000",
    ),
    (
        "will with everything",
        records.decode_will,
        WillRecord(Will(EMPTY, 5, 10), 1.5),
        (
            "10 01 0000000f 10 00 0001 0000 00000000 00000000 74  02 00000004 00000005"
            "03 00000004 0000000a  04 00000008 3ff8000000000000"
        ),
    ),
    (
        "will with an owner",
        records.decode_will,
        WillRecord(Will(EMPTY), None, "al"),
        "10 01 0000000f 10 00 0001 0000 00000000 00000000 74  02 00000004 00000000  05 00000002 616c",
    ),
]
NAMES = [name for name, *_ in GOLDEN]


def encode(value: Any) -> bytes:
    """Whatever record it is."""
    match value:
        case Message():
            return encode_message(value)
        case QueueRecord(message, qos, packet_id, retain, identifiers, shared):
            return encode_queue(encode_message(message), qos, packet_id, retain, identifiers, shared)
        case DupRecord(sequence, qos, order):
            return records.encode_dup(sequence, qos, order)
        case PubrelRecord(order):
            return records.encode_pubrel(order)
        case ReceivedRecord():
            return records.encode_received()
        case RetainedRecord(message, (epoch, counter)):
            return encode_retained(message, epoch, counter)
        case SessionRecord():
            return records.encode_session(value)
        case SubscriptionRecord(subscription, since, elsewhere):
            return records.encode_subscription(subscription, since, elsewhere)
        case StoredProgress():
            return records.encode_progress(value)
        case list():
            return records.encode_segment(value)
        case _:
            return records.encode_will(value)


@pytest.mark.parametrize(("name", "decode", "value", "sample"), GOLDEN, ids=NAMES)
def test_a_sample_of_version_1_is_read(name: str, decode: Callable[[bytes], Any], value: Any, sample: str) -> None:
    """To the value it stood for."""
    assert decode(bytes.fromhex(sample)) == value


@pytest.mark.parametrize(("name", "decode", "value", "sample"), GOLDEN, ids=NAMES)
def test_this_version_writes_version_1(name: str, decode: Callable[[bytes], Any], value: Any, sample: str) -> None:
    """Byte for byte; when this is to change, the samples stay and this test gets its own."""
    assert encode(value).hex() == bytes.fromhex(sample).hex()


@pytest.mark.parametrize(("name", "decode", "value", "sample"), GOLDEN, ids=NAMES)
def test_a_newer_minor_with_unknown_fields_is_read(
    name: str, decode: Callable[[bytes], Any], value: Any, sample: str
) -> None:
    """They are skipped: a node may read what its successor wrote."""
    record = bytes.fromhex(sample)
    later = bytes((record[0] | 0x0F,)) + record[1:] + b"\xf0\x00\x00\x00\x03new"
    assert decode(later) == value


def test_a_later_field_inside_a_queue_entry_is_skipped() -> None:
    """Between its head and its message, behind the identifiers."""
    message = encode_message(PLAIN)
    assert records.decode_queue(bytes.fromhex("11 21 0007 0003 aabbcc") + message) == QueueRecord(PLAIN, 1, 7)
    with_identifier = bytes.fromhex("11 31 0007 0009 0001 00000005 aabbcc") + message
    assert records.decode_queue(with_identifier) == QueueRecord(PLAIN, 1, 7, identifiers=(5,))


@pytest.mark.parametrize(("name", "decode", "value", "sample"), GOLDEN, ids=NAMES)
def test_a_newer_major_is_refused(name: str, decode: Callable[[bytes], Any], value: Any, sample: str) -> None:
    """Never guessed at."""
    record = bytes.fromhex(sample)
    with pytest.raises(Unreadable, match=r"format 2\.0"):
        decode(b"\x20" + record[1:])


@pytest.mark.parametrize(("name", "decode", "value", "sample"), GOLDEN, ids=NAMES)
def test_a_record_cut_anywhere_is_refused_or_whole(
    name: str, decode: Callable[[bytes], Any], value: Any, sample: str
) -> None:
    """A cut raises nothing but ``Unreadable``; only optional fields at the end can be missing unnoticed."""
    record = bytes.fromhex(sample)
    tagged = type(value) in {SessionRecord, SubscriptionRecord, WillRecord, StoredProgress}
    for end in range(len(record)):
        try:
            found = decode(record[:end])
        except Unreadable:
            continue
        assert tagged, f"cut at {end} was read as {found!r}"
        assert found != value


@given(st.binary(max_size=80))
def test_random_bytes_raise_nothing_but_unreadable(garbage: bytes) -> None:
    """Whatever a disk brings back."""
    for _, decode, _, _ in GOLDEN:
        for record in (garbage, b"\x10" + garbage):
            with suppress(Unreadable):
                decode(record)


messages = st.builds(
    Message,
    st.binary(max_size=20),
    st.binary(max_size=50),
    st.integers(0, 2),
    retain=st.booleans(),
    properties=st.binary(max_size=20),
    expires_at=st.none() | st.floats(0, 1e12),
    publisher=st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
u64 = st.integers(0, 2**64 - 1)
values = st.one_of(
    messages,
    st.builds(
        QueueRecord,
        messages,
        st.integers(0, 2),
        st.integers(0, 65535),
        st.booleans(),
        st.lists(st.integers(1, 268_435_455), max_size=5).map(tuple),
        st.booleans(),
    ),
    st.builds(DupRecord, u64, st.integers(1, 2), u64),
    st.builds(PubrelRecord, u64),
    st.builds(RetainedRecord, messages, st.tuples(u64, u64)),
    st.builds(
        SessionRecord,
        names,
        st.sampled_from([3, 4, 5]),
        st.integers(0, 2**32 - 1),
        st.floats(0, 1e12),
        st.none() | st.floats(0, 1e12),
        st.none() | names,
        u64,
        u64,
        names,
    ),
    st.builds(
        SubscriptionRecord,
        st.builds(
            Subscription,
            names,
            st.integers(0, 2),
            st.booleans(),
            st.booleans(),
            st.integers(0, 2),
            st.none() | st.integers(1, 268_435_455),
        ),
    ),
    st.builds(
        WillRecord,
        st.builds(Will, messages, st.integers(0, 2**32 - 1), st.none() | st.integers(0, 2**32 - 1)),
        st.none() | st.floats(0, 1e12),
    ),
)
DECODE: dict[type, Callable[[bytes], Any]] = {type(value): decode for _, decode, value, _ in GOLDEN}


@given(values)
def test_what_is_written_is_read(value: Any) -> None:
    """Any value of any record."""
    assert DECODE[type(value)](encode(value)) == value


def test_no_client_id_reaches_into_another_ones_entries() -> None:
    """Also where one id is the beginning of another, or looks like its key."""
    ids = ["", "a", "ab", "\x00", "\x00\x00", "a\x00", "\x00\x01a", "\u00fc", "x" * 255, "x" * 256, "x" * 65535]
    for mine in ids:
        key = records.queue_key(records.client_prefix(mine), 1)
        owners = [other for other in ids if key.startswith(records.client_prefix(other))]
        assert owners == [mine]
        assert records.split_prefix(key) == (mine, bytes(7) + b"\x01")


@given(st.lists(u64, min_size=2, max_size=20))
def test_queue_keys_sort_by_sequence(sequences: list[int]) -> None:
    """So a page is the oldest part of a queue."""
    prefix = records.client_prefix("c")
    keys = sorted(records.queue_key(prefix, sequence) for sequence in sequences)
    assert [records.sequence_of(key) for key in keys] == sorted(sequences)


def test_a_packet_key_holds_its_packet_id() -> None:
    """Two bytes behind the client's prefix."""
    key = records.packet_key(records.client_prefix("c"), 0xFFFE)
    assert key == b"\x00\x01c\xff\xfe"
    assert records.packet_id_of(key) == 0xFFFE


def test_other_keys_are_what_they_name() -> None:
    """Sessions and wills by client id, subscriptions by client and filter, retained messages by topic."""
    assert records.session_key("\u00fc") == b"\xc3\xbc"
    assert records.subscription_key(records.client_prefix("c"), "a/#") == b"\x00\x01ca/#"
    assert records.retained_key(b"a/b") == b"a/b"


def test_the_place_in_ones_own_log_is_one_of_all() -> None:
    """What a node of a cluster wrote is read as a place like the others; only writer 0 has fields of its own."""
    written = StoredProgress(7, (StoredPast(IN_LOG, 1, 2),), (), 2, (StoredPlace(3, 8),))
    read = records.decode_progress(records.encode_progress(written))
    assert read.places() == (StoredPlace(0, 0), StoredPlace(2, 7, written.past), StoredPlace(3, 8))
    older = records.base.read_fields(records.encode_progress(StoredProgress(7, (), (), 0, (StoredPlace(3, 8),))))
    assert older[1] == (7).to_bytes(8, "big")
