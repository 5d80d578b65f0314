"""Which topic has the name now: Kafka gives each an id, and another one to a topic that is deleted and made again.

An offset means something in one topic only. Where the new topic is shorter than the old one was, Kafka itself refuses
the old offset; where it is longer already, only the id tells that the offset passes over what nobody has read.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from iot_mqtt.uplink.inbox.settings import InboxSettings
from iot_mqtt.uplink.kafka.client import LINES

#: Seconds that a question takes at most, and from one look to the next.
ASK_SECONDS = 5.0
LOOK_SECONDS = 2.0


class Identity(Protocol):
    """Of the topic of commands."""

    def ask(self) -> str:
        """The id; waits for Kafka. Raises ``KafkaException`` if it does not say."""
        ...

    def look(self) -> str | None:
        """The id, if Kafka has said it since the last look; asks again now and then, and waits for nothing."""
        ...


class TopicIdentity:
    """As a Kafka says; of all lives of a thread."""

    def __init__(self, settings: InboxSettings, monotonic: Callable[[], float]) -> None:
        self._topic = settings.topic
        self._connection = settings.connection
        self._monotonic = monotonic
        self._admin: AdminClient | None = None
        self._asked: Future[Any] | None = None
        self._ask_at = 0.0

    def ask(self) -> str:
        # What an earlier question brings may be older than this.
        self._asked = None
        return _id_of(self._described())

    def look(self) -> str | None:
        asked, now = self._asked, self._monotonic()
        if asked is None:
            if now >= self._ask_at:
                self._ask_at = now + LOOK_SECONDS
                self._asked = self._described()
            return None
        if not asked.done():
            return None
        self._asked = None
        try:
            return _id_of(asked)
        except KafkaException:
            # The consumer hears of it too, and says what it is.
            return None

    def _described(self) -> Future[Any]:
        if self._admin is None:
            properties: dict[str, Any] = {**self._connection, "log_level": "0"}
            self._admin = AdminClient(properties, logger=LINES)
        asked = self._admin.describe_topics(TopicCollection([self._topic]), request_timeout=ASK_SECONDS)
        answer: Future[Any] = asked[self._topic]
        return answer


def _id_of(answer: Future[Any]) -> str:
    """Of a description of the topic."""
    return str(answer.result().topic_id)
