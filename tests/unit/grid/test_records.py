"""Records: what was written is read, by this version, by the next, and from samples of the first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.grid.records import base, keys
from iot_mqtt.grid.records.base import Unreadable
from iot_mqtt.grid.records.message import decode_message, encode_message
from iot_mqtt.grid.records.progress import decode_progress, decode_segment, encode_progress, encode_segment
from iot_mqtt.grid.records.queue import (
    RECEIVED,
    decode_dup,
    decode_pubrel,
    decode_queue,
    encode_dup,
    encode_pubrel,
    encode_queue,
)
from iot_mqtt.grid.records.retained import decode_retained, encode_retained
from iot_mqtt.grid.records.sessions import decode_session, decode_subscription, encode_session, encode_subscription
from iot_mqtt.grid.records.wills import decode_will, encode_will
from iot_mqtt.ports.log import Reference
from iot_mqtt.ports.store import (
    StoredCount,
    StoredFlight,
    StoredPast,
    StoredPlace,
    StoredProgress,
    StoredReplay,
    StoredSession,
    StoredWill,
)
from iot_mqtt.values import Message, OwnedMessage, Standing, Subscription, Will

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
    ("message", decode_message, PLAIN, PLAIN_HEX),
    ("message with everything", decode_message, FULL, FULL_HEX),
    ("empty message", decode_message, EMPTY, "10 00 0001 0000 00000000 00000000 74"),
    ("queue, not sent", decode_queue, (PLAIN, 1, False, (), 0, False), "10 01 0000 0000" + PLAIN_HEX),
    (
        "queue with everything",
        decode_queue,
        (FULL, 2, True, (1, 268_435_455), 0xABCD, True),
        "10 1e abcd 000a 0002 00000001 0fffffff" + FULL_HEX,
    ),
    ("dup", decode_dup, 258, "10 00 0000000000000102 0000000000000102"),
    ("pubrel", decode_pubrel, 1 << 40, "10 0000010000000000"),
    (
        "retained",
        decode_retained,
        (PLAIN, 3, 9),
        "10 0000000000000003 0000000000000009" + PLAIN_HEX,
    ),
    (
        "retained, of a user",
        decode_retained,
        (OwnedMessage(PLAIN, "ann"), 3, 9),
        "10 0000000000000003 0000000000000009" + PLAIN_HEX.replace("10 01", "10 11", 1) + "0003 616e6e",
    ),
    (
        "session",
        decode_session,
        StoredSession("dev-1", 4, 0xFFFF_FFFF, 1.5, None, None, 0),
        (
            "10 01 00000005 6465762d31  02 00000001 04  03 00000004 ffffffff  04 00000008 3ff8000000000000"
            "07 00000008 0000000000000000  08 00000008 0000000000000000  09 00000000"
        ),
    ),
    (
        "session with everything",
        decode_session,
        StoredSession("d", 5, 60, 1.5, 2.0, "u", 7),
        (
            "10 01 00000001 64  02 00000001 05  03 00000004 0000003c  04 00000008 3ff8000000000000"
            "05 00000008 4000000000000000  06 00000001 75  07 00000008 0000000000000007"
            "08 00000008 0000000000000000  09 00000000"
        ),
    ),
    (
        "session with an owner",
        decode_session,
        StoredSession("d", 5, 60, 1.5, None, None, 0, "al"),
        (
            "10 01 00000001 64  02 00000001 05  03 00000004 0000003c  04 00000008 3ff8000000000000"
            "07 00000008 0000000000000000  08 00000008 0000000000000000  09 00000000  0a 00000002 616c"
        ),
    ),
    (
        "session of an anonymous client",
        decode_session,
        StoredSession("d", 5, 60, 1.5, None, None, 0, ""),
        (
            "10 01 00000001 64  02 00000001 05  03 00000004 0000003c  04 00000008 3ff8000000000000"
            "07 00000008 0000000000000000  08 00000008 0000000000000000  09 00000000  0a 00000000"
        ),
    ),
    (
        "subscription",
        decode_subscription,
        (Subscription("a/#", 1), {}),
        "10 01 00000003 612f23  02 00000001 01",
    ),
    (
        "subscription with everything",
        decode_subscription,
        (
            Subscription("$share/g/+", 2, no_local=True, retain_as_published=True, retain_handling=2, identifier=300),
            {},
        ),
        "10 01 0000000a 2473686172652f672f2b  02 00000001 2e  03 00000004 0000012c",
    ),
    (
        "subscription with a place in the log",
        decode_subscription,
        (IN_LOG, {0: 9}),
        IN_LOG_HEX + "04 00000008 0000000000000009",
    ),
    (
        "subscription with places in other logs",
        decode_subscription,
        (IN_LOG, {2: 6, 3: 8}),
        IN_LOG_HEX + "05 00000012 02 0000000000000006 03 0000000000000008",
    ),
    ("progress", decode_progress, StoredProgress(7), "10 01 00000008 0000000000000007"),
    (
        "progress with the last packet id",
        decode_progress,
        StoredProgress(7, last_id=8192),
        "10 01 00000008 0000000000000007  07 00000002 2000",
    ),
    (
        "progress of a session that was handed over",
        decode_progress,
        StoredProgress(7, counted=(StoredCount(2, 5, True, 9), StoredCount(3, 0, False, 8))),
        (
            "10 01 00000008 0000000000000007"
            "08 00000024 02 0000000000000005 01 0000000000000009 03 0000000000000000 00 0000000000000008"
        ),
    ),
    (
        "progress with everything of one log",
        decode_progress,
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
        decode_progress,
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
    ("segment", decode_segment, [FLIGHT], "10 0001 0000 00000005" + FLIGHT_HEX),
    (
        "segment of another log",
        decode_segment,
        [FLIGHT._replace(reference=Reference(0x0200_0005, 2, 7, 3))],
        "10 0001 0002 02000005" + FLIGHT_HEX,
    ),
    (
        "will",
        decode_will,
        StoredWill(Will(EMPTY), None),
        "10 01 0000000f 10 00 0001 0000 00000000 00000000 74  02 00000004 00000000",
    ),
    (
        "will with everything",
        decode_will,
        StoredWill(Will(EMPTY, 5, 10), 1.5),
        (
            "10 01 0000000f 10 00 0001 0000 00000000 00000000 74  02 00000004 00000005"
            "03 00000004 0000000a  04 00000008 3ff8000000000000"
        ),
    ),
    (
        "will with an owner",
        decode_will,
        StoredWill(Will(EMPTY), None, "al"),
        "10 01 0000000f 10 00 0001 0000 00000000 00000000 74  02 00000004 00000000  05 00000002 616c",
    ),
    (
        "will of somebody with groups, an address and rules",
        decode_will,
        StoredWill(Will(EMPTY, standing=Standing(frozenset({"g"}), "::1", ("allow all x",))), None),
        (
            "10 01 0000000f 10 00 0001 0000 00000000 00000000 74  02 00000004 00000000"
            "06 0000001f 5b5b2267225d2c20223a3a31222c205b22616c6c6f7720616c6c2078225d5d"
        ),
    ),
    (
        "will of somebody whom a token let in",
        decode_will,
        StoredWill(Will(EMPTY, standing=Standing(link="jwt")), None),
        "10 01 0000000f 10 00 0001 0000 00000000 00000000 74  02 00000004 00000000  07 00000003 6a7774",
    ),
]
NAMES = [name for name, *_ in GOLDEN]


#: What the decoder of a record reads is written by this, as it stands in GOLDEN.
ENCODE: dict[Callable[[bytes], Any], Callable[[Any], bytes]] = {
    decode_message: encode_message,
    decode_queue: lambda value: encode_queue(encode_message(value[0]), value[1], value[4], value[2], *value[3::2]),
    decode_dup: encode_dup,
    decode_pubrel: encode_pubrel,
    decode_retained: lambda value: encode_retained(*value),
    decode_session: encode_session,
    decode_subscription: lambda value: encode_subscription(*value),
    decode_progress: encode_progress,
    decode_segment: encode_segment,
    decode_will: encode_will,
}


def test_fields_that_nobody_reads_any_more_are_passed_over() -> None:
    """Predecessors wrote the number of the next message and the node into a session, QoS and order into a dup entry."""
    written = encode_session(StoredSession("d", 5, 60, 1.5, 2.0, "u", 7)).hex()
    earlier = written.replace("0800000008" + "00" * 8 + "0900000000", "0800000008" + "00" * 7 + "08" + "09000000026e31")
    assert earlier != written
    assert decode_session(bytes.fromhex(earlier)) == decode_session(bytes.fromhex(written))
    assert decode_dup(bytes.fromhex("10 02 0000000000000102 000000000000004d")) == 258
    assert RECEIVED == b"\x10"


@pytest.mark.parametrize(("name", "decode", "value", "sample"), GOLDEN, ids=NAMES)
def test_a_sample_of_version_1_is_read(name: str, decode: Callable[[bytes], Any], value: Any, sample: str) -> None:
    """To the value it stood for."""
    assert decode(bytes.fromhex(sample)) == value


@pytest.mark.parametrize(("name", "decode", "value", "sample"), GOLDEN, ids=NAMES)
def test_this_version_writes_version_1(name: str, decode: Callable[[bytes], Any], value: Any, sample: str) -> None:
    """Byte for byte; when this is to change, the samples stay and this test gets its own."""
    assert ENCODE[decode](value).hex() == bytes.fromhex(sample).hex()


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
    assert decode_queue(bytes.fromhex("11 21 0007 0003 aabbcc") + message) == (PLAIN, 1, False, (), 7, False)
    with_identifier = bytes.fromhex("11 31 0007 0009 0001 00000005 aabbcc") + message
    assert decode_queue(with_identifier) == (PLAIN, 1, False, (5,), 7, False)


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
    tagged = decode in {decode_session, decode_subscription, decode_will, decode_progress}
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
    st.tuples(st.just(decode_message), messages),
    st.tuples(
        st.just(decode_queue),
        st.tuples(
            messages,
            st.integers(0, 2),
            st.booleans(),
            st.lists(st.integers(1, 268_435_455), max_size=5).map(tuple),
            st.integers(0, 65535),
            st.booleans(),
        ),
    ),
    st.tuples(st.sampled_from([decode_dup, decode_pubrel]), u64),
    st.tuples(st.just(decode_retained), st.tuples(messages, u64, u64)),
    st.tuples(
        st.just(decode_session),
        st.builds(
            StoredSession,
            names,
            st.sampled_from([3, 4, 5]),
            st.integers(0, 2**32 - 1),
            st.floats(0, 1e12),
            st.none() | st.floats(0, 1e12),
            st.none() | names,
            u64,
            st.none() | names,
        ),
    ),
    st.tuples(
        st.just(decode_subscription),
        st.tuples(
            st.builds(
                Subscription,
                names,
                st.integers(0, 2),
                st.booleans(),
                st.booleans(),
                st.integers(0, 2),
                st.none() | st.integers(1, 268_435_455),
            ),
            st.dictionaries(st.integers(0, 255), st.integers(1, 2**64 - 1), max_size=3),
        ),
    ),
    st.tuples(
        st.just(decode_will),
        st.builds(
            StoredWill,
            st.builds(Will, messages, st.integers(0, 2**32 - 1), st.none() | st.integers(0, 2**32 - 1)),
            st.none() | st.floats(0, 1e12),
        ),
    ),
)


@given(values)
def test_what_is_written_is_read(case: tuple[Callable[[bytes], Any], Any]) -> None:
    """Any value of any record."""
    decode, value = case
    assert decode(ENCODE[decode](value)) == value


def test_no_client_id_reaches_into_another_ones_entries() -> None:
    """Also where one id is the beginning of another, or looks like its key."""
    ids = ["", "a", "ab", "\x00", "\x00\x00", "a\x00", "\x00\x01a", "\u00fc", "x" * 255, "x" * 256, "x" * 65535]
    for mine in ids:
        key = keys.queue_key(keys.client_prefix(mine), 1)
        owners = [other for other in ids if key.startswith(keys.client_prefix(other))]
        assert owners == [mine]
        assert keys.split_prefix(key) == (mine, bytes(7) + b"\x01")


@given(st.lists(u64, min_size=2, max_size=20))
def test_queue_keys_sort_by_sequence(sequences: list[int]) -> None:
    """So a page is the oldest part of a queue."""
    prefix = keys.client_prefix("c")
    found = sorted(keys.queue_key(prefix, sequence) for sequence in sequences)
    assert [keys.sequence_of(key) for key in found] == sorted(sequences)


def test_a_packet_key_holds_its_packet_id() -> None:
    """Two bytes behind the client's prefix."""
    key = keys.packet_key(keys.client_prefix("c"), 0xFFFE)
    assert key == b"\x00\x01c\xff\xfe"
    assert keys.packet_id_of(key) == 0xFFFE


def test_other_keys_are_what_they_name() -> None:
    """Sessions and wills by client id, subscriptions by client and filter, retained messages by topic."""
    assert keys.session_key("\u00fc") == b"\xc3\xbc"
    assert keys.subscription_key(keys.client_prefix("c"), "a/#") == b"\x00\x01ca/#"
    assert keys.retained_key(b"a/b") == b"a/b"


def test_the_place_in_ones_own_log_is_one_of_all() -> None:
    """What a node of a cluster wrote is read as a place like the others; only writer 0 has fields of its own."""
    written = StoredProgress(7, (StoredPast(IN_LOG, 1, 2),), (), 2, (StoredPlace(3, 8),))
    read = decode_progress(encode_progress(written))
    assert read.places() == (StoredPlace(0, 0), StoredPlace(2, 7, written.past), StoredPlace(3, 8))
    older = base.read_fields(encode_progress(StoredProgress(7, (), (), 0, (StoredPlace(3, 8),))))
    assert older[1] == (7).to_bytes(8, "big")
