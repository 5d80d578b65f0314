"""The consumer of commands, in a thread of its own: everything that may wait for Kafka happens here.

A *life* is one consumer from its making to its closing. It ends when the node ends, or by an error that librdkafka does
not mend by itself; another one begins a little later. The group knows the member by the node's id, not by a life: a
node that is back within ``SESSION_SECONDS`` gets its partitions at once, and nobody else's stand still.

Callbacks of librdkafka come out of ``poll``, so they are in this thread too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from iot_mqtt.ports.inbox import Letter
from iot_mqtt.uplink.inbox.bridge import Bridge
from iot_mqtt.uplink.inbox.burying import LINES, Burying
from iot_mqtt.uplink.inbox.health import Health, Snapshot
from iot_mqtt.uplink.inbox.settings import InboxSettings

log = logging.getLogger(__name__)

#: Seconds without a word after which the group gives a member's partitions to others.
SESSION_SECONDS = 30
#: Seconds that a look for letters waits, and a question to Kafka at most.
POLL_SECONDS = 0.1
ASK_SECONDS = 5.0
#: Letters, and their bytes, that cross at once; the next ones follow when the reactor has taken them.
MOST_LETTERS = 200
MOST_BYTES = 4 * 1024**2
#: Seconds between two times that positions are kept, and until a failed one is tried again.
COMMIT_SECONDS = 0.2
COMMIT_AGAIN = 1.0
#: Seconds that the reactor has for finishing what is under way of partitions that others get.
FINISH_SECONDS = 5.0
#: Seconds for keeping the last positions of a life, and for closing it.
LAST_SECONDS = 1.0
CLOSE_SECONDS = 1.0
#: Seconds until another life begins.
REST_SECONDS = 2.0
#: Seconds between two looks for a topic that is not there.
LOOK_SECONDS = 2.0

_ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_FORBIDDEN = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})


class Owner(Protocol):
    """What is told; each call crosses into the reactor's thread."""

    def heard(self, snapshot: Snapshot) -> None: ...

    def assigned(self, partitions: list[int]) -> None: ...

    def came(self, letters: list[Letter]) -> None: ...

    def revoked(self, partitions: list[int], done: Callable[[], None]) -> None: ...

    def lost(self, partitions: list[int]) -> None: ...

    def ended(self) -> None: ...


class Consuming:
    """``run`` is the thread. The other public methods are jobs: they are called in it, too."""

    def __init__(
        self,
        settings: InboxSettings,
        bridge: Bridge,
        owner: Owner,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._bridge = bridge
        self._owner = owner
        self._monotonic = monotonic
        self._wall = wall
        self._burying = Burying(settings)
        self._health = Health(settings.topic, settings.group, monotonic())
        self._consumer: Consumer | None = None
        self._held = self._ending = self._silent = False
        #: Why this life has to end.
        self._broken: str | None = None
        #: Where each partition that is read here began.
        self._begins: dict[int, int] = {}
        self._batch: list[Letter] = []
        self._batch_bytes = 0
        #: The reactor has not taken the last ones yet.
        self._crossing = 0
        #: Positions to be kept, by partition.
        self._due: dict[int, int] = {}
        self._committing = False
        self._commit_at = self._look_at = 0.0
        self._commits = self._restarts = 0

    # Jobs.

    def settled(self, partition: int, position: int) -> None:
        if position > self._begins.get(partition, position):
            self._due[partition] = position

    def hold(self, consumer_waits: bool) -> None:
        self._held = consumer_waits
        self._apply_hold()

    def bury(self, letter: Letter, reason: str, done: Callable[[Exception | None], None]) -> None:
        self._burying.bury(letter, reason, lambda error: self._bridge.hand(partial(done, error)))

    def end(self, silent: bool) -> None:
        """``silent``: keep nothing more, ask nobody."""
        self._ending, self._silent = True, silent

    # The thread.

    def run(self) -> None:
        while not self._ending:
            self._broken = None
            try:
                self._live()
            except KafkaException as error:
                self._broken = _text(error)
            except Exception as error:  # the thread must not end by a fault of ours
                log.exception("reading commands from Kafka failed")
                self._broken = repr(error)
            if not self._ending:
                self._restarts += 1
            if self._broken is not None and not self._ending:
                log.error("commands from Kafka: %s; trying again", self._broken)
                self._health.member = self._broken
            self._tell()
            self._rest(REST_SECONDS)
        if not self._silent:
            self._burying.end(1.0)
        self._bridge.hand(self._owner.ended)

    def _live(self) -> None:
        self._health.began(self._monotonic())
        consumer = self._consumer = Consumer(self._told(), logger=LINES)
        try:
            consumer.subscribe(
                [self._settings.topic],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._lost,
            )
            while not self._ending and self._broken is None:
                self._turn(consumer)
        finally:
            self._end_life(consumer)

    def _end_life(self, consumer: Consumer) -> None:
        """Bounded: without a coordinator, librdkafka waits for minutes for a commit, and closes no sooner."""
        if not self._silent:
            if self._begins and not self._ending:
                self._finish(list(self._begins))
            self._last_commit(consumer)
            if self._begins:
                self._bridge.hand(partial(self._owner.lost, list(self._begins)))
        # Its callbacks come in another thread from now on, and find nothing to do.
        self._consumer = None
        self._begins.clear()
        self._due.clear()
        self._batch.clear()
        self._committing = False
        self._bridge.aside(consumer.close, CLOSE_SECONDS)

    def _told(self) -> dict[str, object]:
        settings = self._settings
        return {
            "socket.timeout.ms": 10_000,
            "socket.keepalive.enable": True,
            "reconnect.backoff.max.ms": 2000,
            **settings.connection,
            "client.id": settings.member,
            "group.id": settings.group,
            "group.instance.id": settings.member,
            "session.timeout.ms": SESSION_SECONDS * 1000,
            "heartbeat.interval.ms": 1000,
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            # A position that Kafka does not have any more is no reason to begin anywhere in silence.
            "auto.offset.reset": "error",
            "topic.metadata.refresh.interval.ms": 2000,
            "queued.max.messages.kbytes": 4096,
            "statistics.interval.ms": 1000,
            "stats_cb": self._counted,
            "error_cb": self._erred,
            "on_commit": self._committed,
        }

    def _turn(self, consumer: Consumer) -> None:
        self._bridge.run_jobs(POLL_SECONDS if self._crossing else 0.0)
        self._burying.serve()
        if not self._crossing:
            self._read(consumer)
        self._commit(consumer)
        self._look_for_topic(consumer)

    def _rest(self, seconds: float) -> None:
        """Do nothing but jobs."""
        until = self._monotonic() + seconds
        while not self._ending and (left := until - self._monotonic()) > 0:
            self._bridge.run_jobs(min(left, POLL_SECONDS))
            self._burying.serve()

    # Letters.

    def _read(self, consumer: Consumer) -> None:
        message = consumer.poll(POLL_SECONDS)
        while message is not None:
            error = message.error()
            if error is not None:
                self._cross()
                self._wrong(consumer, message, error)
            else:
                letter = _letter(message)
                self._batch.append(letter)
                self._batch_bytes += len(letter.value)
            if len(self._batch) >= MOST_LETTERS or self._batch_bytes >= MOST_BYTES or self._broken is not None:
                break
            message = consumer.poll(0)
        self._cross()

    def _cross(self) -> None:
        """Before anything else is said of partitions, too: the order is the thing."""
        if self._batch:
            letters, self._batch, self._batch_bytes = self._batch, [], 0
            self._crossing += 1
            self._bridge.hand(partial(self._hand_over, letters))

    def _hand_over(self, letters: list[Letter]) -> None:
        """In the reactor's thread."""
        try:
            self._owner.came(letters)
        finally:
            self._bridge.put(self._taken)

    def _taken(self) -> None:
        self._crossing -= 1

    def _apply_hold(self) -> None:
        consumer, partitions = self._consumer, [self._at(partition) for partition in self._begins]
        if consumer is not None and partitions:
            (consumer.pause if self._held else consumer.resume)(partitions)

    # Partitions come and go.

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Raises if the positions cannot be had: this life ends then, and the next one asks again."""
        if consumer is not self._consumer:
            return
        self._cross()
        if not partitions:
            consumer.incremental_assign([])
            return
        begins = self._positions(consumer, partitions)
        consumer.incremental_assign([self._at(*one) for one in begins.items()])
        self._begins |= begins
        self._health.topic = None
        if self._held:
            self._apply_hold()
        self._bridge.hand(partial(self._owner.assigned, list(begins)))

    def _positions(self, consumer: Consumer, partitions: list[TopicPartition]) -> dict[int, int]:
        found: dict[int, int] = {}
        for one in consumer.committed(partitions, timeout=ASK_SECONDS):
            if one.error is not None:
                raise KafkaException(one.error)
            found[one.partition] = one.offset if one.offset >= 0 else self._first_position(consumer, one.partition)
        return found

    def _first_position(self, consumer: Consumer, partition: int) -> int:
        """For a group that has none: what was written before the oldest command that would be done is not read."""
        # The end first: what is written after this question lies behind the answer.
        _, end = consumer.get_watermark_offsets(self._at(partition), timeout=ASK_SECONDS)
        oldest = round((self._wall() - self._settings.max_age) * 1000)
        (answer,) = consumer.offsets_for_times([self._at(partition, max(0, oldest))], timeout=ASK_SECONDS)
        if answer.error is not None:
            raise KafkaException(answer.error)
        position = answer.offset if answer.offset >= 0 else end
        # Kept at once: from now on nothing is passed over.
        self._due[partition] = position
        return position

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is not self._consumer:
            return
        self._cross()
        numbers = [one.partition for one in partitions if one.partition in self._begins]
        if numbers and not self._silent:
            self._finish(numbers)
            # It leaves before this node says that it has let go; should it be lost, letters come again.
            self._send_commit(consumer)
        self._forget(numbers)
        consumer.incremental_unassign(partitions)

    def _finish(self, partitions: list[int]) -> None:
        """Wait until nothing is under way here, or whoever is next could accept a command a second time."""
        finished: list[bool] = []
        done = partial(self._bridge.put, lambda: finished.append(True))
        self._bridge.hand(partial(self._owner.revoked, partitions, done))
        until = self._monotonic() + FINISH_SECONDS
        while not finished and (left := until - self._monotonic()) > 0:
            self._bridge.run_jobs(min(left, POLL_SECONDS))
        if not finished:
            log.warning("commands from Kafka are under way still, and their partitions go to another node")
            self._bridge.hand(partial(self._owner.lost, partitions))

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is not self._consumer:
            return
        self._cross()
        numbers = [one.partition for one in partitions if one.partition in self._begins]
        self._forget(numbers)
        if numbers and not self._silent:
            self._bridge.hand(partial(self._owner.lost, numbers))
        consumer.incremental_unassign(partitions)

    def _forget(self, partitions: list[int]) -> None:
        for partition in partitions:
            del self._begins[partition]
            self._due.pop(partition, None)

    # Positions.

    def _commit(self, consumer: Consumer) -> None:
        now = self._monotonic()
        if not self._committing and now >= self._commit_at:
            self._commit_at = now + COMMIT_SECONDS
            self._send_commit(consumer)

    def _send_commit(self, consumer: Consumer) -> None:
        due, self._due = self._due, {}
        if not due:
            return
        self._committing = True
        try:
            consumer.commit(offsets=[self._at(*one) for one in due.items()], asynchronous=True)
        except KafkaException as error:
            self._committing = False
            self._not_committed(due, _text(error))

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if self._consumer is None:
            return
        self._committing = False
        failed = {one.partition: one.offset for one in partitions if error is not None or one.error is not None}
        if failed:
            first = error or next(one.error for one in partitions if one.error is not None)
            self._not_committed(failed, first.str())
        else:
            self._commits += 1
            self._health.commit = None

    def _not_committed(self, due: dict[int, int], why: str) -> None:
        """Again, unless it is further by then, or somebody else's."""
        for partition, position in due.items():
            if partition in self._begins:
                self._due.setdefault(partition, position)
        self._commit_at = self._monotonic() + COMMIT_AGAIN
        self._health.commit = f"positions cannot be kept: {why}"

    def _last_commit(self, consumer: Consumer) -> None:
        """If Kafka is there; else letters come again, which is no harm."""
        self._bridge.run_jobs()
        until = self._monotonic() + LAST_SECONDS
        if self._health.trouble(self._monotonic()) is not None:
            return
        while (self._due or self._committing) and self._monotonic() < until:
            if not self._committing:
                self._send_commit(consumer)
            # What comes with it is not settled, and comes again.
            consumer.poll(POLL_SECONDS / 10)

    # What goes wrong.

    def _wrong(self, consumer: Consumer, message: Message, error: KafkaError) -> None:
        """An error that came in the place of a letter."""
        code = error.code()
        if error.fatal() or code == KafkaError._FATAL:
            self._broken = f"{error.str()} (does another node call itself {self._settings.member}?)"
        elif code == KafkaError._AUTO_OFFSET_RESET:
            self._out_of_range(consumer, message, error)
        elif code in _ABSENT or code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._health.topic = f"the topic {self._settings.topic} cannot be read: {error.str()}"
        elif code in _FORBIDDEN:
            self._health.member = f"the group {self._settings.group} cannot be joined: {error.str()}"
        elif code == KafkaError._MAX_POLL_EXCEEDED:
            log.warning("commands from Kafka: %s", error.str())
        else:
            self._health.connection = error.str()

    def _out_of_range(self, consumer: Consumer, message: Message, error: KafkaError) -> None:
        """Retention has taken what was not read, or the topic is another one: go on with what there is, and say so."""
        partition = message.partition()
        if partition is None or partition not in self._begins:
            return
        low, _ = consumer.get_watermark_offsets(self._at(partition), timeout=ASK_SECONDS)
        log.error("commands may be lost: Kafka does not have the next ones any more", extra={"partition": partition})
        self._begins[partition] = low
        self._due.pop(partition, None)
        self._bridge.hand(partial(self._owner.lost, [partition]))
        self._bridge.hand(partial(self._owner.assigned, [partition]))
        consumer.seek(self._at(partition, low))

    def _erred(self, error: KafkaError) -> None:
        """librdkafka goes on by itself, unless it is fatal."""
        if error.fatal():
            self._broken = f"{error.str()} (does another node call itself {self._settings.member}?)"
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._health.connection = error.str()

    def _look_for_topic(self, consumer: Consumer) -> None:
        """Nobody says that a topic is there now, if none of its partitions is for this node."""
        now = self._monotonic()
        if self._health.topic is None or now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        try:
            found = consumer.list_topics(self._settings.topic, timeout=1.0).topics.get(self._settings.topic)
        except KafkaException:
            return
        if found is not None and found.error is None:
            self._health.topic = None

    def _counted(self, text: str) -> None:
        self._health.looked(json.loads(text), self._monotonic())
        self._tell()

    def _tell(self) -> None:
        health = self._health
        snapshot = Snapshot(
            health.trouble(self._monotonic()),
            health.joined,
            tuple(sorted(self._begins)),
            health.lag,
            self._commits,
            self._restarts,
        )
        self._bridge.hand(partial(self._owner.heard, snapshot))

    def _at(self, partition: int, offset: int | None = None) -> TopicPartition:
        if offset is None:
            return TopicPartition(self._settings.topic, partition)
        return TopicPartition(self._settings.topic, partition, offset)


def _letter(message: Message) -> Letter:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None
    kind, written = message.timestamp()
    timestamp = None if kind == TIMESTAMP_NOT_AVAILABLE else written / 1000
    return Letter(topic, partition, offset, message.key(), message.value() or b"", timestamp)


def _text(error: KafkaException) -> str:
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
