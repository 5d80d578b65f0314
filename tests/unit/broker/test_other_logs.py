"""Opening the logs of other nodes, beside everything else that goes on."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from iot_mqtt.broker.cluster.other_logs import OtherLogs
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.errors import Unavailable
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.log import Followed


class OwnLog:
    """Of node 1."""

    writer = 1


class Reader:
    """Of a log that ended there when the grid was asked."""

    def __init__(self, writer: int, end: int) -> None:
        self.writer = writer
        self.end = end
        self.announced = 0
        self.looks = 0

    async def note_drops(self) -> None:
        self.looks += 1

    def announce(self, end: int) -> None:
        self.announced = max(self.announced, end)
        self.end = max(self.end, end)


class Opening:
    """Readers that come when the test says so; what became of them is in ``logs``."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Deferred[Followed]]] = []
        #: The end of a reader at the moment when everybody learns of it.
        self.ends: list[int] = []
        self.logs = Logs(OwnLog(), lambda reader: self.ends.append(reader.end))  # type: ignore[arg-type]
        self.clock = ManualClock()
        self.others = OtherLogs(self.logs, self.clock, self._follow)

    async def _follow(self, number: int) -> Followed:
        waiting: Deferred[Followed] = Deferred()
        self.asked.append((number, waiting))
        return await waiting

    def opened(self, end: int) -> None:
        number, waiting = self.asked.pop(0)
        waiting.callback(Reader(number, end))  # type: ignore[arg-type]


def test_what_is_announced_while_a_log_is_opened_is_known_with_it() -> None:
    """The grid may have been asked before that was written, and it was offered when nobody was there to take it."""
    opening = Opening()
    opening.others.follow(2)
    opening.others.announce(2, 70)
    opening.others.announce(2, 60)
    opening.opened(50)
    assert opening.ends == [70]
    opening.others.announce(2, 80)
    assert opening.logs.others[2].end == 80


def test_one_that_cannot_be_opened_is_tried_until_it_can() -> None:
    """And is asked for once, however often it is wanted meanwhile."""
    opening = Opening()
    for _ in range(3):
        opening.others.follow(2)
    assert len(opening.asked) == 1
    opening.asked.pop()[1].errback(Unavailable("the grid does not answer"))
    assert not opening.asked
    opening.clock.advance(10.0)
    opening.opened(50)
    assert opening.ends == [50]


def test_the_own_log_is_nobody_elses() -> None:
    """It is there, and is not followed."""
    opening = Opening()
    opening.others.follow(1)
    assert not opening.asked


def test_what_was_dropped_is_noted_in_each_log_of_others() -> None:
    """Their nodes tell nobody."""
    opening = Opening()
    readers = [Reader(number, 0) for number in (2, 3)]
    for reader in readers:
        opening.logs.add(reader)  # type: ignore[arg-type]
    done = Deferred.fromCoroutine(opening.logs.note_drops())
    assert done.called
    assert [reader.looks for reader in readers] == [1, 1]
