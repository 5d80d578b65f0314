"""Records into one topic of Kafka; those that it does not take come back with the reason, and stop nobody.

::

    records ─▶ size ─▶ what the topic takes ─▶ Kafka ─▶ (refused? in halves, until what is refused is alone)
                └────▶ what is larger ────────────────────────────────────┴────▶ refused: key, value, reason

What a topic takes is asked of Kafka. Where it does not say, or takes less than it says, its refusal counts. Only what
is about a record itself is a refusal: a login that fails or a topic that is not there is an error, and the batch is
sent again. What was refused among others may have been sent in part before, so records arrive at least once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from iot_spark.causes import FAILURES, chain, names
from iot_spark.kafka_admin import TopicMissing, admin, is_missing

#: Kafka's own default of what a topic takes, and of what its client sends.
USUAL_LIMIT = 1_048_588
CLIENT_LIMIT = 1_048_576
#: Bytes of the client's memory for what is under way.
CLIENT_BUFFER = 33_554_432
#: What a record takes beside key and value, alone in its batch; the client counts 82 and a little.
OVERHEAD = 128
CLIENT_BATCH = 16_384
ASK_MS = 5000
#: Writes that telling records apart may take; what is together then is refused together.
MOST_WRITES = 200

TOO_LARGE = frozenset({"RecordTooLargeException", "RecordBatchTooLargeException"})
INVALID = frozenset({"InvalidRecordException", "InvalidTimestampException"})
_BESIDE_INVALID = "part of a batch which had one more more invalid records"
TEXTS = "_texts"
#: Bytes of JSON that one byte of a text may become, and what is beside texts.
ESCAPED = 6
_BESIDE_TEXTS = 8192
_SIZE, _NUMBER, REASON = "_size", "_number", "_reason"


class Topic:
    """One topic that a job writes to. ``options`` are those of Spark's connector, with the servers."""

    def __init__(self, spark: SparkSession, name: str, options: Mapping[str, str]) -> None:
        self._spark = spark
        self.name = name
        self._options = dict(options)
        self._limit: int | None = None
        #: Nobody has said what the topic takes, so records are not put together.
        self._is_guess = False

    @property
    def limit(self) -> int:
        """Bytes that a record may have, with all that is around it."""
        if self._limit is None:
            self._limit = self._asked()
        return self._limit

    def send(self, records: DataFrame) -> DataFrame | None:
        """Send ``key`` and ``value`` of each; what was refused comes back with all its columns and ``REASON``.

        ``TEXTS``, if it is there, are the bytes of the texts in a record: of what has few of them the value need not be
        made a second time to be measured.
        """
        sized = records.withColumn(_SIZE, _size())
        limit = self.limit
        large = F.col(_SIZE) > limit
        if TEXTS in records.columns:
            large = (F.col(TEXTS) * ESCAPED + _BESIDE_TEXTS > limit) & large
        try:
            self._write(sized.where(~large))
        except FAILURES as error:
            # The topic may take less by now; the client may have tried in vain until it timed out.
            self._limit = None
            if self.limit < limit:
                return self.send(records)
            if refusal(error, self.name) is None:
                raise
            return self._sent_apart(sized)
        found = sized.where(large).withColumn(REASON, F.lit(_too_large(self.name)))
        return None if found.isEmpty() else found

    def _sent_apart(self, sized: DataFrame) -> DataFrame | None:
        """Again, for a topic that takes less than it says."""
        numbered = sized.coalesce(1).withColumn(_NUMBER, F.monotonically_increasing_id())
        numbered = numbered.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            refused = self._in_halves(numbered, self.limit)
            if not refused:
                return None
            reason = reduce(lambda chosen, one: chosen.when(one[0], one[1]), refused[1:], F.when(*refused[0]))
            found = numbered.withColumn(REASON, reason).where(F.col(REASON).isNotNull()).drop(_NUMBER)
            # They are few, and what they come from is let go of.
            return found.localCheckpoint(eager=True)
        finally:
            numbered.unpersist()

    def _in_halves(self, numbered: DataFrame, limit: int) -> list[tuple[Column, str]]:
        """Which of them are refused, and why; all others are sent, in their order."""
        refused: list[tuple[Column, str]] = []
        ranges, writes = [(0, numbered.count())], 0
        while ranges:
            first, end = ranges.pop()
            here = (F.col(_NUMBER) >= first) & (F.col(_NUMBER) < end)
            large = F.col(_SIZE) > limit
            refused.append((here & large, _too_large(self.name)))
            part = numbered.where(here & ~large)
            try:
                writes += 1
                self._write(part)
            except FAILURES as error:
                why = refusal(error, self.name)
                if why is None:
                    raise
                if end - first > 1 and writes < MOST_WRITES:
                    refused.pop()
                    middle = (first + end) // 2
                    ranges += [(middle, end), (first, middle)]
                    continue
                refused.append((here, why))
                if names(error) & TOO_LARGE and end - first == 1:
                    # What is as large need not be tried.
                    limit = part.select(_SIZE).collect()[0][0] - 1
        return refused

    def _write(self, records: DataFrame) -> None:
        limit = max(self.limit, CLIENT_LIMIT)
        # A batch that is refused for its size and is not larger than this is sent again, and never split.
        batch = 1 if self._is_guess else min(CLIENT_BATCH, self.limit)
        more = {
            "kafka.max.request.size": str(limit),
            "kafka.batch.size": str(batch),
            "kafka.buffer.memory": str(max(CLIENT_BUFFER, 2 * limit)),
        }
        out = records.select("key", "value").write.format("kafka")
        try:
            out.options(**(more | self._options)).option("topic", self.name).save()
        except FAILURES as error:
            if is_missing(error):
                raise TopicMissing(self.name) from None
            raise

    def _asked(self) -> int:
        """What the topic says; Kafka's default where it is not there yet, or may not be looked at."""
        told = int(self._options.get("kafka.max.request.size", "0")) or None
        found = self._described()
        self._is_guess = found is None
        return min(one for one in (found or USUAL_LIMIT, told) if one is not None)

    def _described(self) -> int | None:
        jvm: Any = self._spark._jvm
        common = jvm.org.apache.kafka.common.config
        try:
            with admin(self._spark, self._options, ASK_MS) as client:
                topic = common.ConfigResource(getattr(common.ConfigResource, "Type").TOPIC, self.name)  # noqa: B009
                said = client.describeConfigs(jvm.java.util.Collections.singleton(topic)).all()
                found = said.get(ASK_MS, jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
                return int(found.get(topic).get("max.message.bytes").value())
        except (Py4JError, TypeError, ValueError, AttributeError):
            # It may not be looked at; or a client is not there, or will not start, and whoever sends is told why.
            return None


def refusal(error: BaseException, topic: str) -> str | None:
    """Why a record is refused for good; None: the record is not what is wrong."""
    found = names(error)
    if found & TOO_LARGE:
        return _too_large(topic)
    # Of a batch, only those that are invalid themselves are told so by the class.
    is_beside = any(_BESIDE_INVALID in text for _, text in chain(error))
    return f"refused by the topic {topic}" if found & INVALID or is_beside else None


def _too_large(topic: str) -> str:
    return f"too large for the topic {topic}"


def _size() -> Column:
    key = F.coalesce(F.octet_length("key"), F.lit(0))
    return key + F.coalesce(F.octet_length("value"), F.lit(0)) + F.lit(OVERHEAD)
