"""Positions of commands from Kafka: kept in order, again after a failure, and never for partitions of others."""

from __future__ import annotations

from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from iot_mqtt.uplink.inbox.health import Health
from iot_mqtt.uplink.inbox.positions import COMMIT_AGAIN, COMMIT_SECONDS, Positions
from iot_mqtt.uplink.inbox.settings import InboxSettings


class Committing:
    """The part of a consumer that keeps positions; it answers when a test lets it."""

    def __init__(self) -> None:
        self.asked: list[dict[int, int]] = []
        self.broken = False
        #: Offsets and their notes, by partition.
        self.kept: dict[int, tuple[int, str | None]] = {}
        #: Codes of errors, by partition.
        self.troubles: dict[int, int] = {}

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        if self.broken:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self.asked.append({one.partition: one.offset for one in offsets})
        self.kept |= {one.partition: (one.offset, one.metadata) for one in offsets}

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition("t", one.partition, *self.kept[one.partition]) for one in partitions]

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        if partition.partition in self.troubles:
            raise KafkaException(KafkaError(self.troubles[partition.partition]))
        return 3, 1000


class Named:
    """The topic that has the name."""

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id

    def ask(self) -> str:
        return self.topic_id

    def look(self) -> str | None:
        return self.topic_id or None


class Here:
    """Positions of partitions 0 and 1, which begin at 10 and 20, by a clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.health = Health("t", "g", self.now)
        self.named = Named("A")
        settings = InboxSettings(topic="t")
        self.positions = Positions(settings, self.health, self.named, lambda: self.now, lambda: 1e9)
        self.positions.begins.update({0: 10, 1: 20})
        self.kafka = Committing()

    def commit(self, seconds: float = COMMIT_SECONDS) -> list[dict[int, int]]:
        """What is asked of Kafka when so much time has gone by."""
        self.now += seconds
        before = len(self.kafka.asked)
        self.positions.commit(cast(Consumer, self.kafka))
        return self.kafka.asked[before:]

    def answer(self, *pairs: tuple[int, int], error: bool = False) -> None:
        """Kafka has kept these, or not."""
        trouble = KafkaError(KafkaError._TRANSPORT) if error else None
        self.positions.committed(trouble, [TopicPartition("t", *pair) for pair in pairs])


def test_what_is_settled_is_kept_as_it_is() -> None:
    """The position is that of the next command: neither one before it, nor one behind."""
    here = Here()
    here.positions.settled(0, 13)
    here.positions.settled(1, 21)
    assert here.commit() == [{0: 13, 1: 21}]


def test_where_it_began_is_not_kept_again() -> None:
    """Nor what lies before that."""
    here = Here()
    here.positions.settled(0, 10)
    here.positions.settled(1, 5)
    assert here.commit() == []


def test_one_request_at_a_time() -> None:
    """The next goes out when the answer is there and some time has gone by."""
    here = Here()
    here.positions.settled(0, 11)
    assert here.commit() == [{0: 11}]
    here.positions.settled(0, 12)
    assert here.commit(10.0) == []
    here.answer((0, 11))
    assert here.commit() == [{0: 12}]


def test_a_position_that_was_not_kept_is_asked_for_again() -> None:
    """A little later, and it is told meanwhile."""
    here = Here()
    here.positions.settled(0, 11)
    assert here.commit() == [{0: 11}]
    here.answer((0, 11), error=True)
    assert "cannot be kept" in str(here.health.commit)
    assert here.commit(COMMIT_AGAIN / 2) == []
    assert here.commit(COMMIT_AGAIN) == [{0: 11}]
    here.answer((0, 11))
    assert here.health.commit is None


def test_a_failure_takes_no_newer_position_back() -> None:
    """What was settled meanwhile is further."""
    here = Here()
    here.positions.settled(0, 11)
    here.commit()
    here.positions.settled(0, 17)
    here.answer((0, 11), error=True)
    assert here.commit(COMMIT_AGAIN) == [{0: 17}]


def test_a_partition_of_another_member_is_left_alone() -> None:
    """It was taken away while its position was on the way."""
    here = Here()
    here.positions.settled(0, 11)
    here.positions.settled(1, 22)
    here.commit()
    here.positions.forget([0])
    here.answer((0, 11), (1, 22), error=True)
    assert here.commit(COMMIT_AGAIN) == [{1: 22}]


def test_a_request_that_cannot_be_made_is_made_later() -> None:
    """librdkafka refuses at once where it has no coordinator."""
    here = Here()
    here.kafka.broken = True
    here.positions.settled(0, 11)
    assert here.commit() == []
    here.kafka.broken = False
    assert here.commit(COMMIT_AGAIN) == [{0: 11}]


def test_where_it_begins_again_is_kept() -> None:
    """At once, and not what was settled before: those commands are not there any more."""
    here = Here()
    here.positions.settled(0, 11)
    here.positions.begin_again(0, 40)
    here.positions.settled(0, 12)
    assert here.commit() == [{0: 40}]
    here.answer((0, 40))
    here.positions.settled(0, 41)
    assert here.commit() == [{0: 41}]


class TestAnotherTopicOfThatName:
    """Which topic an offset is of is kept with it."""

    def begun(self, here: Here, *partitions: int) -> dict[int, int]:
        """Another life, in the topic that has the name now."""
        here.positions = Positions(InboxSettings(topic="t"), here.health, here.named, lambda: here.now, lambda: 1e9)
        found = here.positions.find(cast(Consumer, here.kafka), [TopicPartition("t", one) for one in partitions])
        here.positions.begins |= found
        return found

    def settled(self, here: Here, position: int) -> None:
        here.positions.settled(0, position)
        here.commit()
        here.answer((0, position))

    def test_an_offset_of_the_same_topic_is_where_it_begins(self) -> None:
        """And nothing is kept anew for that."""
        here = Here()
        here.kafka.kept = {0: (10, "")}
        self.begun(here, 0)
        self.settled(here, 17)
        assert self.begun(here, 0) == {0: 17}
        assert here.commit() == []
        assert not here.positions.is_in_another_topic()

    def test_an_offset_of_a_topic_that_was_deleted_is_none(self) -> None:
        """However many records the new one has: it begins with the first of them."""
        here = Here()
        here.kafka.kept = {0: (10, "")}
        self.begun(here, 0)
        self.settled(here, 17)
        here.named.topic_id = "B"
        assert here.positions.is_in_another_topic()
        assert self.begun(here, 0) == {0: 3}
        assert here.commit() == [{0: 3}]
        assert self.begun(here, 0) == {0: 3}

    def test_an_offset_without_a_topic_is_of_the_one_that_is_there(self) -> None:
        """As releases before kept it, and tools do; the topic is kept with it at once."""
        here = Here()
        here.kafka.kept = {0: (10, ""), 1: (20, "set by hand")}
        assert self.begun(here, 0, 1) == {0: 10, 1: 20}
        assert here.commit() == [{0: 10, 1: 20}]
        here.named.topic_id = "B"
        assert self.begun(here, 0, 1) == {0: 3, 1: 3}

    def test_a_kafka_that_does_not_say_which_topic_it_is_changes_nothing(self) -> None:
        """It may be away, or the topic be gone."""
        here = Here()
        here.kafka.kept = {0: (10, "")}
        self.begun(here, 0)
        here.named.topic_id = ""
        assert not here.positions.is_in_another_topic()

    def test_a_partition_that_is_gone_is_empty(self) -> None:
        """The group gives it out still. Nothing is kept for it; should it come, it is read from its beginning."""
        here = Here()
        here.kafka.kept = {0: (10, "topic-id=old"), 5: (50, "topic-id=old"), 6: (-1001, "")}
        here.kafka.troubles = {5: KafkaError._UNKNOWN_PARTITION, 6: KafkaError._UNKNOWN_PARTITION}
        assert self.begun(here, 0, 5, 6) == {0: 3, 5: 0, 6: 0}
        assert here.commit() == [{0: 3}]

    def test_a_question_without_an_answer_is_no_answer(self) -> None:
        """Any other error says nothing of the partition."""
        here = Here()
        here.kafka.kept = {5: (50, "topic-id=old")}
        here.kafka.troubles = {5: KafkaError._TRANSPORT}
        with pytest.raises(KafkaException):
            self.begun(here, 5)
