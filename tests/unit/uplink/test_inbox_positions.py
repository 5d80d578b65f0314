"""Positions of commands from Kafka: kept in order, again after a failure, and never for partitions of others."""

from __future__ import annotations

from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from iot_mqtt.uplink.inbox.health import Health
from iot_mqtt.uplink.inbox.positions import COMMIT_AGAIN, COMMIT_SECONDS, Positions
from iot_mqtt.uplink.inbox.settings import InboxSettings


class Committing:
    """The part of a consumer that keeps positions; it answers when a test lets it."""

    def __init__(self) -> None:
        self.asked: list[dict[int, int]] = []
        self.broken = False

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        if self.broken:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self.asked.append({one.partition: one.offset for one in offsets})


class Here:
    """Positions of partitions 0 and 1, which begin at 10 and 20, by a clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.health = Health("t", "g", self.now)
        self.positions = Positions(InboxSettings(topic="t"), self.health, lambda: self.now, lambda: 1e9)
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


def test_what_begins_again_forgets_what_was_to_be_kept() -> None:
    """The commands before it are not there any more."""
    here = Here()
    here.positions.settled(0, 11)
    here.positions.begin_again(0, 40)
    assert here.commit() == []
    here.positions.settled(0, 41)
    assert here.commit() == [{0: 41}]
