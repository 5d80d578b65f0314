"""One consumer of commands, from its making to its closing, in the thread of ``consuming``.

It ends when the node ends, or by an error that librdkafka does not mend by itself. Callbacks of librdkafka come out of
``poll``, so they are in this thread too; those of a consumer that is being closed may come in another one, when its
life is over, and find nothing to do.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from iot_mqtt.ports.inbox import Letter
from iot_mqtt.thread_bridge import Job, ThreadBridge, run_jobs
from iot_mqtt.uplink.inbox.crossing import Crossing, Owner
from iot_mqtt.uplink.inbox.health import Health
from iot_mqtt.uplink.inbox.positions import ASK_SECONDS, Positions, text_of
from iot_mqtt.uplink.inbox.settings import InboxSettings
from iot_mqtt.uplink.kafka.client import LINES
from iot_mqtt.uplink.kafka.words import words_of

log = logging.getLogger(__name__)

#: Seconds without a word after which the group gives a member's partitions to others.
SESSION_SECONDS = 30
#: Seconds that a look for letters waits.
POLL_SECONDS = 0.1
#: Seconds that the reactor has for finishing what is under way of partitions that others get.
FINISH_SECONDS = 5.0
#: Seconds for closing it.
CLOSE_SECONDS = 1.0
#: Seconds between two looks for a topic that is not there.
LOOK_SECONDS = 2.0

_ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_FORBIDDEN = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})


class Life:
    """``begin`` it, ``turn`` it again and again while it is not ``broken``, and ``close`` it in any case."""

    def __init__(
        self,
        settings: InboxSettings,
        bridge: ThreadBridge[Job],
        owner: Owner,
        crossing: Crossing,
        health: Health,
        positions: Positions,
        monotonic: Callable[[], float],
        tell: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._bridge = bridge
        self._owner = owner
        self._crossing = crossing
        self._health = health
        self._monotonic = monotonic
        self._tell = tell
        self.positions = positions
        #: Why it has to end.
        self.broken: str | None = None
        self._held = self._ending = self._silent = self._over = False
        self._look_at = 0.0
        self._consumer = Consumer(self._told(), logger=LINES)

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

    def begin(self, *, held: bool) -> None:
        self._held = held
        self._consumer.subscribe(
            [self._settings.topic],
            on_assign=partial(self._rebalanced, self._assigned),
            on_revoke=partial(self._rebalanced, self._revoked),
            on_lost=partial(self._rebalanced, self._lost),
        )

    def turn(self) -> None:
        if not self._crossing.waiting:
            self._read()
        self.positions.commit(self._consumer)
        self._look_for_topic()
        if self.positions.is_in_another_topic():
            self.broken = f"the topic {self._settings.topic} was deleted and made again"

    def hold(self, consumer_waits: bool) -> None:
        self._held = consumer_waits
        self._apply_hold()

    def _apply_hold(self) -> None:
        if partitions := [self.positions.at(partition) for partition in self.positions.begins]:
            (self._consumer.pause if self._held else self._consumer.resume)(partitions)

    def end(self, silent: bool) -> None:
        """It will be closed because the node ends; ``silent``: keep nothing more, ask nobody."""
        self._ending, self._silent = True, silent

    def close(self) -> None:
        """Bounded: without a coordinator, librdkafka waits for minutes for a commit, and closes no sooner."""
        positions = self.positions
        try:
            if not self._silent:
                if positions.begins and not self._ending:
                    self._finish(list(positions.begins))
                run_jobs(self._bridge)
                positions.send_last(self._consumer)
                if positions.begins:
                    self._bridge.hand(partial(self._owner.lost, list(positions.begins)))
        finally:
            self._over = True
            self._crossing.drop()
            closing = threading.Thread(target=self._consumer.close, name="commands-closing", daemon=True)
            closing.start()
            closing.join(CLOSE_SECONDS)

    # Letters.

    def _read(self) -> None:
        message = self._consumer.poll(POLL_SECONDS)
        while message is not None:
            error = message.error()
            if error is not None:
                self._crossing.go()
                self._wrong(message, error)
            elif self.broken is None:
                self._crossing.add(_letter(message))
            if self._crossing.full or self.broken is not None:
                break
            message = self._consumer.poll(0)
        self._crossing.go()

    # Partitions come and go.

    def _rebalanced(self, step: Callable[[Consumer, list[TopicPartition]], None], *told: Any) -> None:
        """A callback of librdkafka. If it fails, this life ends, and the next one asks again.

        What it raised would come out of ``poll`` as a ``KafkaError``, which is no exception and which nothing catches.
        """
        if self._over:
            return
        try:
            step(*told)
        except KafkaException as error:
            self.broken = text_of(error)
        except Exception as error:
            log.exception("partitions of commands from Kafka cannot be taken or left")
            self.broken = repr(error)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._crossing.go()
        if not partitions:
            consumer.incremental_assign([])
            return
        begins = self.positions.find(consumer, partitions)
        self._health.answered(self._monotonic())
        consumer.incremental_assign([self.positions.at(*one) for one in begins.items()])
        self.positions.begins |= begins
        self._health.topic = None
        if self._held:
            self._apply_hold()
        self._bridge.hand(partial(self._owner.assigned, list(begins)))

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._crossing.go()
        numbers = self._read_here(partitions)
        if numbers and not self._silent:
            self._finish(numbers)
            # It leaves before this node says that it has let go; should it be lost, letters come again.
            self.positions.send(consumer)
        self.positions.forget(numbers)
        consumer.incremental_unassign(partitions)

    def _finish(self, partitions: list[int]) -> None:
        """Wait until nothing is under way here, or whoever is next could accept a command a second time."""
        finished: list[bool] = []
        done = partial(self._bridge.put, lambda: finished.append(True))
        self._bridge.hand(partial(self._owner.revoked, partitions, done))
        until = self._monotonic() + FINISH_SECONDS
        while not finished and (left := until - self._monotonic()) > 0:
            run_jobs(self._bridge, min(left, POLL_SECONDS))
        if not finished:
            log.warning("commands from Kafka are under way still, and their partitions go to another node")
            self._bridge.hand(partial(self._owner.lost, partitions))

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._crossing.go()
        numbers = self._read_here(partitions)
        self.positions.forget(numbers)
        if numbers and not self._silent:
            self._bridge.hand(partial(self._owner.lost, numbers))
        consumer.incremental_unassign(partitions)

    def _read_here(self, partitions: list[TopicPartition]) -> list[int]:
        return [one.partition for one in partitions if one.partition in self.positions.begins]

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if not self._over:
            self.positions.committed(error, partitions)

    # What goes wrong.

    def _wrong(self, message: Message, error: KafkaError) -> None:
        """An error that came in the place of a letter."""
        code = error.code()
        if error.fatal() or code == KafkaError._FATAL:
            self.broken = self._fatal(error)
        elif code == KafkaError._AUTO_OFFSET_RESET:
            self._out_of_range(message)
        elif code in _ABSENT or code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._health.topic = f"the topic {self._settings.topic} cannot be read: {error.str()}"
        elif code in _FORBIDDEN:
            self._health.member = f"the group {self._settings.group} cannot be joined: {error.str()}"
        elif code == KafkaError._MAX_POLL_EXCEEDED:
            log.warning("commands from Kafka: %s", error.str())
        else:
            self._health.connection = words_of(error)

    def _out_of_range(self, message: Message) -> None:
        """Retention has taken what was not read, or the topic is another one: go on with what there is, and say so."""
        positions, partition = self.positions, message.partition()
        if partition is None or partition not in positions.begins:
            return
        low, _ = self._consumer.get_watermark_offsets(positions.at(partition), timeout=ASK_SECONDS)
        log.error("commands may be lost: Kafka does not have the next ones any more", extra={"partition": partition})
        positions.begin_again(partition, low)
        self._bridge.hand(partial(self._owner.lost, [partition]))
        self._bridge.hand(partial(self._owner.assigned, [partition]))
        # librdkafka has stopped with the partition, and a ``seek`` is refused until it is assigned again.
        self._consumer.incremental_unassign([positions.at(partition)])
        self._consumer.incremental_assign([positions.at(partition, low)])
        if self._held:
            self._apply_hold()

    def _erred(self, error: KafkaError) -> None:
        """librdkafka goes on by itself, unless it is fatal."""
        if self._over:
            return
        if error.fatal():
            self.broken = self._fatal(error)
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._health.connection = words_of(error)

    def _fatal(self, error: KafkaError) -> str:
        return f"{error.str()} (does another node call itself {self._settings.member}?)"

    def _look_for_topic(self) -> None:
        """Nobody says that a topic is there now, if none of its partitions is for this node."""
        now = self._monotonic()
        if self._health.topic is None or now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        topic = self._settings.topic
        try:
            found = self._consumer.list_topics(topic, timeout=1.0).topics.get(topic)
        except KafkaException:
            return
        if found is not None and found.error is None:
            self._health.topic = None

    def _counted(self, text: str) -> None:
        if not self._over:
            self._health.looked(json.loads(text), self._monotonic())
            self._tell()


def _letter(message: Message) -> Letter:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None
    kind, written = message.timestamp()
    timestamp = None if kind == TIMESTAMP_NOT_AVAILABLE else written / 1000
    return Letter(topic, partition, offset, message.key(), message.value() or b"", timestamp)
