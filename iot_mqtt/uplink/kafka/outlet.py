"""What the sink's thread does: batches into the producer in order, reports out of it, one turn after the other.

Nothing here waits for long: what has to wait (for room, for a topic, for all that was sent before) is a step of
``_feed``, which gives up the turn and goes on in a later one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from iot_mqtt.ports.uplink import MadeTopic, Place, Record, Rejected
from iot_mqtt.uplink.kafka.client import Report, error_of, let_go, make_producer
from iot_mqtt.uplink.kafka.lone import REJECTED, TOO_LARGE, Lone, Steps
from iot_mqtt.uplink.kafka.narrow import CHARACTER, NARROW, Narrow, Waiting, beside
from iot_mqtt.uplink.kafka.settings import KafkaSettings
from iot_mqtt.uplink.kafka.topics import MAKING_AGAIN_SECONDS, MAKING_SECONDS, Absent, Topics
from iot_mqtt.uplink.kafka.watch import Watch

log = logging.getLogger(__name__)

#: A first answer has to come within this.
OPEN_SECONDS = 2.5
#: Between two questions for a topic that is not there, and for a Kafka that is not.
AGAIN_SECONDS = 1.0
#: Records between two looks at the library's reports; other threads may run then.
STRIDE = 128
LEAST_BATCH_BYTES = 1024
#: Rejected batches that are remembered; what is forgotten is rejected again.
MAX_SUSPECTS = 1000
#: Refused names that are remembered; what is forgotten is asked for again.
MAX_REFUSED = 10_000

#: What a report says of what was forgotten with something else.
_GONE = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL, KafkaError._GAPLESS_GUARANTEE)


class Unready(Exception):
    """It cannot be opened now, and why."""


class Turn(NamedTuple):
    """What came out of a turn."""

    #: Batches that are safe now.
    safe: int
    #: Everything else is forgotten; why.
    failed: str | None


class Bad(NamedTuple):
    """A record that the library could not deliver."""

    batch: Batch
    error: KafkaError
    topic: str


class Batch:
    """Records that were sent together."""

    __slots__ = ("records", "first", "last", "since", "over", "_bad")

    def __init__(self, records: Sequence[Record], since: float, bad: list[Bad]) -> None:
        self.records = records
        self.first, self.last = records[0].position, records[-1].position
        self.since = since
        self.over = False
        self._bad = bad

    def failed(self, error: KafkaError, message: Message) -> None:
        self._bad.append(Bad(self, error, message.topic() or ""))

    def end(self) -> None:
        self.over = True


class Outlet:
    """One Kafka, for one log. ``now`` is a monotonic clock."""

    def __init__(self, settings: KafkaSettings, now: Callable[[], float]) -> None:
        self._settings = settings
        self._now = now
        self.watch = Watch(",".join(settings.bootstrap_servers), now)
        self._topics = Topics(settings)
        self._batch_bytes = settings.batch_bytes
        self._spool = ""
        self._producer: Producer | None = None
        self._lone = Lone(settings, self._asked, self._topics, self.watch, now)
        self._narrow = Narrow(self._make, self._lone, settings.batch_bytes)
        self._fresh = False
        self.is_open = False
        #: Why it could not be opened.
        self._refusal: str | None = None
        self._waiting: deque[Batch] = deque()
        self._unsafe: deque[Batch] = deque()
        self._feeding: Iterator[bool] = iter(())
        self._more = False
        self._wrong: KafkaError | None = None
        #: Errors of records, with their batches.
        self._bad: list[Bad] = []
        #: Positions, first and last, of batches that were rejected for one record in them.
        self._suspects: list[tuple[int, int]] = []
        #: Names of templates that Kafka cannot have, and why.
        self._refused: dict[MadeTopic, str] = {}
        self._given = self._gone = 0
        self._look_at = 0.0

    @property
    def patience(self) -> float:
        """How long nothing has to be done, unless something is put."""
        if self._more:
            return 0.0
        if self._lone.busy:
            # What is behind it waits for the answer.
            return 0.001
        return 0.01 if self._unsafe else 0.25

    @property
    def dead(self) -> int:
        """Records that went to the dead letters."""
        return self._lone.dead

    @property
    def dropped(self) -> int:
        """Records that could not even go there."""
        return self._lone.dropped

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """The last of both."""
        return self._lone.rejected

    @property
    def notes(self) -> tuple[str, ...]:
        """What is in nobody's way and needs a person all the same, in words."""
        if not self._refused:
            return ()
        topic, why = next(reversed(self._refused.items()))
        text = (
            f"Kafka refuses {len(self._refused)} names that templates of uplink.rules make; what is for them goes to "
            f"the topic 'other' of their rule. The last: {why}; it goes to {topic.other}"
        )
        return (text,)

    @property
    def busy(self) -> bool:
        return bool(self._unsafe)

    # Beginning and end.

    def open(self, place: Place) -> int:
        """Begin at a place. ``Unready`` says why not."""
        try:
            self._open(place)
        except Unready as problem:
            self._refusal = str(problem)
            raise
        self._refusal, self.is_open = None, True
        self._feeding = self._feed()
        return place.position

    def _open(self, place: Place) -> None:
        self.is_open = False
        if not self._fresh:
            self.drop()
        self._topics.forget()
        self._refused.clear()
        if place.spool != self._spool:
            self._spool, self._suspects = place.spool, []
        self._suspects = [(first, last) for first, last in self._suspects if last >= place.position]
        try:
            producer = self._producer = self._producer or self._make(self._batch_bytes)
        except KafkaException as error:
            raise Unready(f"uplink.kafka: {error_of(error).str()}") from None
        self._fresh = True
        try:
            producer.list_topics(timeout=OPEN_SECONDS)
        except KafkaException as error:
            self._poll(producer, 0)
            self._wrong = None
            why = self.watch.trouble(None) or self.watch.unreachable()
            servers = ",".join(self._settings.bootstrap_servers)
            raise Unready(why or f"Kafka at {servers} does not answer: {error_of(error).str()}") from None
        self.watch.answered()

    def _make(self, batch_bytes: int) -> Producer:
        return make_producer(self._settings, self.watch, gapless=True, batch_bytes=batch_bytes)

    def drop(self) -> None:
        """Forget everything that is under way."""
        if self._producer is not None:
            let_go(self._producer)
        self._producer = None
        self._lone.drop()
        self._narrow.drop()
        self._waiting.clear()
        self._unsafe.clear()
        self._feeding, self._more, self._fresh, self.is_open = iter(()), False, False, False
        self._wrong = self.watch.waiting_for = None
        self._bad = []
        self._given = self._gone = 0

    # Turns.

    def put(self, records: Sequence[Record]) -> None:
        """Take a batch; nothing is taken that was not opened for."""
        if self.is_open:
            self._fresh = False
            batch = Batch(records, self._now(), self._bad)
            self._waiting.append(batch)
            self._unsafe.append(batch)

    def turn(self, wait: float = 0) -> Turn:
        """Do what can be done, after ``wait`` seconds at most."""
        producer = self._producer
        if producer is None:
            return Turn(0, None)
        self._poll(producer, wait)
        if self._wrong is None:
            self._more = next(self._feeding, False)
            self._more = self._narrow.step() or self._more
        self._wrong = self._wrong or self._lone.wrong or self._narrow.wrong
        self._see_progress(producer)
        safe = 0
        unsafe = self._unsafe
        bad = self._bad
        while unsafe and unsafe[0].over and not (bad and any(one.batch is unsafe[0] for one in bad)):
            unsafe.popleft()
            safe += 1
        return Turn(safe, self._give_up() if bad or self._wrong is not None else None)

    def trouble(self) -> str | None:
        """What is in the way now."""
        if not self.is_open:
            return self._refusal or self.watch.failed
        return self.watch.trouble(self._unsafe[0].since if self._unsafe else None)

    def look(self) -> None:
        """Nothing is under way that would show whether Kafka is back: ask."""
        if (
            self._producer is not None
            and self.is_open
            and self.watch.needs_a_look
            and not self._unsafe
            and self._now() >= self._look_at
        ):
            self._look_at = self._now() + AGAIN_SECONDS
            try:
                self._producer.list_topics(timeout=AGAIN_SECONDS / 2)
            except KafkaException:
                return
            self._poll(self._producer, 0)
            self.watch.answered()

    def _poll(self, producer: Producer, wait: float) -> None:
        self._lone.poll()
        self._narrow.poll()
        while True:
            try:
                producer.poll(wait)
                return
            except KafkaException as error:
                # Fatal. The reports behind it still come, and say which record it was.
                self._wrong = self._wrong or error_of(error)
                wait = 0

    def _see_progress(self, producer: Producer) -> None:
        gone = self._given - len(producer) - len(self._narrow) + self._lone.sent
        if gone > self._gone:
            self._gone = gone
            self.watch.moved()

    def fail(self, why: str) -> str:
        """Forget what is not safe, for a reason that is a trouble until something is taken again."""
        self.watch.failed = why
        self.drop()
        return why

    def _give_up(self) -> str:
        """Forget what is not safe, and say why."""
        rejected = [one for one in self._bad if one.error.code() in REJECTED]
        others = [one for one in self._bad if one.error.code() not in (*REJECTED, *_GONE)]
        if rejected:
            # One record of these is why. They go one by one next time, and smaller batches may be what it takes.
            found = {(one.batch.first, one.batch.last) for one in rejected}
            self._suspects = [*self._suspects, *found][-MAX_SUSPECTS:]
            if rejected[0].error.code() in TOO_LARGE:
                self._batch_bytes = max(LEAST_BATCH_BYTES, self._batch_bytes // 2)
            # What to do about it is known, so this is no trouble.
            self.drop()
            return f"Kafka has rejected a batch for topic {rejected[0].topic}: {rejected[0].error.str()}"
        if others:
            return self.fail(f"Kafka has rejected records for topic {others[0].topic}: {others[0].error.str()}")
        return self.fail(f"Kafka takes no more: {self._wrong.str() if self._wrong is not None else 'no reason given'}")

    # Feeding.

    def _feed(self) -> Steps:
        """Hand the records of batch after batch to the producer."""
        room: dict[str, int] = self._topics.limits
        while True:
            while not self._waiting:
                yield False
            batch = self._waiting.popleft()
            report = Report(batch.failed, batch.end)
            producer = self._current()
            named: object = None
            headers: list[tuple[str, str | bytes | None]] = []
            around = 0
            careful = self._is_suspect(batch)
            count = 0
            for record in batch.records:
                topic, key, value, with_names, timestamp, _ = record
                limit = room.get(topic)
                if limit is None:
                    topic = yield from self._taker(topic)
                    record = record._replace(topic=topic)
                    producer, limit = self._current(), room[topic]
                if with_names is not named:
                    named, headers, around = with_names, list(with_names), beside(with_names)
                if limit < NARROW or careful or len(value) + len(key) * CHARACTER + around > limit:
                    yield from self._apart(Waiting(record, limit, report, self._spool, careful))
                    continue
                while True:
                    try:
                        producer.produce(topic, value, key, -1, report, None, timestamp, headers)
                        break
                    except BufferError:
                        yield False
                    except (TypeError, ValueError):
                        yield from self._alone(record)
                        self._given -= 1
                        break
                    except KafkaException as error:
                        self._wrong = error_of(error)
                        yield False
                self._given += 1
                count += 1
                if not count % STRIDE:
                    self._poll(producer, 0)
            batch.records = ()
            del report
            yield True

    def _is_suspect(self, batch: Batch) -> bool:
        """Whether it has records of one that was rejected."""
        return any(first <= batch.last and batch.first <= last for first, last in self._suspects)

    def _current(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _taker(self, topic: str) -> Generator[bool, None, str]:
        """The topic that takes what is for this one, when it is there."""
        while topic not in self._topics.limits:
            if isinstance(topic, MadeTopic) and topic in self._refused:
                topic = topic.other
            else:
                yield from self._learn(topic)
                while len(self._topics.limits) == 1 and (len(self._current()) or len(self._narrow)):
                    # All others were forgotten: what is narrow from now on may not have been, and has to stay in order.
                    yield False
                yield from self._fit_batches()
        return topic

    def _learn(self, topic: str) -> Steps:
        """Wait until a topic is there, or until it is known that it never will be and another one takes its records."""
        began = self._now()
        while (absent := self._asked(topic)) is not None:
            if absent.refused and isinstance(topic, MadeTopic):
                self._refuse(topic, absent.why)
                break
            is_told = absent.for_good and (self._settings.create_topics or self._now() - began >= MAKING_SECONDS)
            if is_told:
                self.watch.waiting_for = absent.why
            again = self._now() + (AGAIN_SECONDS if is_told else MAKING_AGAIN_SECONDS)
            while self._now() < again:
                yield False
        self.watch.waiting_for = None

    def _refuse(self, topic: MadeTopic, why: str) -> None:
        if len(self._refused) >= MAX_REFUSED:
            self._refused.clear()
        self._refused[topic] = why
        log.warning("%s; what is for it goes to %s", why, topic.other)

    def _asked(self, topic: str) -> Absent | None:
        try:
            return self._topics.ask(self._current(), topic)
        except KafkaException as error:
            return Absent(f"topic {topic} cannot be asked for: {error_of(error).str()}", for_good=False)

    def _fit_batches(self) -> Steps:
        """A batch must not be larger than the smallest of the topics takes, but for the narrow ones."""
        dead = self._settings.dead_letters
        limits = [limit for topic, limit in self._topics.limits.items() if topic != dead and limit >= NARROW]
        least = min(limits, default=self._batch_bytes)
        if least < self._batch_bytes:
            self._batch_bytes = least
            yield from self._empty()
            self._producer = self._make(least)

    def _empty(self) -> Steps:
        """Wait until nothing is under way."""
        while len(self._current()):
            yield False

    def _apart(self, waiting: Waiting) -> Steps:
        """What is for a narrow topic waits for nobody but others of these; what is not goes alone."""
        if waiting.limit < NARROW:
            self._narrow.put(waiting)
            self._given += 1
        else:
            yield from self._alone(waiting.record)

    def _alone(self, record: Record) -> Steps:
        """Send a record with nothing before or behind it under way, but what is for narrow topics."""
        yield from self._empty()
        yield from self._lone.send(record, self._spool)
