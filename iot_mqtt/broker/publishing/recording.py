"""What goes into the node's log: what a reader wants, once however many do, and what is kept in any case."""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.budget import Budget, Pause
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.publishing.steps import Step
from iot_mqtt.broker.turn import Turn
from iot_mqtt.codec import PublishRun
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.log import Log, LogRun, sizes
from iot_mqtt.topics import matches, prefixes_of
from iot_mqtt.values import Origin


class Recording:
    """Appends to the log, and has the room that it takes weighed."""

    __slots__ = ("_log", "_clock", "_budget")

    def __init__(self, log: Log, clock: Clock, budget: Budget) -> None:
        self._log = log
        self._clock = clock
        self._budget = budget

    @property
    def full(self) -> bool:
        """There is no room for what need not be kept."""
        return self._budget.full

    def record(self, publication: Publication, *, only_up: bool = False) -> LogRun:
        """Put a publication into the log, unless it is there. ``only_up``: it is not for subscribers."""
        logged = publication.logged
        if logged is None:
            origin = publication.origin._replace(only_up=True) if only_up else publication.origin
            logged = publication.logged = self._log.append(
                publication.run, publication.topic, publication.publisher, self._clock.wall(), origin
            )
            self._budget.added(len(publication.run.wire))
        return logged

    def record_row(self, publications: Sequence[Publication]) -> bool:
        """The same for several that came together and are in no log; False if the room for them has to be weighed one
        after the other.
        """
        first = publications[0]
        row = self.append_row([publication.run for publication in publications], first.publisher, first.origin)
        if row is None:
            return False
        for publication, logged in zip(publications, row, strict=True):
            publication.logged = logged
        return True

    def append_row(self, runs: Sequence[PublishRun], publisher: str, origin: Origin) -> list[LogRun] | None:
        """The same with runs, each with its topic; None if their room has to be weighed one after the other."""
        size = sizes(runs)[1]
        if self._budget.full or not self._budget.takes(size):
            return None
        row = self._log.append_row(runs, publisher, self._clock.wall(), origin)
        self._budget.added(size)
        return row


class KeptForReplays(Step):
    """The step of topics that are logged whether or not somebody durable wants them now: acknowledged when they are."""

    __slots__ = ("_filters", "_recording", "_budget", "_counters", "_turn")

    def __init__(
        self, filters: Sequence[str], recording: Recording, budget: Budget, counters: Counters, turn: Turn
    ) -> None:
        self._filters = filters
        self._recording = recording
        self._budget = budget
        self._counters = counters
        self._turn = turn

    @property
    def prefixes(self) -> tuple[bytes, ...]:
        return prefixes_of(self._filters)

    def concerns(self, topic: bytes) -> bool:
        name = topic.decode()
        return any(matches(filter, name) for filter in self._filters)

    @property
    def recorded(self) -> Sequence[str]:
        return self._filters

    def records(self, topic: bytes, qos: int) -> bool:
        return True

    def after(self, publication: Publication, outcome: Outcome) -> None:
        if publication.logged is None:
            if self._budget.full:
                self._counters.messages_refused[Pause.DISK_FULL] += publication.count
            else:
                self._recording.record(publication)
                # Nobody waits for the commit of QoS 0, and it is to come all the same.
                outcome.ticket = self._turn.reserve(soon=publication.qos > 0)
