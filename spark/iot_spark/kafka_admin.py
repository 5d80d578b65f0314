"""What a job asks Kafka about topics: with Kafka's own client, from the connector's jars.

Its answers come through the JVM, and so do its errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from iot_spark.causes import names

_PREFIX = "kafka."
_CLOSE_MS = 5000


class TopicMissing(Exception):
    """A topic that a job reads or writes is not there."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"the topic {topic} is not there; make it, or name another one in the section pipeline")


def is_missing(error: BaseException) -> bool:
    """Whether Kafka has said so."""
    return "UnknownTopicOrPartitionException" in names(error)


@contextmanager
def admin(spark: SparkSession, options: Mapping[str, str], timeout_ms: int) -> Iterator[Any]:
    """The client. ``options`` are those of Spark's connector; a question takes ``timeout_ms`` at most."""
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    for key, value in options.items():
        if key.startswith(_PREFIX):
            properties.put(key.removeprefix(_PREFIX), value)
    properties.put("request.timeout.ms", str(timeout_ms))
    properties.put("default.api.timeout.ms", str(timeout_ms))
    client = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        yield client
    finally:
        client.close(jvm.java.time.Duration.ofMillis(_CLOSE_MS))


def topic_ids(
    spark: SparkSession, options: Mapping[str, str], topics: Sequence[str], timeout_ms: int
) -> dict[str, str]:
    """The id that Kafka has given to each topic, when it was made."""
    jvm: Any = spark._jvm
    with admin(spark, options, timeout_ms) as client:
        asked = jvm.java.util.ArrayList()
        for topic in topics:
            asked.add(topic)
        answers = client.describeTopics(asked).topicNameValues()
        return {topic: _id(topic, answers.get(topic)) for topic in topics}


def _id(topic: str, answer: Any) -> str:
    try:
        return str(answer.get().topicId().toString())
    except Py4JJavaError as error:
        if is_missing(error):
            raise TopicMissing(topic) from None
        raise
