"""Topics as people look at them: the busiest ones, the tree of those that are known, the last value of one.

Nobody looks, as a rule, so nothing is counted: the handlers of PUBLISH are what they always are. Who asks puts a
counting one before each for a minute. Of many messages a second a part is counted, at random, each for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

from iot_mqtt.admin.topic_resources import Branch, BusyTopic, LastValue
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.dispatch import Handler
from iot_mqtt.broker.kept_session import SESSIONS
from iot_mqtt.codec import PublishBatch, PublishRun, RunBatch, runs_of
from iot_mqtt.metrics.topic_flow import Rate, TopicFlow
from iot_mqtt.ports.clock import Clock
from iot_mqtt.values import Message

#: Seconds that are counted after a question.
ARMED: Final = 60.0
#: Packets, or runs and batches of them, that are counted each in a second; of those beyond them one of so many.
EXACT: Final = 256
SAMPLE: Final = 8
#: Topics whose last value is kept, and bytes of it.
KEPT: Final = 32
LONGEST: Final = 4_096
#: Retained topics that a search looks at.
RETAINED: Final = 5_000

Retained = Callable[[str, bytes | None, int], list[Message]]


class TopicDesk:
    """Of one node. ``broker`` and ``retained`` are there once it has started."""

    def __init__(self, broker: Callable[[], Composition], retained: Callable[[], Retained], clock: Clock) -> None:
        self._broker = broker
        self._retained = retained
        self._clock = clock
        self._flow = TopicFlow(clock.monotonic())
        self._plain: dict[type, Handler] = {}
        self._kept: dict[bytes, LastValue | None] = {}
        self._until = 0.0
        self._second = self._seen = self._next = 0
        self._random = Random(1)

    def seconds(self) -> float:
        """How long it has been counted; it goes on for a while from now."""
        self._arm()
        return self._flow.seconds(self._clock.monotonic())

    def busiest(self, by: str, limit: int) -> list[BusyTopic]:
        """The first ones."""
        self._arm()
        weigh: Callable[[Rate], float] = (lambda one: -one.bytes) if by == "bytes" else (lambda one: -one.messages)
        found = sorted(self._flow.rates(self._clock.monotonic()), key=lambda one: (weigh(one), one.topic))
        return list(map(self._busy, found[:limit]))

    def _busy(self, rate: Rate) -> BusyTopic:
        match = self._broker().routing.routes.match(rate.topic)
        receivers: list[Any] = [route.receiver for route in match.plain]
        sessions = sum(one.__class__ in SESSIONS for one in receivers)
        return BusyTopic(
            rate.topic.decode("utf-8", "replace"),
            rate.messages,
            rate.bytes,
            rate.missed,
            rate.publishers,
            sessions + len(match.shared),
            sessions < len(receivers),
        )

    def below(self, prefix: str, after: str | None, limit: int) -> list[Branch]:
        """Levels behind a prefix, which is empty or ends with ``/``, by name; those behind ``after`` (a topic)."""
        self._arm()
        start = prefix.encode()
        found: dict[bytes, Branch] = {}
        for topic, messages, size in self._known():
            if topic.startswith(start):
                name, slash, _ = topic[len(start) :].partition(b"/")
                branch = _branch(found, start + name)
                branch.topics += 1
                branch.deeper |= bool(slash)
                branch.leaf |= not slash
                branch.messages_per_second += messages
                branch.bytes_per_second += size
        for topic in self._retained_below(start, after, limit):
            name, slash, _ = topic[len(start) :].partition(b"/")
            branch = _branch(found, start + name)
            branch.deeper |= bool(slash)
            branch.retained |= not slash
            branch.leaf |= not slash
        behind = None if after is None else after.encode()
        # "$SYS" and the like are found by whoever names them [MQTT-4.7.2-1].
        keys = [key for key in found if (behind is None or key > behind) and (start or not key.startswith(b"$"))]
        return [found[key] for key in sorted(keys)[:limit]]

    def containing(self, words: Iterable[str], after: str | None, limit: int) -> list[Branch]:
        """Topics that have all of these in them, whatever the case of their letters; those behind ``after``."""
        self._arm()
        wanted = [word.casefold() for word in words]
        found: dict[bytes, Branch] = {}
        for topic, messages, size in self._known():
            if _has(topic, wanted):
                branch = _branch(found, topic)
                branch.topics, branch.leaf = 1, True
                branch.messages_per_second, branch.bytes_per_second = messages, size
        for message in self._retained()("#", None, RETAINED):
            if _has(message.topic, wanted):
                branch = _branch(found, message.topic)
                branch.topics, branch.leaf, branch.retained = 1, True, True
        behind = None if after is None else after.encode()
        return [found[key] for key in sorted(key for key in found if behind is None or key > behind)[:limit]]

    def last(self, topic: str) -> LastValue | None:
        """The last value of a topic that came since somebody asks for it, else the retained one."""
        self._arm()
        key = topic.encode()
        kept = self._kept.pop(key, None)
        while len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = kept
        if kept is not None:
            return kept
        found = self._retained()(topic, None, 1)
        if not found:
            return None
        message = found[0]
        return LastValue("retained", None, message.qos, message.publisher, len(message.payload), _cut(message.payload))

    def _known(self) -> Iterator[tuple[bytes, float, float]]:
        """Topics that something was published to, as far as routes are remembered, with their rates."""
        rates = {one.topic: one for one in self._flow.rates(self._clock.monotonic())}
        for one in rates.values():
            yield one.topic, one.messages, one.bytes
        for topic in self._broker().routing.routes.classes:
            if topic not in rates:
                yield topic, 0.0, 0.0

    def _retained_below(self, start: bytes, after: str | None, limit: int) -> Iterator[bytes]:
        """One retained topic of each level, found by seeking."""
        page, filter = self._retained(), f"{start.decode()}#"
        cursor = None if after is None else after.encode()
        for _ in range(2 * limit + 2):
            found = page(filter, cursor, 1)
            if not found:
                return
            topic = found[0].topic
            if topic.startswith(start):
                yield topic
                name, slash, _ = topic[len(start) :].partition(b"/")
                # No text has this byte in it: behind all that is below.
                cursor = start + name + b"/\xff" if slash else topic
            else:
                # The filter finds what is before its last slash, too.
                cursor = topic

    # Counting.

    def _arm(self) -> None:
        """Count for a while from now on."""
        self._until = self._clock.monotonic() + ARMED
        if self._plain:
            return
        self._flow = TopicFlow(self._clock.monotonic())
        handlers = self._broker().inbound.handlers
        self._plain = {kind: handlers[kind] for kind in (PublishRun, PublishBatch, RunBatch) if kind in handlers}
        for kind, handler in self._plain.items():
            handlers[kind] = partial(self._serve, handler)

    def _disarm(self) -> None:
        self._broker().inbound.handlers.update(self._plain)
        self._plain = {}
        self._kept.clear()

    def _serve(self, handler: Handler, connection: Connection, item: Any) -> None:
        """What was handed on counts, and nothing that was refused or has to wait."""
        session, counters = connection.session, self._broker().counters
        before = counters.messages_received
        handler(connection, item)
        count = min(counters.messages_received - before, item.count)
        now = self._clock.monotonic()
        if now >= self._until:
            self._disarm()
        elif count > 0 and session is not None:
            weight = self._weight(int(now))
            if weight or self._kept:
                runs = runs_of(item) if isinstance(item, PublishBatch | RunBatch) else (item,)
                self._note(now, session.client_id, runs, count, weight)

    def _note(self, now: float, publisher: str, runs: Iterable[PublishRun], count: int, weight: int) -> None:
        for run in runs:
            if count <= 0:
                return
            taken = min(count, run.count)
            count -= taken
            if weight:
                size = len(run.wire) * taken // run.count
                self._flow.note(now, run.topic, taken * weight, size * weight, publisher)
            if run.topic in self._kept:
                payload = run.payloads()[taken - 1]
                self._kept[run.topic] = LastValue(
                    "watched", self._clock.wall(), run.qos, publisher, len(payload), _cut(payload)
                )

    def _weight(self, second: int) -> int:
        """For how many what comes now counts; 0: for none. At random, so that no order of clients matters."""
        if second != self._second:
            self._second, self._seen, self._next = second, 0, EXACT
        self._seen += 1
        if self._seen <= EXACT:
            return 1
        if self._seen < self._next:
            return 0
        self._next = self._seen + self._random.randrange(1, 2 * SAMPLE)
        return SAMPLE


def _branch(found: dict[bytes, Branch], topic: bytes) -> Branch:
    branch = found.get(topic)
    if branch is None:
        branch = found[topic] = Branch(topic.decode("utf-8", "replace"))
    return branch


def _has(topic: bytes, words: list[str]) -> bool:
    text = topic.decode("utf-8", "replace").casefold()
    return all(word in text for word in words)


def _cut(payload: bytes) -> bytes:
    return bytes(payload[:LONGEST])
