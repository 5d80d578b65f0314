"""``clean`` from a real Kafka to a real Kafka, as a program."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from iot_spark.running import DONE, FAILED
from iot_spark.session import connector
from iot_spark.sources import read_table
from pyspark.sql import SparkSession

from tests.enginekit.kafka import KafkaServer
from tests.spark.records import line, reading
from tests.spark.test_killed_driver import job, status

pytestmark = pytest.mark.skipif(len(connector()) < 4, reason="needs mvn -q -B -f spark/pom.xml package")


@pytest.mark.timeout(600)
def test_records_of_kafka_are_cleaned_into_the_table_and_a_topic(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path
) -> None:
    """Each once, dead letters apart; and records that are gone from the topic are an error."""
    raw, out, dead = (kafka.make_topic(name) for name in ("raw.one", "clean.one", "invalid.one"))
    producer = Producer({"bootstrap.servers": kafka.address})
    for seq in range(300):
        for _ in range(1 + (seq % 10 == 0)):
            producer.produce(raw, key="gw-1/press", value=line(reading(seq, id=f"r{seq}")))
    producer.produce(raw, value="broken")
    assert producer.flush(30) == 0
    more = {
        "source": {"kind": "kafka", "topics": [raw], "bootstrap_servers": kafka.address, "max_records": 200},
        "clean": {"topic": out, "invalid_topic": dead},
    }
    with job(tmp_path, "--once", **more) as child:
        assert child.wait(timeout=400) == DONE, (tmp_path / "log").read_text()[-3000:]
    expected = {f"r{seq}" for seq in range(300)}
    found = [row.id for row in read_table(spark, tmp_path / "tables", "clean").collect()]
    assert len(found) == 300 and set(found) == expected
    sent = [json.loads(one.value or b"") for one in kafka.read_all(out)]
    assert Counter(one["id"] for one in sent) == Counter(expected)
    assert sent[0]["ts"] == reading()["ts"] and sent[0]["value"] == 21.5
    assert {one.key for one in kafka.read_all(out)} == {b"gw-1/press"}
    assert [json.loads(one.value or b"")["reason"] for one in kafka.read_all(dead)] == ["broken JSON"]
    told = status(tmp_path)
    assert told["totals"]["in"] == 331 and told["totals"]["duplicate"] == 30
    # The topic is made anew: what the checkpoint speaks of is gone.
    kafka.remove_topic(raw)
    kafka.make_topic(raw)
    with job(tmp_path, "--once", **more) as child:
        assert child.wait(timeout=400) == FAILED
    assert status(tmp_path)["running"] is False and status(tmp_path)["error"]
