"""What a topic of a real Kafka refuses is told apart, and everything else arrives, whatever was known before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from iot_spark import kafka_out
from iot_spark.causes import FAILURES, root_cause
from iot_spark.kafka_out import OVERHEAD, REASON, Topic
from iot_spark.schema import INVALID
from iot_spark.senders import Letters
from iot_spark.session import connector
from iot_spark.sinks import TableSink
from iot_spark.sources import read_table
from pyspark.sql import DataFrame, SparkSession

from tests.enginekit.kafka import KafkaServer
from tests.spark.test_sinks import Query

pytestmark = [
    pytest.mark.skipif(len(connector()) < 4, reason="needs mvn -q -B -f spark/pom.xml package"),
    pytest.mark.timeout(600),
]


def told(kafka: KafkaServer) -> Mapping[str, str]:
    return {"kafka.bootstrap.servers": kafka.address}


def records(spark: SparkSession, values: Iterable[str], key: str | None = "k") -> DataFrame:
    return spark.createDataFrame([(key, value) for value in values], "key string, value string").coalesce(1)


def sent(topic: Topic, frame: DataFrame) -> list[tuple[str, str]]:
    """The values that were refused, each with its reason."""
    refused = topic.send(frame)
    return [] if refused is None else sorted((row.value, row[REASON]) for row in refused.collect())


def there(kafka: KafkaServer, topic: Topic) -> set[str]:
    return {(found.value or b"").decode() for found in kafka.read_all(topic.name)}


LIMIT = 20_000
SIZES = ["a" * size for size in (7, 1, 500, 1000, 5000, 30_000, 60_000)]


@pytest.mark.parametrize("known", ["before", "when it is refused", "never"])
def test_what_is_too_large_comes_back_and_the_rest_arrives(
    spark: SparkSession, kafka: KafkaServer, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic says its limit; or says it anew when it refuses; or says nothing, and is asked by trying."""
    topic = Topic(spark, kafka.make_topic(f"large.{known.split(maxsplit=1)[0]}", max_message_bytes=LIMIT), told(kafka))
    if known == "before":
        assert topic.limit == LIMIT
    elif known == "when it is refused":
        topic._limit = 1_000_000
    else:
        monkeypatch.setattr(Topic, "_described", lambda self: None)
        assert topic.limit == 1_048_576 + 12
    assert sent(topic, records(spark, SIZES)) == [
        (value, f"too large for the topic {topic.name}") for value in sorted(SIZES) if len(value) > LIMIT
    ]
    assert there(kafka, topic) == {value for value in SIZES if len(value) < LIMIT - OVERHEAD}
    # More than the client sends by itself, if the topic takes it.
    kafka.alter_topic(topic.name, max_message_bytes=3_000_000)
    larger = Topic(spark, topic.name, told(kafka))
    if known == "before":
        assert sent(larger, records(spark, ["b" * 2_500_000])) == []


def test_what_is_refused_for_another_reason_is_told_apart(
    spark: SparkSession, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compacted topic takes no record without a key; with too many tries what is together is refused together."""
    topic = Topic(spark, kafka.make_topic("compacted", cleanup_policy="compact"), told(kafka))
    keyed, bare = records(spark, [f"k{n}" for n in range(20)]), records(spark, ["x", "y"], key=None)
    reason = f"refused by the topic {topic.name}"
    assert sent(topic, keyed.union(bare)) == [("x", reason), ("y", reason)]
    assert there(kafka, topic) == {f"k{n}" for n in range(20)}
    monkeypatch.setattr(kafka_out, "MOST_WRITES", 1)
    assert len(sent(topic, keyed.union(bare))) == 22


def test_an_error_that_is_about_no_record_is_an_error(spark: SparkSession, tmp_path: Path, kafka: KafkaServer) -> None:
    """It says why in a sentence, the batch stays decided, and the next life sends it."""
    topic = Topic(spark, kafka.make_topic("away"), {**told(kafka), "kafka.acks": "nonsense"})
    with pytest.raises(FAILURES) as caught:
        topic.send(records(spark, ["a"]))
    assert "acks" in root_cause(caught.value) and "\n" not in root_cause(caught.value)
    assert "Exception: " in root_cause(caught.value)


def test_a_dead_letter_that_is_too_large_is_shortened(spark: SparkSession, kafka: KafkaServer) -> None:
    """With the beginning of the message, how long it was, and its digest; in the end only what must be known."""
    raw = 'a "quoted" beginning ' + "\x01é😀" * 20_000
    problems = [("t" * 200, "value is null")] * 100
    letter = (raw, "value is null", "t", 100, problems, "iot.readings", None, None)
    for name, limit, cut in (("letters.mid", 60_000, 21), ("letters.small", 2000, 20)):
        topic = Topic(spark, kafka.make_topic(name, max_message_bytes=limit), told(kafka))
        Letters(topic)(spark.createDataFrame([letter], INVALID))
        [found] = kafka.read_all(name)
        said = json.loads(found.value or b"")
        assert len(found.value or b"") <= limit
        assert raw.startswith(said["raw"]) and len(said["raw"]) >= cut and said["reason"] == "value is null"
        assert said["raw_bytes"] == len(raw.encode()) and said["tags"] == 100
        assert said["raw_sha256"] == hashlib.sha256(raw.encode()).hexdigest()


class Refusing(Query):
    """A query whose topic refuses the odd numbers."""

    def __init__(self, spark: SparkSession, root: Path, run: str = "11111111") -> None:
        super().__init__(spark, root, run)
        self.letters: list[str] = []

    def life(self, number: int, *numbers: int, offsets: str = "", dies: bool = False) -> None:
        self.sink = TableSink(self.spark, self.root / "tables", "q", self.checkpoint)
        self.sink.open(patience=0)
        (self.checkpoint / "offsets" / str(number)).write_text(offsets or str(number))

        def refuse(rows: DataFrame) -> DataFrame:
            fields = {"raw": "concat('n', n)", "reason": "'odd'", "dt": "dt"}
            names = [
                f"cast({fields.get(one.name, 'null')} as {one.dataType.simpleString()}) {one.name}" for one in INVALID
            ]
            return rows.where("n % 2 = 1").selectExpr(*names)

        def letters(rows: DataFrame) -> None:
            self.letters = sorted(row.raw for row in rows.collect())
            if dies:
                raise KeyboardInterrupt

        try:
            with self.sink.batch(number) as batch:
                batch.send("one", refuse)
                batch.send("invalid", letters)
                batch.table("one", self.rows(*numbers))
        finally:
            self.sink.close()


def test_what_was_refused_is_a_dead_letter_once_wherever_it_ended(spark: SparkSession, tmp_path: Path) -> None:
    """In the table, counted, sent with the other letters; killed after that it is done again, and there once."""
    query = Refusing(spark, tmp_path)
    query.life(0, 2, 4)
    assert not (tmp_path / "tables" / "invalid").exists()
    with pytest.raises(KeyboardInterrupt):
        query.life(1, 1, 2, 3, dies=True)
    assert read_table(spark, tmp_path / "tables", "invalid", INVALID).count() == 0
    query.life(1, 1, 2, 3)
    found = read_table(spark, tmp_path / "tables", "invalid", INVALID).collect()
    assert sorted(row.raw for row in found) == query.letters == ["n1", "n3"]
    assert query.sink.state.totals == {"refused": 2, "invalid": 2}
    assert query.sink.state.named["invalid"] == {"odd": 2}
    assert query.read("one") == [1, 2, 2, 3, 4]
