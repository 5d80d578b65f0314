"""``clean`` from a real Kafka to a real Kafka, as a program."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from iot_spark.running import DONE, FAILED
from iot_spark.schema import INVALID
from iot_spark.session import connector
from iot_spark.sources import read_table
from pyspark.sql import SparkSession

from tests.enginekit.kafka import KafkaServer
from tests.spark.records import line, reading, wrapped
from tests.spark.test_killed_driver import job, status

pytestmark = pytest.mark.skipif(len(connector()) < 4, reason="needs mvn -q -B -f spark/pom.xml package")


@pytest.mark.timeout(600)
def test_records_of_kafka_are_cleaned_into_the_table_and_a_topic(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path
) -> None:
    """Each once, dead letters apart; and records that are gone from the topic are an error."""
    raw, out, dead = (kafka.make_topic(name) for name in ("raw.one", "clean.one", "invalid.one"))
    # As the uplink sends it: packed, so that what is almost too large for a topic gets in.
    producer = Producer({"bootstrap.servers": kafka.address, "compression.type": "lz4", "message.max.bytes": 4_000_000})
    for seq in range(300):
        for _ in range(1 + (seq % 10 == 0)):
            producer.produce(raw, key="gw-1/press", value=line(reading(seq, id=f"r{seq}")))
    producer.produce(raw, value="broken")
    # Unpacked they are too large for the next topic: as a row, and as a dead letter.
    blob, broken = "x" * 1_048_450, "y" * 1_048_570
    producer.produce(raw, value=line(wrapped({"seq": 1, "blob": blob}, id="large")))
    producer.produce(raw, value=broken)
    assert producer.flush(30) == 0
    more = {
        "source": {"kind": "kafka", "topics": [raw], "bootstrap_servers": kafka.address, "max_records": 200},
        "clean": {"topic": out, "invalid_topic": dead},
    }
    with job(tmp_path, "--once", **more) as child:
        assert child.wait(timeout=400) == DONE, (tmp_path / "log").read_text()[-3000:]
    expected = {f"r{seq}" for seq in range(300)}
    found = [row.id for row in read_table(spark, tmp_path / "tables", "clean").collect()]
    assert len(found) == 301 and set(found) == expected | {"large"}
    sent = [json.loads(one.value or b"") for one in kafka.read_all(out)]
    assert Counter(one["id"] for one in sent) == Counter(expected)
    assert sent[0]["ts"] == reading()["ts"] and sent[0]["value"] == 21.5
    assert {one.key for one in kafka.read_all(out)} == {b"gw-1/press"}
    # What was refused is a dead letter, whole in the table and shortened in its topic.
    refused = f"too large for the topic {out}"
    kept = {row.reason: row for row in read_table(spark, tmp_path / "tables", "invalid", INVALID).collect()}
    assert json.loads(kept[refused].raw)["text"] == blob and kept[refused].topic == out and kept[refused].tag == "blob"
    letters = [json.loads(one.value or b"") for one in kafka.read_all(dead)]
    assert sorted(one["reason"] for one in letters) == ["broken JSON", "broken JSON", refused]
    for one in letters:
        if one["raw"] != "broken":
            whole = kept[refused].raw if one["reason"] == refused else broken
            assert 100_000 < len(one["raw"]) < one["raw_bytes"] == len(whole)
            assert one["raw_sha256"] == hashlib.sha256(whole.encode()).hexdigest()
    told = status(tmp_path)
    assert told["totals"]["in"] == 333 and told["totals"]["duplicate"] == 30 and told["totals"]["refused"] == 1
    assert told["named"] == {"duplicate": {"gw-1/press": 30}, "invalid": {"broken JSON": 2, refused: 1}}
    assert "clean: read 333, written 301, invalid 3, duplicate 30, late 0" in (tmp_path / "log").read_text()
    # The topic is made anew: the checkpoint speaks of another one.
    kafka.remove_topic(raw)
    kafka.make_topic(raw)
    with job(tmp_path, "--once", **more) as child:
        assert child.wait(timeout=400) == FAILED
    why = status(tmp_path)["error"].partition("\n")[0]
    assert status(tmp_path)["running"] is False and why.startswith(f"TopicReplaced: {raw}: deleted and made again")
    assert f"clean: {why}\n" in (tmp_path / "log").read_text()
    # Nothing of before was told again.
    assert len(kafka.read_all(dead)) == 3 and len(kafka.read_all(out)) == 300
