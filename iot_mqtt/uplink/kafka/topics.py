"""Topics as Kafka has them: whether they are there, how much one record may have, and making them.

Each is asked for when the first record for it comes, and again after every failure.
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
_NOT_YET = (KafkaError.LEADER_NOT_AVAILABLE,)


class Absent(NamedTuple):
    """A topic that cannot be written to now."""

    why: str
    #: Nobody but a person can change that.
    for_good: bool


class Topics:
    """What is known of them."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._admin: AdminClient | None = None
        #: Bytes that a record may have, by topic.
        self.limits: dict[str, int] = {}

    def forget(self) -> None:
        """Ask for all of them again."""
        self.limits.clear()
        self._admin = None

    def ask(self, producer: Producer, topic: str) -> Absent | None:
        """Look whether a topic is there and learn its limit; ``KafkaException``: nobody answers."""
        # A broker that makes topics when they are asked for makes it now.
        found = producer.list_topics(topic, ASK_SECONDS).topics[topic]
        if (error := found.error) is None:
            if len(self.limits) >= MAX_TOPICS:
                self.limits.clear()
            self.limits[topic] = self._limit(topic)
            return None
        code = error.code()
        if code in _NOT_YET:
            return Absent(f"topic {topic} has no leader: {error.str()}", for_good=False)
        if code not in _NOT_THERE:
            return Absent(f"topic {topic} cannot be written to: {error.str()}", for_good=True)
        if self._settings.create_topics:
            problem = self._create(topic)
            return Absent(problem or f"topic {topic} is being made", for_good=problem is not None)
        return Absent(
            f"topic {topic} does not exist in Kafka; make it (kafka-topics.sh --create --topic {topic}), "
            "or set uplink.kafka.create_topics: true",
            for_good=True,
        )

    def _create(self, topic: str) -> str | None:
        """What kept it from being made; None: it is there, or soon."""
        told = self._settings
        new = NewTopic(topic, told.partitions or -1, told.replication or -1)
        try:
            self._asked().create_topics([new], operation_timeout=ASK_SECONDS)[topic].result(ASK_SECONDS)
        except KafkaException as failed:
            error = error_of(failed)
            if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                return f"topic {topic} does not exist in Kafka and cannot be made: {error.str()}"
        except TimeoutError:
            return f"topic {topic} does not exist in Kafka, and making it takes long"
        else:
            log.info("topic %s was made in Kafka", topic)
        return None

    def _limit(self, topic: str) -> int:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
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
