"""Which topics of Kafka a checkpoint is about: by their ids, because a name may be that of another topic by now.

::

    <checkpoint>/topics.json        {"iot.readings": "5ZqWXw9VTTKvNbiRqFKSxA"}

Spark keeps offsets by a topic's name. After a topic was deleted and made again such an offset may lie within the new
one, and what is before it would be passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from iot_spark.kafka_admin import topic_ids
from iot_spark.settings import Source
from iot_spark.sinks import replace_json
from iot_spark.sources import kafka_options

_FILE = "topics.json"
#: Kafka may be about to start.
_ASK_MS = 60_000


class TopicReplaced(Exception):
    """A topic has the name of the one that the checkpoint is about, and is another one."""


def hold_to_topics(spark: SparkSession, source: Source, checkpoint: Path) -> None:
    """Before a query over a source starts: its topics are those that its checkpoint speaks of, or new to it."""
    if source.kind != "kafka":
        return
    found = topic_ids(spark, kafka_options(source), source.topics, _ASK_MS)
    path = checkpoint / _FILE
    compare(json.loads(path.read_bytes()) if path.exists() else {}, found, checkpoint)
    replace_json(path, found)


def compare(known: Mapping[str, str], found: Mapping[str, str], checkpoint: Path) -> None:
    """Raise ``TopicReplaced`` if a topic has another id than it had."""
    replaced = [topic for topic, now in found.items() if known.get(topic, now) != now]
    if replaced:
        raise TopicReplaced(
            f"{', '.join(replaced)}: deleted and made again since the job has read it, and what it had not read of the "
            f"old topic is gone. Remove {checkpoint} and keep the tables: the job then begins with the oldest record "
            "that there is, and passes over what it has already"
        )
