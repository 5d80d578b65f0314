"""A topic that was deleted and made again is not the one that a checkpoint is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from iot_spark.causes import root_cause
from iot_spark.kafka_admin import TopicMissing
from iot_spark.kafka_out import Topic
from iot_spark.session import connector
from iot_spark.settings import Source
from iot_spark.source_topics import TopicReplaced, compare, hold_to_topics
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameWriter, SparkSession

from tests.enginekit.kafka import KafkaServer


def test_a_topic_may_be_new_to_a_checkpoint_and_not_another_one(tmp_path: Path) -> None:
    """The error names the topic, and what to remove."""
    compare({}, {"a": "1"}, tmp_path)
    compare({"a": "1", "gone": "9"}, {"a": "1", "b": "2"}, tmp_path)
    with pytest.raises(TopicReplaced, match=r"^b: ") as caught:
        compare({"a": "1", "b": "2"}, {"a": "1", "b": "3"}, tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.skipif(len(connector()) < 4, reason="needs mvn -q -B -f spark/pom.xml package")
@pytest.mark.timeout(600)
def test_kafka_tells_a_topic_that_was_made_again(spark: SparkSession, kafka: KafkaServer, tmp_path: Path) -> None:
    """Whatever offsets it has; until the checkpoint is removed. One that is not there is named."""
    topic = kafka.make_topic("again")
    source = Source(kind="kafka", topics=(topic,), bootstrap_servers=kafka.address)
    hold_to_topics(spark, source, tmp_path)
    hold_to_topics(spark, source, tmp_path)
    kept = (tmp_path / "topics.json").read_text()
    kafka.remove_topic(topic)
    with pytest.raises(TopicMissing, match="the topic again is not there"):
        hold_to_topics(spark, source, tmp_path)
    kafka.make_topic(topic)
    for _ in range(2):
        with pytest.raises(TopicReplaced, match=r"^again: "):
            hold_to_topics(spark, source, tmp_path)
    assert (tmp_path / "topics.json").read_text() == kept
    (tmp_path / "topics.json").unlink()
    hold_to_topics(spark, source, tmp_path)
    assert json.loads((tmp_path / "topics.json").read_text()).keys() == {topic}


def test_a_topic_that_cannot_be_written_to_because_it_is_not_there_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's own words for it name none."""

    def save(writer: DataFrameWriter) -> None:
        words = "This server does not host this topic-partition."
        raise PySparkException(f"Caused by: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: {words}")

    monkeypatch.setattr(DataFrameWriter, "save", save)
    monkeypatch.setattr(Topic, "_described", lambda self: None)
    with pytest.raises(TopicMissing) as caught:
        Topic(spark, "nowhere", {}).send(spark.createDataFrame([("k", "v")], "key string, value string"))
    assert root_cause(caught.value).startswith("TopicMissing: the topic nowhere is not there")
