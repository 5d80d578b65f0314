"""The data platform of a simulated world, and each node's way to it; what was promised about what goes up.

    up       a message was acknowledged, and in the end the platform does not have it; or, where acknowledgements wait
             for the platform, it did not have it then
    up twice a message at QoS 2 has two ids
    up order a record came behind one that is after it in the same log
    up who   a record that nobody has sent, or that is of no rule; or a subscriber got what only the platform gets

It is as Kafka is to the broker: it takes what one connection sends in its order. A connection that breaks may have
brought more than is known at its other end.
"""

from __future__ import annotations

import json
import random
from base64 import b64decode
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.uplink import Done, Place, Record, Rejected
from iot_mqtt.topics import matches
from iot_mqtt.uplink.rules import rules_of
from tests.simulation.ledger import Broken, Ledger, Sent
from tests.simulation.messaging import NodeClock
from tests.simulation.speed import Speed

#: Nobody but the platform gets these.
ONLY: Final = "only/1"
RULES: Final = rules_of([{"filter": "a/#"}, {"filter": "only/#", "mode": "only"}])[0]
#: Batches that a connection takes before it says that it has enough.
MOST: Final = 3
#: How likely it is that a batch which was under way when the connection broke has come, or some of it.
CAME: Final = 0.5


class Platform:
    """One per world that has one. ``waits``: nodes acknowledge what goes up when it is here."""

    def __init__(self, clock: ManualClock, rng: random.Random, *, waits: bool) -> None:
        self.clock = clock
        self.rng = rng
        self.waits = waits
        self.speed = Speed()
        self.away = False
        self.connections: list[PlatformSink] = []
        self.happened: Counter[str] = Counter()
        #: What its publisher calls a message → the ids that it came with.
        self._ids: defaultdict[bytes, set[str]] = defaultdict(set)
        #: Log → how far it has come; and the records that it has.
        self._furthest: defaultdict[str, int] = defaultdict(int)
        self._records: set[str] = set()

    def go_away(self) -> None:
        """All connections break, and none can be made."""
        self.away = True
        for connection in self.connections:
            connection.break_off()

    def take(self, records: Sequence[Record]) -> None:
        """They are here now."""
        for record in records:
            said = json.loads(record.value)
            id, name = said["id"], b64decode(said["payload_b64"])
            spool, _, position = id.rpartition("-")
            if id in self._records:
                self.happened["records again"] += 1
            elif int(position) < self._furthest[spool]:
                raise Broken(f"up order: {name!r} with the id {id} came when that log was at {self._furthest[spool]}")
            else:
                self.happened["records up"] += 1
                self._furthest[spool] = int(position)
                self._records.add(id)
                self._ids[name].add(id)

    # What was promised.

    def acknowledged(self, sent: Sent) -> None:
        """PUBACK or PUBREC came."""
        if self.waits and goes_up(sent.topic) and sent.name not in self._ids:
            raise Broken(f"up: {sent} is acknowledged before it is there")

    def missing(self, ledger: Ledger) -> list[Sent]:
        """What is to come."""
        return [
            sent
            for sent in ledger.sent.values()
            if sent.acknowledged and goes_up(sent.topic) and sent.name not in self._ids
        ]

    def close(self, ledger: Ledger) -> None:
        """At the end."""
        missing = self.missing(ledger)
        if missing:
            raise Broken(f"up: the platform never got {len(missing)} messages, the first: {missing[0]}")
        for name, ids in self._ids.items():
            sent = ledger.sent.get(name)
            if sent is None or not goes_up(sent.topic):
                raise Broken(f"up who: {name!r} has come, and is {sent}")
            if sent.qos == 2 and len(ids) > 1:
                raise Broken(f"up twice: {sent} has come as {sorted(ids)}")
        for account in ledger.accounts.values():
            for name in account.came:
                if name in ledger.sent and ledger.sent[name].topic == ONLY:
                    raise Broken(f"up who: a subscriber got {ledger.sent[name]}")


def goes_up(topic: str) -> bool:
    """By the rules."""
    return any(matches(rule.filter, topic) for rule in RULES)


class _Batch(NamedTuple):
    """Under way, or here and not answered."""

    records: Sequence[Record]
    done: Done


class PlatformSink:
    """One connection (``ports.uplink.Sink``)."""

    kind = "platform"
    gathers = False

    def __init__(self, platform: Platform, clock: NodeClock) -> None:
        self.trouble: str | None = None
        self.lacks_room = False
        self.notes: tuple[str, ...] = ()
        self.dead = self.dropped = 0
        self.rejected: Sequence[Rejected] = ()
        self.ready: Callable[[], None] = _nobody
        self._platform = platform
        self._clock = clock
        #: Another number for each time that it was made; what belongs to an earlier one does not happen.
        self._number = 0
        self._up = self._full = False
        self._coming: deque[_Batch] = deque()
        self._unanswered: deque[_Batch] = deque()
        #: Nothing overtakes anything.
        self._latest = 0.0
        self._closing: Deferred[None] | None = None
        platform.connections.append(self)

    # For the node.

    async def open(self, place: Place) -> int:
        """See the port, as for all of these."""
        self._forget("it is opened anew")
        opening: Deferred[None] = Deferred()
        self._later(partial(self._opened, self._number, opening))
        await opening
        return place.position

    def send(self, records: Sequence[Record], done: Done) -> bool:
        batch = _Batch(records, done)
        if not self._up:
            self._coming.append(batch)
            self._soon(partial(self._forget, "the connection is broken"))
            return True
        self._coming.append(batch)
        self._later(partial(self._comes, self._number))
        self._full = len(self._coming) + len(self._unanswered) >= MOST
        return not self._full

    def close(self) -> Deferred[None]:
        closing: Deferred[None] = Deferred()
        self._closing = closing
        self._look_closed()
        return closing

    def abandon(self) -> None:
        """What is under way gets there, and nobody is told."""
        self.ready = _nobody

    # What happens to it.

    def break_off(self) -> None:
        """Now; its node hears of it when it runs. More may have come than it knows."""
        platform = self._platform
        while self._coming and platform.rng.random() < CAME:
            batch = self._coming.popleft()
            came = platform.rng.randint(1, len(batch.records))
            platform.take(batch.records[:came])
            self._unanswered.append(batch)
            if came < len(batch.records):
                break
        self._number += 1
        self._up = False
        self._clock.arrive(partial(self._forget, "the connection is broken"))

    def _opened(self, number: int, opening: Deferred[None]) -> None:
        if opening.called:
            return
        if number != self._number or self._platform.away:
            self._clock.arrive(partial(self._refused, opening))
            return
        self._up = True
        self._clock.arrive(partial(self._is_open, opening))

    def _is_open(self, opening: Deferred[None]) -> None:
        self.trouble = None
        opening.callback(None)

    def _refused(self, opening: Deferred[None]) -> None:
        self.trouble = "the platform is away"
        opening.errback(Unavailable(self.trouble))

    def _comes(self, number: int) -> None:
        """The oldest of what is under way."""
        if number == self._number:
            batch = self._coming.popleft()
            self._platform.take(batch.records)
            self._unanswered.append(batch)
            self._later(lambda: self._clock.arrive(partial(self._answered, number)))

    def _answered(self, number: int) -> None:
        if number != self._number or not self._unanswered:
            return
        self._unanswered.popleft().done(None)
        if self._full and len(self._coming) + len(self._unanswered) < MOST:
            self._full = False
            self.ready()
        self._look_closed()

    def _forget(self, why: str) -> None:
        """Nothing that is not answered is known to be safe."""
        batches = [*self._unanswered, *self._coming]
        self._number += 1
        self._up = self._full = False
        self._unanswered.clear()
        self._coming.clear()
        for batch in batches:
            batch.done(Unavailable(why))
        self._look_closed()

    def _look_closed(self) -> None:
        closing = self._closing
        if closing is not None and not (self._coming or self._unanswered):
            self._closing = None
            closing.callback(None)

    def _later(self, call: Callable[[], None]) -> None:
        platform = self._platform
        speed, now = platform.speed, platform.clock.monotonic()
        self._latest = max(self._latest, now + platform.rng.uniform(speed.least, speed.most))
        platform.clock.call_later(self._latest - now, call)

    def _soon(self, call: Callable[[], None]) -> None:
        self._clock.call_later(0.0, call)


def _nobody() -> None:
    """The reader puts its own there."""
