"""Batches of mixed topics: both twins cut them at the same places, and write them in the same forms."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest

from iot_mqtt.codec import PublishBatch, encode_publish
from iot_mqtt.codec.scan import build
from iot_mqtt.native import IN_ORDER, _pure
from tests.cases.twins import MODULES
from tests.seeds import seeds_of

TWINS = pytest.mark.skipif(len(MODULES) < 2, reason="there is only one of them")
LIMIT = 200


class Route:
    """What a topic may have."""

    def __init__(self, alone: object) -> None:
        self.alone = alone
        self.above: object = self
        self.retained: object = KEPT


class Kept:
    """What several routes may have above QoS 0."""

    alone = None

    @property
    def above(self) -> object:
        return self

    retained = above


KEPT = Kept()
ONE, TWO, TOGETHER = Route("x"), Route("y"), Route(None)
AGAIN = Route(ONE.alone)
TWO.above = TOGETHER.above = KEPT


def routes() -> dict[bytes, Any]:
    """Some routes, and topics without any."""
    known = {b"t/%d" % number: (ONE if number < 4 else TWO) for number in range(8)}
    known |= {b"t/8": TOGETHER, b"t/9": AGAIN}
    return defaultdict(lambda: None, known)


def wire(rng: Random, *, five: bool) -> bytes:
    """What a client may send, and what it may not: some are too long, cut off, or have no packet id."""
    found = b""
    for _ in range(rng.randrange(14)):
        found += encode_publish(
            rng.choice((b"t/%d" % rng.choice((0, 1, 4, 5, 6, *range(11))), b"a" * 150, b"t/1")),
            bytes(rng.choice((rng.randrange(30), rng.randrange(300)))),
            five=five,
            qos=rng.choice((0, 0, 1, 2)),
            retain=rng.random() < 0.1,
            dup=False,
            packet_id=rng.choice((0, 1, 2, 77)),
            properties=b"" if rng.random() < 0.8 else b"\x01\x01",
        )
    return found[: rng.randrange(len(found) + 1)] if rng.random() < 0.3 else found


def told(items: list[Any]) -> list[Any]:
    """Everything that is to be the same."""
    names = ("head", "five", "wire", "count", "ids", "longest", "route", "topic")
    return [tuple(getattr(item, name, None) for name in names) for item in items]


@TWINS
@pytest.mark.parametrize("seed", seeds_of("batch twins", 30))
def test_the_twins_agree(seed: int) -> None:
    """On what is a batch, and on its bytes in every form."""
    rng = Random(seed)
    scanners = [build(module.Scanner) for module in MODULES.values()]
    for _ in range(20):
        five = rng.random() < 0.5
        data, mode = wire(rng, five=five), (3 if five else 2) | rng.choice((0, 0, IN_ORDER))
        allowed = None if rng.random() < 0.5 else {b"t/%d" % one: rng.random() < 0.8 for one in range(10)}
        found: list[list[Any]] = [[], []]
        ends = [scanner.scan(data, 0, found[n], LIMIT, mode, routes(), allowed) for n, scanner in enumerate(scanners)]
        assert ends[0] == ends[1]
        assert told(found[0]) == told(found[1])
        for batch in found[0]:
            if isinstance(batch, PublishBatch):
                agree_on(batch)


def agree_on(batch: PublishBatch) -> None:
    """Every form of it."""
    for block in (b"", b"\0", b"\x02\x0b\x05"):
        for ids in ([], list(range(5, 5 + batch.count))):
            head = 0x32 if ids else 0x30
            forms = {
                module.rewrite(batch.data, batch.begin, batch.count, batch.five, head, block, ids)
                for module in MODULES.values()
            }
            assert len(forms) == 1


def scanned(data: bytes, **options: Any) -> list[Any]:
    """By the twin that is always there."""
    found: list[Any] = []
    build(_pure.Scanner).scan(data, 0, found, LIMIT, 2, **options)
    return found


def publish(topic: bytes, payload: bytes, *, qos: int = 0, packet_id: int = 0, retain: bool = False) -> bytes:
    """One packet of 3.1.1."""
    return encode_publish(
        topic, payload, five=False, qos=qos, retain=retain, dup=False, packet_id=packet_id, properties=b""
    )


def test_a_batch_ends_where_the_route_does() -> None:
    """Not where the topic does; what has no route is a run as ever, and what is retained is of another class."""
    data = (
        publish(b"t/1", b"1")
        + publish(b"t/2", b"22")
        + publish(b"t/8", b"3")
        + publish(b"t/x", b"4")
        + publish(b"t/1", b"5", retain=True)
    )
    items = scanned(data, routes=routes())
    assert [(type(item).__name__, item.count) for item in items] == [
        ("PublishBatch", 2),
        ("PublishBatch", 1),
        ("PublishRun", 1),
        ("PublishBatch", 1),
    ]
    assert b"".join(item.wire for item in items) == data


def test_routes_that_have_nothing_to_do_with_each_other_are_gathered() -> None:
    """In the order in which they begin; where one may have something to do with an earlier one it ends."""
    one, two = publish(b"t/1", b"1"), publish(b"t/4", b"2")
    items = scanned(one + two + one + two + two + one + publish(b"t/9", b"3") + one, routes=routes())
    assert [(item.route, item.count) for item in items] == [(ONE, 3), (TWO, 3), (AGAIN, 1), (ONE, 1)]
    assert items[0].wire == one * 3


def test_acknowledgements_are_owed_in_order() -> None:
    """So nothing is gathered above QoS 0."""
    data = b"".join(publish(b"t/%d" % (one % 2 * 4), b"", qos=1, packet_id=one) for one in range(1, 5))
    assert [item.ids for item in scanned(data, routes=routes())] == [[1], [2], [3], [4]]


def test_a_topic_that_is_none_is_left_to_the_readers() -> None:
    """The table is asked only for what may be a topic."""
    asked: list[bytes] = []

    class Table(dict[bytes, Any]):
        def __missing__(self, topic: bytes) -> str:
            asked.append(topic)
            return "one"

    assert not scanned(publish(b"a/#", b"1"), routes=Table())
    assert not scanned(b"\x30\x02\x00\x00", routes=Table())
    assert not asked
    assert [item.count for item in scanned(publish(b"a/b", b"1"), routes=Table())] == [1]
    assert asked == [b"a/b"]
