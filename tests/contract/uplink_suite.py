"""What anything must do that the uplink feeds: take records in order, say what is safe, and lose nothing it said was.

Subclass ``SinkSuite`` and define ``kit``: a fresh place to write to, seen through ``SinkKit``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.uplink import Place, Record, Sink
from tests.contract.driving import Pump

SPOOL = "0.0a1b2c3d"
#: A moment of some day, in milliseconds.
CAME = 1_790_000_000_000


class SinkKit(Protocol):
    """One place to write to; ``make`` gives it another sink, as a start of the process would."""

    pump: Pump

    def make(self) -> Sink: ...

    def finish(self) -> None:
        """Let pass what makes the sink make safe what it has."""
        ...

    def read(self) -> list[tuple[str, bytes]]:
        """Topic and value of all that can be read, in order for each topic."""
        ...

    def break_it(self) -> None:
        """Nothing can be written from now on."""
        ...

    def repair(self) -> None: ...


def record(position: int, topic: str = "t", size: int = 0) -> Record:
    value = b'{"n":%d,"fill":"%s"}' % (position, b"x" * size)
    return Record(topic, "device", value, (("node", b"n1"),), CAME, position)


class Feed:
    """A sink and what it has said."""

    def __init__(self, kit: SinkKit) -> None:
        self.kit = kit
        self.sink = kit.make()
        self.told: list[tuple[int, BaseException | None]] = []
        self.made_ready = 0
        self.sink.ready = self._ready

    def _ready(self) -> None:
        self.made_ready += 1

    def open(self, position: int = 0, spool: str = SPOOL) -> int:
        async def opened() -> int:
            return await self.sink.open(Place(spool, position))

        return self.kit.pump.run(opened())

    def send(self, number: int, *records: Record) -> bool:
        return self.sink.send(records, lambda error: self.told.append((number, error)))

    def wait(self, condition: Callable[[], bool]) -> None:
        self.kit.pump.until(condition)

    def close(self) -> None:
        async def closed() -> None:
            await self.sink.close()

        self.kit.pump.run(closed())

    @property
    def safe(self) -> list[int]:
        return [number for number, error in self.told if error is None]


class SinkSuite:
    """Subclass, and define the fixture ``kit``."""

    @pytest.fixture
    def kit(self) -> SinkKit:
        raise NotImplementedError

    def test_records_can_be_read_in_order_once_they_are_safe(self, kit: SinkKit) -> None:
        """Each once, in the topic it belongs to, and batches are told of in the order they were sent in."""
        feed = Feed(kit)
        assert feed.open() == 0
        for number in range(10):
            feed.send(number, record(number * 2, "a"), record(number * 2 + 1, "b"))
        kit.finish()
        feed.wait(lambda: len(feed.told) == 10)
        assert feed.told == [(number, None) for number in range(10)]
        found = kit.read()
        assert [value for topic, value in found if topic == "a"] == [record(n * 2).value for n in range(10)]
        assert [value for topic, value in found if topic == "b"] == [record(n * 2 + 1).value for n in range(10)]
        feed.close()

    def test_closing_makes_safe_what_was_sent(self, kit: SinkKit) -> None:
        """And says so before it is closed."""
        feed = Feed(kit)
        feed.open()
        feed.send(0, record(0), record(1))
        feed.close()
        assert feed.safe == [0]
        assert len(kit.read()) == 2

    def test_who_says_nothing_more_has_not_promised_anything(self, kit: SinkKit) -> None:
        """Killed: what was not said to be safe is sent again by the next life, and is there once."""
        feed = Feed(kit)
        feed.open()
        feed.send(0, record(0), record(1))
        kit.finish()
        feed.wait(lambda: bool(feed.told))
        feed.send(1, record(2), record(3))
        feed.sink.abandon()
        after = Feed(kit)
        begin = after.open(0)
        assert begin <= 2
        rest = [record(number) for number in range(begin, 5)]
        after.send(0, *rest)
        after.close()
        assert sorted({value for _, value in kit.read()}) == [record(number).value for number in range(5)]

    def test_what_cannot_be_written_is_told_and_can_be_sent_again(self, kit: SinkKit) -> None:
        """Every batch that is not safe hears of it, ``trouble`` says why, and ``open`` begins anew."""
        feed = Feed(kit)
        feed.open()
        kit.break_it()
        with pytest.raises(Unavailable):
            feed.open()
        assert feed.sink.trouble
        kit.repair()
        assert feed.open() == 0
        assert feed.sink.trouble is None
        feed.send(7, record(0))
        feed.close()
        assert feed.safe == [7]

    def test_who_sends_too_much_is_told_to_wait_and_when_to_go_on(self, kit: SinkKit) -> None:
        """Memory is bounded whatever comes."""
        feed = Feed(kit)
        feed.open()
        sent = 0
        while feed.send(sent, *(record(sent * 10 + n, size=100_000) for n in range(10))):
            sent += 1
            assert sent < 10_000, "it never has enough"
        kit.finish()
        feed.wait(lambda: feed.made_ready > 0)
        feed.close()
        assert len(feed.safe) == sent + 1
