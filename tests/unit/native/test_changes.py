"""A batch of the grid on its way to the disk: both twins make the same of it."""

from __future__ import annotations

from random import Random
from struct import pack
from typing import Any
from zlib import crc32

import pytest

from iot_mqtt import native
from iot_mqtt.grid.commit_record import decode, records
from iot_mqtt.grid.tags import TAGS
from iot_mqtt.native import _pure_changes
from iot_mqtt.ports.grid import CacheName
from tests.seeds import seeds_of

SALT = b"salt-123"
Operation = tuple[CacheName, bytes, bytes | None]


def twins() -> list[Any]:
    """The pure one, and the compiled one where it is there."""
    modules: list[Any] = [_pure_changes]
    if native.HAVE_NATIVE:
        from iot_mqtt.native import _changes

        modules.append(_changes)
    return modules


def operations(rng: Random) -> list[Operation]:
    """Keys come again, also as what is removed; sizes from nothing to some pages."""
    caches = rng.sample(list(CacheName), k=3)
    return [
        (
            rng.choice(caches),
            rng.choice((b"", b"k%d" % rng.randrange(20), rng.randbytes(rng.randrange(40)))),
            None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 1, 100, 70_000))),
        )
        for _ in range(rng.randrange(30))
    ]


@pytest.mark.parametrize("seed", seeds_of("changes", 20))
def test_a_later_operation_takes_the_place_of_an_earlier_one(seed: int) -> None:
    """In the order in which each key came first."""
    batch = operations(Random(seed))
    expected: dict[bytes, bytes | None] = {}
    for cache, key, value in batch:
        expected[TAGS[cache] + key] = value
    for twin in twins():
        for kind in (list, tuple):
            changes: dict[bytes, bytes | None] = {}
            assert twin.merge(changes, kind(batch), TAGS) == sum(len(value or b"") for _, _, value in batch)
            assert list(changes.items()) == list(expected.items())


@pytest.mark.parametrize("seed", seeds_of("records of changes", 20))
def test_a_record_says_what_the_batch_is(seed: int) -> None:
    """The same bytes from both, and read back they are what was put in."""
    rng = Random(seed)
    changes: dict[bytes, bytes | None] = {}
    _pure_changes.merge(changes, operations(rng), TAGS)
    prefixes = [rng.randbytes(rng.randrange(9)) for _ in range(rng.randrange(4))]
    lsn = rng.choice((0, 1, rng.randrange(1 << 64)))
    made = {twin.record(SALT, lsn, changes, prefixes) for twin in twins()}
    (record,) = made
    (found,) = records(record, SALT)
    assert (found.lsn, found.end, *decode(found.body)) == (lsn, len(record), changes, prefixes)


def test_a_record_is_written_as_it_always_was() -> None:
    """What earlier versions wrote is read by this one, and the other way round."""
    body = pack("<II", 1, 2) + pack("<IIIII", 2, 3, 1, 4, 0xFFFFFFFF) + b"pp" + b"one" + b"2" + b"four"
    head = pack("<QI", 7, len(body))
    expected = SALT + head + pack("<I", crc32(body, crc32(head))) + body
    for twin in twins():
        assert twin.record(SALT, 7, {b"one": b"four", b"2": None}, [b"pp"]) == expected


def test_each_change_is_made_once() -> None:
    """And what has no value is removed."""
    for twin in twins():
        made: dict[bytes, bytes] = {b"b": b"0"}
        twin.put_all({b"a": b"1", b"b": None, b"c": b""}, made.__setitem__, made.pop)
        assert made == {b"a": b"1", b"c": b""}


@pytest.mark.parametrize("wrong", [[(CacheName.LOG, "key", b"")], [(CacheName.LOG, b"key", 7)], [(CacheName.LOG,)]])
def test_what_is_no_operation_is_refused(wrong: Any) -> None:
    """Instead of being written as one."""
    for twin in twins():
        with pytest.raises((TypeError, ValueError)):
            twin.merge({}, wrong, TAGS)


@pytest.mark.parametrize("wrong", [{"key": b""}, {b"key": 7}, {7: b""}])
def test_what_is_no_change_is_refused(wrong: Any) -> None:
    """As above."""
    for twin in twins():
        with pytest.raises((TypeError, ValueError)):
            twin.record(SALT, 1, wrong, [])
