"""Records that Kafka may reject: each is sent alone, with nothing for its topic under way before or behind it, and
buried if it is rejected.

It has a producer of its own, which a rejection does not end. Dead letters go the same way. What Kafka rejects for other
reasons than the record itself is ``wrong``, and for the outlet to tell.
"""

from __future__ import annotations

import json
import logging
import re
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException, Producer

from iot_mqtt.ports.uplink import MAX_REJECTED, Record, Rejected
from iot_mqtt.uplink.kafka.client import Report, error_of, let_go, make_producer
from iot_mqtt.uplink.kafka.settings import KafkaSettings
from iot_mqtt.uplink.kafka.topics import MAKING_AGAIN_SECONDS, MAKING_SECONDS, Absent, Topics
from iot_mqtt.uplink.kafka.watch import Watch

log = logging.getLogger(__name__)

#: Kafka says so about a batch, for good, and one record in it is why.
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE)
REJECTED = (*TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP)
#: A dead letter is cut to what its topic takes, and to these parts of that if it is not taken.
_PARTS = (1, 4, 64)
#: Bytes for what a dead letter has beside its value and headers.
_OVERHEAD = 512
#: What is left of its value at least; below that there is no use.
_LEAST = 256
_LONGEST_REASON = 300
#: All messages that go up begin with it.
_MESSAGE_ID = re.compile(rb'\{"id":("(?:[^"\\]|\\.)*")')

#: What goes on in a later turn; True: there is more to do at once.
Steps = Generator[bool, None, None]


class Lone:
    """Sends one record at a time. ``asked`` looks whether a topic is there."""

    def __init__(
        self,
        settings: KafkaSettings,
        asked: Callable[[str], Absent | None],
        topics: Topics,
        watch: Watch,
        now: Callable[[], float],
    ) -> None:
        # Nothing follows that would be worth waiting for.
        self._settings = replace(settings, linger_seconds=0)
        self._asked = asked
        self._topics = topics
        self._watch = watch
        self._now = now
        self._producer: Producer | None = None
        self.wrong: KafkaError | None = None
        #: Records that were answered, well or not, since the last ``drop``.
        self.sent = 0
        self.dead = self.dropped = 0
        self._rejected: deque[Rejected] = deque(maxlen=MAX_REJECTED)

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """The last ones, the newest first."""
        return tuple(self._rejected)

    @property
    def busy(self) -> bool:
        """Whether a record is under way."""
        return self._producer is not None and len(self._producer) > 0

    def poll(self) -> None:
        """Hear what became of it."""
        if self._producer is not None:
            try:
                self._producer.poll(0)
            except KafkaException as error:
                self.wrong = error_of(error)

    def drop(self) -> None:
        """Forget what is under way."""
        if self._producer is not None:
            let_go(self._producer)
        self._producer = self.wrong = None
        self.sent = 0

    def send(self, record: Record, spool: str) -> Steps:
        """Send a record; it is in its topic, in the dead letters, or dropped and told when this is over."""
        if self._producer is None:
            # One to a batch, whatever its size.
            self._producer = make_producer(self._settings, self._watch, gapless=False, batch_bytes=1)
        reason = yield from self._sent(self._producer, record)
        if reason is not None:
            yield from self._bury(self._producer, record, spool, reason)

    def _sent(self, producer: Producer, record: Record) -> Generator[bool, None, str | None]:
        """Send a record and wait; why it was rejected for good."""
        errors: list[KafkaError] = []
        over: list[bool] = []
        report: Report | None = Report(lambda error, _: errors.append(error), lambda: over.append(True))
        topic, key, value, headers, timestamp, _ = record
        try:
            # Hardly anything else waits in it, so there is room.
            producer.produce(topic, value, key, -1, report, None, timestamp, list(headers))
        except (TypeError, ValueError) as error:
            return str(error)
        except KafkaException as error:
            errors.append(error_of(error))
        report = None
        while not over:
            yield False
        self.sent += 1
        if not errors:
            return None
        if errors[0].code() in REJECTED:
            return errors[0].str()
        self.wrong = errors[0]
        while True:
            yield False

    def _bury(self, producer: Producer, record: Record, spool: str, reason: str) -> Steps:
        topic = self._settings.dead_letters
        if not topic:
            self._drop_record(record, spool, reason, "uplink.kafka.dead_letters names no topic")
            return
        began = self._now()
        while topic not in self._topics.limits:
            absent = self._asked(topic)
            if absent is not None and absent.for_good and self._now() - began >= MAKING_SECONDS:
                self._drop_record(record, spool, reason, absent.why)
                return
            again = self._now() + MAKING_AGAIN_SECONDS
            while absent is not None and self._now() < again:
                yield False
        limit, problem = self._topics.limits[topic], None
        for part in _PARTS:
            problem = yield from self._sent(producer, letter(record, spool, topic, reason, limit // part))
            if problem is None:
                self.dead += 1
                self._rejected.appendleft(_rejected(record, spool, reason, topic))
                log.error("Kafka does not take a record, it is in %s now: %s", topic, reason, extra=_where(record))
                return
        self._drop_record(record, spool, reason, f"{topic} does not take it either: {problem}")

    def _drop_record(self, record: Record, spool: str, reason: str, why: str) -> None:
        self.dropped += 1
        self._rejected.appendleft(_rejected(record, spool, f"{reason}; {why}", None))
        log.error("Kafka does not take a record, which is lost: %s; %s", reason, why, extra=_where(record))


def _rejected(record: Record, spool: str, reason: str, kept_in: str | None) -> Rejected:
    size = len(record.value)
    return Rejected(f"{spool}-{record.position}", record.topic, reason, size, record.timestamp / 1000, kept_in)


def _where(record: Record) -> dict[str, object]:
    return {"topic": record.topic, "position": record.position, "size": len(record.value)}


def letter(record: Record, spool: str, topic: str, reason: str, limit: int) -> Record:
    """A record that Kafka will never take, for the topic ``topic`` of dead letters, which takes ``limit`` bytes.

    The value is cut to what fits. Headers say where it should have gone (``original_topic``), why it did not
    (``reason``), how many bytes it had (``size``), and to how many it was cut (``cut``); its own headers are kept.
    ``id`` is that of the record, its spool and position, and ``message_id`` what the message in it has as its ``id``.
    """
    headers = (
        *record.headers,
        ("original_topic", record.topic.encode()),
        ("reason", reason.encode()[:_LONGEST_REASON]),
        ("size", b"%d" % len(record.value)),
        ("id", f"{spool}-{record.position}".encode()),
    )
    if (found := _MESSAGE_ID.match(record.value)) is not None:
        headers = (*headers, ("message_id", json.loads(found[1]).encode("utf-8", "replace")))
    key = record.key.encode("utf-8", "replace").decode()
    taken = _OVERHEAD + len(key.encode()) + sum(len(name) + len(value) + 10 for name, value in headers)
    room = max(_LEAST, limit - taken)
    if len(record.value) > room:
        headers = (*headers, ("cut", b"%d" % room))
    return Record(topic, key, record.value[:room], headers, record.timestamp, record.position)
