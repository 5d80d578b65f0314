"""Batches of mixed topics: both twins cut them at the same places, and write them in the same forms."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest

from iot_mqtt.broker.connections.verdicts import Permitted, Room
from iot_mqtt.codec import PublishBatch, encode_publish, runs_of
from iot_mqtt.codec.scan import build
from iot_mqtt.native import IN_ORDER, _pure
from iot_mqtt.topics import Effort, Routes
from tests.cases.table import picture
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


class Table(defaultdict[bytes, Any]):
    """Some of the routes; or all of them, and then it may say so."""

    def __init__(self, rng: Random) -> None:
        self.classes = routes()
        self.free = b"t/" if rng.random() < 0.3 else b""
        share = 1.0 if self.free else 0.8
        super().__init__(lambda: None, {topic: one for topic, one in self.classes.items() if rng.random() < share})


def by_form(rng: Random) -> list[Any]:
    """For every form of PUBLISH some of them."""
    return [Table(rng) for _ in range(8)]


@TWINS
def test_what_is_free_is_looked_up_in_the_routes() -> None:
    """And nothing else is: not what begins otherwise, goes on with a level, or ends there."""
    table = Table(Random(0))
    table.clear()
    table.classes = defaultdict(lambda: ONE)
    table.free = b"t/"
    native = build(next(module for name, module in MODULES.items() if module is not _pure).Scanner)
    for topic, batched in ((b"t/new", True), (b"t/", False), (b"t/a/b", False), (b"u/new", False), (b"t", False)):
        items: list[Any] = []
        data = encode_publish(topic, b"x", five=True, qos=0, retain=False, dup=False, packet_id=0, properties=b"")
        native.scan(data, 0, items, LIMIT, 3, [table] * 8)
        assert isinstance(items[0], PublishBatch) is batched, topic


@pytest.mark.parametrize("twin", MODULES)
@pytest.mark.parametrize("by_rights", [False, True])
def test_what_nothing_is_left_to_look_up_for_is_in_no_batch(twin: str, by_rights: bool) -> None:
    """Known topics are, and the others later."""
    table: Routes[Any] = Routes()
    effort = Effort(1)
    table.bound(effort)
    forms = [Permitted(table.classes, Everything(), form, Room()) for form in range(8)]  # type: ignore[arg-type]
    data = b"".join(
        encode_publish(topic, b"x", five=True, qos=0, retain=False, dup=False, packet_id=0, properties=b"")
        for topic in (b"a", b"b", b"c", b"a")
    )
    scanner = build(MODULES[twin].Scanner)
    items: list[Any] = []
    assert scanner.scan(data, 0, items, LIMIT, 3, forms if by_rights else table.classes) == len(data)
    assert [getattr(item, "topic", None) for item in items] == [None, b"b", b"c", None]
    assert effort.left < 0
    effort.left = 10_000
    items.clear()
    scanner.scan(data, 0, items, LIMIT, 3, forms if by_rights else table.classes)
    assert [item.count for item in items] == [4]


class Everything:
    """Rights to it, topic by topic."""

    def forms(self, _: str) -> int:
        return 255

    def beside(self, _: str) -> int:
        return 0


#: One property each, or a part of one: right and passed on, right but for the broker to look at, wrong.
PROPERTIES = [
    picture(one)
    for one in (
        *("01 00", "01 01", "02 0000003c", "03 'text'", "08 'a/b'", "09 0003 00ff23", "26 'a' 'b'", "26 '' ''"),
        *("03 0002 c3a4", "08 0002 c3a4", "26 0002 c3a4 'x'", "09 0000", "03 ''"),
        *("23 0001", "0b 05", "01 02", "03 0001 00", "03 0001 ff", "08 'a/#'", "08 '+'", "08 ''", "26 'a' 0001 00"),
        *("26 'a'", "09 0005 00", "02 0000", "01", "03 00", "11 00000001", "24 01", "a6 00", "00", "3f", "41", "7f 00"),
    )
]


def properties(rng: Random) -> bytes:
    """None, most often; the same again; some of all."""
    if rng.random() < 0.5:
        return b""
    good = PROPERTIES[:13]
    kinds = rng.choice((good[:1], good, good, PROPERTIES))
    return b"".join(rng.choice(kinds) for _ in range(rng.choice((1, 1, 2, 3, 30))))


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
            properties=properties(rng),
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
        topics = routes() if rng.random() < 0.5 else by_form(rng)
        found: list[list[Any]] = [[], []]
        ends = [scanner.scan(data, 0, found[n], LIMIT, mode, topics) for n, scanner in enumerate(scanners)]
        assert ends[0] == ends[1]
        assert told(found[0]) == told(found[1])
        for batch in found[0]:
            if isinstance(batch, PublishBatch):
                agree_on(batch)


def agree_on(batch: PublishBatch) -> None:
    """Every form of it."""
    packets = [packet for run in runs_of(batch) for packet in run.packets()]
    blocks = [run.raw_properties for run in runs_of(batch) for _ in run.ids or range(run.count)]
    for five, identifiers in ((False, b""), (True, b""), (True, b"\x0b\x05"), (True, b"\x0b\x05" * 70)):
        for ids in ([], list(range(5, 5 + batch.count))):
            head = 0x32 if ids else 0x30
            forms = {
                module.rewrite(batch.data, batch.begin, batch.count, batch.five, head, five, identifiers, ids)
                for module in MODULES.values()
            }
            assert forms == {
                b"".join(
                    encode_publish(
                        packet.topic,
                        packet.payload,
                        five=five,
                        qos=1 if ids else 0,
                        retain=False,
                        dup=False,
                        packet_id=5 + number,
                        properties=identifiers + block,
                    )
                    for number, (packet, block) in enumerate(zip(packets, blocks, strict=True))
                )
            }


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


@pytest.mark.parametrize("raw", PROPERTIES)
def test_properties_that_are_passed_on_are_in_a_batch(raw: bytes) -> None:
    """All but an alias, an identifier, and what is wrong: those are for somebody to look at."""
    data = encode_publish(b"t/1", b"x", five=True, qos=0, retain=False, dup=False, packet_id=0, properties=raw)
    for module in MODULES.values():
        found: list[Any] = []
        end = build(module.Scanner).scan(data, 0, found, LIMIT, 3, routes())
        kinds = [type(item).__name__ for item in found]
        if raw in PROPERTIES[:13]:
            assert kinds == ["PublishBatch"]
        else:
            assert kinds == (["PublishRun"] if raw[0] == 0x23 else [])
        assert end == (len(data) if found else 0)


@TWINS
@pytest.mark.parametrize("seed", seeds_of("alias twins", 30))
def test_the_twins_agree_on_aliases(seed: int) -> None:
    """On what is written anew, where that ends, and what the aliases stand for."""
    rng = Random(seed)
    for _ in range(20):
        data = b"".join(wire(rng, five=True) for _ in range(3))
        at = rng.choice((0, 0, rng.randrange(len(data) + 1)))
        known: dict[int, bytes] = {} if rng.random() < 0.5 else {1: b"known"}
        most = rng.choice((1000, 1000, 5, 4, 0))
        found = []
        for module in MODULES.values():
            names = dict(known)
            found.append((module.named(data, at, names, 1, LIMIT, most), names))
        assert found[0] == found[1]
