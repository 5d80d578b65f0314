"""What one client publishes, on its way through the gates that it has to pass.

::

    read ─▶ as much as passes ─▶ served
              the rest is held, and the socket not read, until every gate lets it go on

Nothing but PUBLISH is counted. Who has no limit has no flow.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import ceil, inf
from typing import Final, NamedTuple, Protocol

from iot_mqtt.broker.connections.gates import Gate
from iot_mqtt.broker.publishing.batches import flattened
from iot_mqtt.broker.publishing.budget import Budget, Held, Pause
from iot_mqtt.codec import PublishBatch, PublishRun, RunBatch
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.ports.counters import Counters

logger = logging.getLogger(__name__)

#: What is counted.
PUBLISHES: Final = (PublishRun, PublishBatch, RunBatch)
#: Times that a client is held off between two lines of the log about it.
LINES_APART: Final = 1000


class Way(NamedTuple):
    """A gate, and what counts there: bytes, or messages."""

    gate: Gate
    in_bytes: bool
    #: Whoever has to wait there is disconnected.
    disconnects: bool = False


class Publisher(Held, Protocol):
    """A connection whose client publishes."""

    closed: bool
    stash: list[object] | None

    def fail(self, error: MqttError) -> None: ...

    def who(self) -> dict[str, str | None]: ...


class Flow:
    """Of one connection. ``serve`` is what its packets go to."""

    __slots__ = ("credits", "ways", "_budget", "_connection", "_counters", "_held", "_serve", "_waits")

    def __init__(
        self,
        connection: Publisher,
        serve: Callable[[list[object]], None],
        ways: Sequence[Way],
        budget: Budget,
        counters: Counters,
    ) -> None:
        #: A ``gates.Waits``.
        self.credits: dict[Gate, float] = {}
        self.ways = ways
        self._connection = connection
        self._serve = serve
        self._budget = budget
        self._counters = counters
        #: Those in whose lines it stands.
        self._waits: set[Gate] = set()
        #: How often it had to wait.
        self._held = 0

    def read(self, items: list[object]) -> None:
        """Packets came, or those that were held go on."""
        connection = self._connection
        if self._waits:
            self._budget.pause(connection, Pause.RATE, items)
            return
        while items:
            passing, items = self._cut(items)
            if passing:
                self._serve(passing)
            if connection.closed:
                return
            stash = connection.stash
            if stash is not None:
                # What has to wait for something else is counted when it goes on.
                self._charge(*_weight(stash, -1))
                connection.hold(items)
                break
            if items and self._stops(items):
                break
        for way in self.ways:
            way.gate.settle(self)

    def released(self, gate: Gate) -> None:
        """It may go on, as far as this gate is concerned."""
        self._waits.discard(gate)
        if not self._waits:
            self._budget.go_on(self._connection, Pause.RATE)
            gate.settle(self)

    def use(self, ways: Sequence[Way]) -> None:
        """These are its gates from now on; none: the connection is gone, or nothing is said of its client."""
        kept = {way.gate for way in ways}
        for gate in {way.gate for way in self.ways} - kept:
            self._waits.discard(gate)
            gate.leave(self)
        self.ways = ways
        if not self._waits and not self._connection.closed:
            self._budget.go_on(self._connection, Pause.RATE)

    def _cut(self, items: list[object]) -> tuple[list[object], list[object]]:
        """What passes, which is counted, and what does not."""
        messages, size = self._room()
        first, first_size = messages, size
        passing: list[object] = []
        left = deque(items)
        while left:
            item = left[0]
            if not isinstance(item, PUBLISHES):
                passing.append(left.popleft())
                continue
            if messages <= 0 or size <= 0:
                break
            count, bytes_ = item.count, _size(item)
            if (count < messages + 1 and bytes_ <= size) or count == 1 or isinstance(item, RunBatch):
                passing.append(left.popleft())
            elif isinstance(item, PublishBatch):
                left.popleft()
                left.extendleft(reversed(flattened([item])))
                continue
            else:
                some = min(count, ceil(min(messages, size * count / bytes_)))
                passing.append(part := item.part(0, some))
                count, bytes_ = some, _size(part)
                if some == item.count:
                    left.popleft()
                else:
                    left[0] = item.part(some, item.count)
            messages -= count
            size -= bytes_
        if first < inf:
            self._charge_messages(first - messages)
        if first_size < inf:
            self._charge_bytes(first_size - size)
        return passing, list(left)

    def _room(self) -> tuple[float, float]:
        messages = size = inf
        for way in self.ways:
            room = way.gate.room(self)
            if way.in_bytes:
                size = min(size, room)
            else:
                messages = min(messages, room)
        return messages, size

    def _charge(self, messages: float, size: float) -> None:
        self._charge_messages(messages)
        self._charge_bytes(size)

    def _charge_messages(self, messages: float) -> None:
        for way in self.ways:
            if not way.in_bytes and messages:
                way.gate.charge(self, messages)

    def _charge_bytes(self, size: float) -> None:
        for way in self.ways:
            if way.in_bytes and size:
                way.gate.charge(self, size)

    def _stops(self, rest: list[object]) -> bool:
        """There is more than may pass; False: by now it may."""
        connection = self._connection
        for way in self.ways:
            if way.gate.room(self) > 0.0:
                continue
            self._counters.limited[way.gate.kind] += 1
            rate = f"{way.gate.kind} of {way.gate.rate:g} a second"
            self._counters.recent.note(connection.who()["client"] or "", "limited", detail=rate)
            if way.disconnects:
                connection.fail(MqttError("publishes faster than it may", ReasonCode.MESSAGE_RATE_TOO_HIGH))
                return True
            self._waits.add(way.gate)
            if self._held % LINES_APART == 0:
                limit = {"limit": way.gate.kind, "rate": way.gate.rate}
                logger.info("a publisher is held off: it sends more than it may", extra=connection.who() | limit)
        if not self._waits:
            return False
        self._held += 1
        self._budget.pause(connection, Pause.RATE, rest)
        for gate in self._waits:
            gate.join(self)
        return True


def _size(item: PublishRun | PublishBatch | RunBatch) -> int:
    if isinstance(item, RunBatch):
        return item.size
    return item.end - item.begin if isinstance(item, PublishBatch) else len(item.wire)


def _weight(items: Iterable[object], sign: int) -> tuple[int, int]:
    found = [item for item in items if isinstance(item, PUBLISHES)]
    return sign * sum(item.count for item in found), sign * sum(map(_size, found))
