"""How far a consumer has come in each partition: where it began, what is to be kept of it, and what Kafka has kept.

Kafka keeps an offset with a note, and the note is the id of the topic that the offset is of. In another topic of that
name nothing was read yet, so that it is read from its beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from iot_mqtt.uplink.inbox.health import Health
from iot_mqtt.uplink.inbox.identity import Identity
from iot_mqtt.uplink.inbox.settings import InboxSettings

log = logging.getLogger(__name__)

#: Seconds that a question to Kafka takes at most.
ASK_SECONDS = 5.0
#: Seconds between two times that positions are kept, and until a failed one is tried again.
COMMIT_SECONDS = 0.2
COMMIT_AGAIN = 1.0
#: Seconds for keeping the last positions of a life, and for a look whether they are.
LAST_SECONDS = 1.0
LAST_LOOK_SECONDS = 0.01
#: What a note begins with; one that does not is not ours, and says nothing of a topic.
_NOTE = "topic-id="


class Positions:
    """Of one consumer."""

    def __init__(
        self,
        settings: InboxSettings,
        health: Health,
        identity: Identity,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._health = health
        self._identity = identity
        self._monotonic = monotonic
        self._wall = wall
        #: Where each partition that is read here began.
        self.begins: dict[int, int] = {}
        #: Of the topic that they are in; empty until the first of them was found.
        self._topic_id = ""
        #: To be kept, by partition.
        self._due: dict[int, int] = {}
        self._committing = False
        self._commit_at = 0.0
        #: How often they were kept.
        self.commits = 0

    def at(self, partition: int, offset: int | None = None) -> TopicPartition:
        """A place in the topic."""
        if offset is None:
            return TopicPartition(self._settings.topic, partition)
        return TopicPartition(self._settings.topic, partition, offset)

    def _kept_at(self, partition: int, offset: int) -> TopicPartition:
        return TopicPartition(self._settings.topic, partition, offset, metadata=self._note)

    # Partitions come and go.

    def find(self, consumer: Consumer, partitions: list[TopicPartition]) -> dict[int, int]:
        """Where to begin. Raises if it cannot be had."""
        # Before anything else: should the topic be another one by then, ``is_in_another_topic`` notices.
        self._topic_id = self._topic_id or self._identity.ask()
        found: dict[int, int] = {}
        for one in consumer.committed(partitions, timeout=ASK_SECONDS):
            if one.error is not None:
                raise KafkaException(one.error)
            try:
                found[one.partition] = self._begin(consumer, one)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    raise
                # The group has not seen yet that the topic was made again with fewer. Should it come, all of it is new.
                found[one.partition] = 0
        return found

    def _begin(self, consumer: Consumer, kept: TopicPartition) -> int:
        """Where to begin in a partition, by what Kafka has kept of it."""
        partition, note = kept.partition, kept.metadata or ""
        if kept.offset < 0:
            return self._first(consumer, partition)
        position: int = kept.offset
        if note == self._note:
            return position
        if note.startswith(_NOTE):
            position, _ = consumer.get_watermark_offsets(self.at(partition), timeout=ASK_SECONDS)
            log.error(
                "the topic of commands was deleted and made again: it is read from its beginning",
                extra={"topic": self._settings.topic, "partition": partition, "kept": kept.offset, "begin": position},
            )
        self._due[partition] = position
        return position

    @property
    def _note(self) -> str:
        return _NOTE + self._topic_id

    def is_in_another_topic(self) -> bool:
        """Whether the topic of these positions was deleted, and there is another one of its name."""
        return bool(self.begins) and self._identity.look() not in (None, self._topic_id)

    def _first(self, consumer: Consumer, partition: int) -> int:
        """For a group that has none: what was written before the oldest command that would be done is not read."""
        # The end first: what is written after this question lies behind the answer.
        _, end = consumer.get_watermark_offsets(self.at(partition), timeout=ASK_SECONDS)
        oldest = round((self._wall() - self._settings.max_age) * 1000)
        (answer,) = consumer.offsets_for_times([self.at(partition, max(0, oldest))], timeout=ASK_SECONDS)
        if answer.error is not None:
            raise KafkaException(answer.error)
        position = answer.offset if answer.offset >= 0 else end
        # Kept at once: from now on nothing is passed over.
        self._due[partition] = position
        return position

    def begin_again(self, partition: int, position: int) -> None:
        """What was before it is not there any more. Kept, or the next life would begin where this one could not."""
        self.begins[partition] = self._due[partition] = position

    def forget(self, partitions: Sequence[int]) -> None:
        """They are read here no longer."""
        for partition in partitions:
            del self.begins[partition]
            self._due.pop(partition, None)

    # Keeping them.

    def settled(self, partition: int, position: int) -> None:
        """Everything before it is done with."""
        if position > self.begins.get(partition, position):
            self._due[partition] = position

    def commit(self, consumer: Consumer) -> None:
        """Keep what is due, if it is time."""
        now = self._monotonic()
        if not self._committing and now >= self._commit_at:
            self._commit_at = now + COMMIT_SECONDS
            self.send(consumer)

    def send(self, consumer: Consumer) -> None:
        """Keep what is due, now."""
        due, self._due = self._due, {}
        if not due:
            return
        self._committing = True
        try:
            consumer.commit(offsets=[self._kept_at(*one) for one in due.items()], asynchronous=True)
        except KafkaException as error:
            self._committing = False
            self._not_committed(due, text_of(error))

    def committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """What Kafka has said."""
        self._committing = False
        failed = {one.partition: one.offset for one in partitions if error is not None or one.error is not None}
        if failed:
            first = error or next(one.error for one in partitions if one.error is not None)
            self._not_committed(failed, first.str())
        else:
            self.commits += 1
            self._health.commit = None

    def _not_committed(self, due: dict[int, int], why: str) -> None:
        """Again, unless it is further by then, or somebody else's."""
        for partition, position in due.items():
            if partition in self.begins:
                self._due.setdefault(partition, position)
        self._commit_at = self._monotonic() + COMMIT_AGAIN
        self._health.commit = f"positions cannot be kept: {why}"

    def send_last(self, consumer: Consumer) -> None:
        """If Kafka is there; else letters come again, which is no harm."""
        until = self._monotonic() + LAST_SECONDS
        if self._health.trouble(self._monotonic()) is not None:
            return
        while (self._due or self._committing) and self._monotonic() < until:
            if not self._committing:
                self.send(consumer)
            # What comes with it is not settled, and comes again.
            consumer.poll(LAST_LOOK_SECONDS)


def text_of(error: KafkaException) -> str:
    """In words."""
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
