"""Messages of packets, and their records: both twins make the same of them."""

from __future__ import annotations

from random import Random

import pytest

from iot_mqtt.codec import encode_publish
from iot_mqtt.codec.scan import build_messages
from iot_mqtt.grid.records.message import decode_message
from iot_mqtt.native import HAVE_NATIVE, _pure, _pure_records
from iot_mqtt.values import Message
from tests.cases.table import picture
from tests.cases.twins import MODULES
from tests.seeds import seeds_of

TWINS = pytest.mark.skipif(len(MODULES) < 2, reason="there is only one of them")
WALL = 1_700_000_000.25
BLOCKS = [b"", picture("02 0000003c"), picture("03 'text'") + picture("02 00000001"), picture("26 'a' '°'")]


def packets(rng: Random, *, five: bool) -> tuple[bytes, int]:
    """Packets of one first byte, and how many."""
    qos, retain = rng.randrange(3), rng.random() < 0.9
    topics = [b"a", b"a/b", "ä/°".encode(), b"x" * 200]
    if rng.random() < 0.1:
        topics.append(b"$a")
    parts = [
        encode_publish(
            rng.choice(topics),
            bytes(rng.choice((1, 3, 150)) if rng.random() < 0.98 else 0),
            five=five,
            qos=qos,
            retain=retain,
            dup=False,
            packet_id=number if qos else 0,
            properties=rng.choice(BLOCKS) if five else b"",
        )
        for number in range(1, rng.randrange(1, 8) + 1)
    ]
    return b"".join(parts), len(parts)


@TWINS
@pytest.mark.parametrize("seed", seeds_of("messages of packets", 200))
def test_twins_make_the_same_messages(seed: int) -> None:
    """Wherever in the data they begin, and also what none are made of."""
    from iot_mqtt.native import _scan

    rng = Random(seed)
    five = rng.random() < 0.5
    wire, count = packets(rng, five=five)
    before = rng.randbytes(rng.randrange(3))
    found = [
        build_messages(module.Messages).last(before + wire + b"0", len(before), count, five, "mé", WALL)
        for module in (_pure, _scan)
    ]
    assert found[0] == found[1]
    if found[0] is not None:
        messages, size = found[0]
        assert list(messages) == [message.topic for message in messages.values()]
        assert size >= sum(message.size for message in messages.values())


def test_the_last_of_a_topic_counts() -> None:
    """With what it carries: its own properties, and the time from which it expires."""
    wire = b"".join(
        encode_publish(topic, payload, five=True, qos=1, retain=True, dup=False, packet_id=1, properties=block)
        for topic, payload, block in [(b"a", b"1", BLOCKS[2]), (b"b", b"2", b""), (b"a", b"33", BLOCKS[1])]
    )
    expected = {
        b"a": Message(b"a", b"33", 1, retain=True, expires_at=WALL + 60, publisher="p"),
        b"b": Message(b"b", b"2", 1, retain=True, publisher="p"),
    }
    for module in MODULES.values():
        assert build_messages(module.Messages).last(wire, 0, 3, True, "p", WALL) == (expected, 7 + len("text") + 3)


@pytest.mark.parametrize(("topic", "payload"), [(b"a", b""), (b"$a", b"1")])
def test_a_removal_and_a_system_topic_are_not_for_all_at_once(topic: bytes, payload: bytes) -> None:
    """The caller has to look at each."""
    wire = b"".join(
        encode_publish(*one, five=False, qos=0, retain=True, dup=False, packet_id=0, properties=b"")
        for one in [(b"x", b"1"), (topic, payload)]
    )
    for module in MODULES.values():
        assert build_messages(module.Messages).last(wire, 0, 2, False, "p", WALL) is None


@pytest.mark.skipif(not HAVE_NATIVE, reason="there is only one of them")
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("expires_at", [None, 0.0, WALL])
def test_twins_write_the_same_record(qos: int, expires_at: float | None) -> None:
    """Which is read back as it was."""
    from iot_mqtt.native import _records

    message = Message(
        "°/x".encode(), bytes(300), qos, retain=qos == 1, properties=BLOCKS[3], expires_at=expires_at, publisher="mé"
    )
    record = _records.message_record(b"before", message)
    assert record == _pure_records.message_record(b"before", message)
    assert decode_message(record, 6) == message


@pytest.mark.skipif(not HAVE_NATIVE, reason="there is only one of them")
def test_what_no_record_can_hold_is_refused() -> None:
    """A length of two bytes has a limit."""
    from iot_mqtt.native import _records

    with pytest.raises(ValueError, match="65536 bytes"):
        _records.message_record(b"", Message(bytes(65_536), b""))
