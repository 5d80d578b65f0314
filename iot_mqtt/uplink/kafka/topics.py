"""Topics as Kafka has them: whether they are there, how much one record may have, and making them.

Each is asked for when the first record for it comes, and again after every failure. One that is to be made by us is
made before anybody asks for it: a Kafka that makes topics by itself does so when it is asked, with partitions of its
own.

Some names Kafka refuses whoever asks: what its operator's policy forbids, and what differs in ``.`` and ``_`` alone
from the name of a topic that there is. They are told apart from topics that are only missing: nobody can make them.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from iot_mqtt.uplink.kafka.client import error_of, make_admin
from iot_mqtt.uplink.kafka.settings import KafkaSettings
from iot_mqtt.uplink.rules import folded

log = logging.getLogger(__name__)

#: A question may take so long; the thread waits meanwhile.
ASK_SECONDS = 2.0
#: A topic that Kafka is making now is not told of as missing.
MAKING_SECONDS = 1.5
MAKING_AGAIN_SECONDS = 0.1
#: Kafka's own default of what a topic takes.
USUAL_LIMIT = 1_048_588
#: Topics that are remembered; a bound, not a tuning knob.
MAX_TOPICS = 10_000

_NOT_THERE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_NOT_ALLOWED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_REFUSED = (KafkaError.TOPIC_EXCEPTION, KafkaError.POLICY_VIOLATION)
_NOT_YET = (KafkaError.LEADER_NOT_AVAILABLE,)


class Absent(NamedTuple):
    """A topic that cannot be written to now."""

    why: str
    #: Nobody but a person can change that.
    for_good: bool
    #: Nobody can make it: Kafka does not take the name.
    refused: bool = False


class Topics:
    """What is known of them."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._admin: AdminClient | None = None
        #: Bytes that a record may have, by topic.
        self.limits: dict[str, int] = {}
        #: Topics that are there because we made them, or because somebody had.
        self._made: set[str] = set()
        #: Topics of which it was told that they have other partitions than they should.
        self._told: set[str] = set()

    def forget(self) -> None:
        """Ask for all of them again."""
        self.limits.clear()
        self._made.clear()
        self._admin = None

    def ask(self, producer: Producer, topic: str) -> Absent | None:
        """Look whether a topic is there and learn its limit; ``KafkaException``: nobody answers."""
        if self._settings.create_topics and topic not in self._made and (problem := self.make(topic)) is not None:
            return problem
        # A broker that makes topics when they are asked for makes it now.
        found = producer.list_topics(topic, ASK_SECONDS).topics[topic]
        if (error := found.error) is None:
            self._compare(topic, len(found.partitions))
            if len(self.limits) >= MAX_TOPICS:
                self.limits.clear()
            self.limits[topic] = self._limit(topic)
            return None
        code = error.code()
        if code in _NOT_YET:
            return Absent(f"topic {topic} has no leader: {error.str()}", for_good=False)
        if code not in _NOT_THERE:
            why = f"topic {topic} cannot be written to: {error.str()}"
            return Absent(why, for_good=True, refused=code in _REFUSED)
        if (same := _same(producer, topic)) is not None:
            # A Kafka that makes topics by itself says no more than that this one is not there.
            why = f"topic {topic} cannot be made in Kafka: it collides with existing topic: {same}"
            return Absent(why, for_good=True, refused=True)
        if self._settings.create_topics:
            # Made, and gone again, or not everywhere yet.
            self._made.discard(topic)
            return Absent(f"topic {topic} is being made", for_good=False)
        return Absent(
            f"topic {topic} does not exist in Kafka; make it (kafka-topics.sh --create --topic {topic}), "
            "or set uplink.kafka.create_topics: true",
            for_good=True,
        )

    def make(self, topic: str) -> Absent | None:
        """What kept it from being made; None: it is there, or soon, or somebody else has to make it."""
        told = self._settings
        new = NewTopic(topic, told.partitions or -1, told.replication or -1)
        try:
            self._asked().create_topics([new], operation_timeout=ASK_SECONDS)[topic].result(ASK_SECONDS)
        except KafkaException as failed:
            error = error_of(failed)
            if error.code() not in (KafkaError.TOPIC_ALREADY_EXISTS, *_NOT_ALLOWED):
                why = f"topic {topic} cannot be made in Kafka: {error.str()}"
                return Absent(why, for_good=True, refused=error.code() in _REFUSED)
            if error.code() in _NOT_ALLOWED:
                log.debug("topic %s cannot be made by this user: %s", topic, error.str())
        except TimeoutError:
            return Absent(f"topic {topic} does not exist in Kafka, and making it takes long", for_good=True)
        else:
            log.info("topic %s was made in Kafka", topic)
        if len(self._made) >= MAX_TOPICS:
            self._made.clear()
        self._made.add(topic)
        return None

    def _compare(self, topic: str, partitions: int) -> None:
        """Tell once of a topic that was there before, with another number of partitions."""
        wanted = self._settings.partitions
        if wanted in (0, partitions) or topic in self._told or len(self._told) >= MAX_TOPICS:
            return
        self._told.add(topic)
        log.warning(
            "topic %s has %d partitions in Kafka, not the %d of uplink.kafka.partitions, which are for topics that "
            "this node makes; kafka-topics.sh --alter adds some, and keys change their partition then",
            topic,
            partitions,
            wanted,
        )

    def _limit(self, topic: str) -> int:
        # The library takes no class of ours for a text.
        resource = ConfigResource(ConfigResource.Type.TOPIC, str(topic))
        try:
            told = self._asked().describe_configs([resource], request_timeout=ASK_SECONDS)[resource].result(ASK_SECONDS)
            return int(told["max.message.bytes"].value)
        except (KafkaException, TimeoutError, KeyError, ValueError) as error:
            # One may write to a topic and not see its configuration. What is too large shows when it is sent.
            log.debug("the limit of topic %s is unknown: %s", topic, error)
            return USUAL_LIMIT

    def _asked(self) -> AdminClient:
        if self._admin is None:
            self._admin = make_admin(self._settings)
        return self._admin


def _same(producer: Producer, topic: str) -> str | None:
    """A topic that is there and that Kafka takes for this one."""
    there = producer.list_topics(timeout=ASK_SECONDS).topics
    return next((name for name in there if name != topic and folded(name) == folded(topic)), None)
