"""Pages of the log, read by both twins: the same runs, and None for the same pages."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

import pytest

from iot_mqtt import native
from iot_mqtt.codec import Decoder, Publish, PublishRun, encode, page_reader
from iot_mqtt.codec.properties import Properties
from iot_mqtt.grid.log import page as pages
from iot_mqtt.grid.log.page import NOT_WANTED, DamagedPage, PageDecoder, encode_page
from iot_mqtt.native import _pure_pages
from iot_mqtt.ports.log import TURN_BITS, LogRun, Reference
from iot_mqtt.values import NOBODY, Origin, ProtocolVersion
from tests.seeds import seeds_of

TURN = 77
Read = Callable[..., list[LogRun] | None]


def readers() -> list[Read]:
    """The pure one, and the compiled one where it is there."""
    classes: list[Any] = [_pure_pages.PageReader]
    if native.HAVE_NATIVE:
        from iot_mqtt.native import _scan

        classes.append(_scan.PageReader)
    # The compiled reader needs the compiled scanner.
    pairs = [one for one in classes if native.USE_NATIVE or one is _pure_pages.PageReader]
    return [page_reader(LogRun, Reference, NOBODY, one).read for one in pairs]


def run_of(rng: Random) -> PublishRun:
    """A run of either version, with or without properties."""
    version = rng.choice((ProtocolVersion.V311, ProtocolVersion.V5))
    some = Properties(content_type="text/\u00fc", message_expiry_interval=5)
    carried = some if version is ProtocolVersion.V5 and rng.random() < 0.3 else Properties()
    topic, qos = rng.choice((b"a", b"plant/\xc3\xbc/7")), rng.randrange(3)
    wire = b"".join(
        encode(Publish(topic, rng.randbytes(size), qos, packet_id=at if qos else 0, properties=carried), version)
        for at, size in enumerate(rng.choices((0, 5, 300), k=rng.choice((1, 1, 3))), 1)
    )
    (run,) = Decoder(version=version).feed(wire)
    assert isinstance(run, PublishRun)
    return run


def page_of(rng: Random) -> bytes:
    """A page of some runs."""
    runs, number = [], rng.randrange(5)
    origin = Origin("somebody") if rng.random() < 0.1 else NOBODY
    for _ in range(rng.choice((1, 1, 3))):
        run = run_of(rng)
        reference = Reference(3, 4, TURN << TURN_BITS | number, run.count)
        runs.append(LogRun(reference, run, run.topic, rng.choice(("", "dev-\u00fc")), rng.random(), origin))
        number += run.count
    return encode_page(runs)


def told(run: LogRun) -> tuple[Any, ...]:
    """All there is to a run."""
    one = run.run
    inner = one.head, one.topic, one.raw_properties, one.properties, one.five, one.wire, one.count, list(one.ids)
    outer = run.reference, type(run.reference), run.topic, run.publisher, run.arrived, run.origin
    return *outer, *inner, one.longest, one.prefix


def by(read: Read, page: bytes, wanted: tuple[bytes, ...] = ()) -> list[tuple[Any, ...]] | None:
    found = read(page, 3, 4, TURN << TURN_BITS, wanted)
    return None if found is None else [told(run) for run in found]


@pytest.mark.parametrize("seed", seeds_of("pages", 40))
def test_twins_read_the_same_as_the_long_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole pages, and damaged ones, also where the checksum fits."""
    rng = Random(seed)
    monkeypatch.setattr(pages, "_read_plain", lambda *_: None)
    for _ in range(60):
        page = bytearray(page_of(rng))
        for _ in range(rng.choice((0, 0, 1, 3))):
            page[rng.randrange(len(page))] = rng.randrange(256)
        if rng.random() < 0.3:
            del page[rng.randrange(len(page)) :]
        if len(page) > 9 and rng.random() < 0.8:
            page[1:5] = crc32(page[5:]).to_bytes(4, "big")
        try:
            expected: Any = [told(run) for run in PageDecoder().decode(bytes(page), 3, 4, TURN)]
        except DamagedPage:
            expected = None
        found = [by(read, bytes(page)) for read in readers()]
        assert found.count(found[0]) == len(found)
        assert found[0] is None or found[0] == expected


def test_a_page_is_read_without_the_long_way() -> None:
    """As nearly all are."""
    rng = Random(1)
    plain = [page for page in (page_of(rng) for _ in range(50)) if page[0] == 0x10]
    assert len(plain) > 30
    assert all(by(read, page) for read in readers() for page in plain)


def test_a_page_without_the_topics_that_are_wanted_is_not_decoded() -> None:
    """Where one of them stands in it, all of it is; and a damaged one is told, whatever is wanted."""
    rng = Random(2)
    for page in [page_of(rng) for _ in range(50)]:
        runs = PageDecoder().decode(page, 3, 4, TURN)
        topics, whole = {run.topic for run in runs}, [*map(told, runs)]
        for wanted in ((b"a",), (b"plant/\xc3\xbc/7",), (b"none", b"plant/\xc3\xbc/7"), (b"none/at/all",)):
            long_way = PageDecoder().decode(page, 3, 4, TURN, wanted)
            assert topics.isdisjoint(wanted) if long_way is NOT_WANTED else [*map(told, long_way)] == whole
            assert long_way or b"none/at/all" in wanted or topics.isdisjoint(wanted)
            if page[0] == 0x10:
                assert [by(read, page, wanted) for read in readers()] == [[*map(told, long_way)]] * len(readers())
        spoilt = page[:-1] + bytes((page[-1] ^ 1,))
        assert [by(read, spoilt, (b"none/at/all",)) for read in readers()] == [None] * len(readers())
        with pytest.raises(DamagedPage):
            PageDecoder().decode(spoilt, 3, 4, TURN, (b"none/at/all",))
