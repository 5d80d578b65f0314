"""Topics that take little: they have a producer of their own, so that nobody else waits for them.

A batch must not be larger than its topic takes, and what may be too large by itself goes alone, with nothing before or
behind it under way. Here both are about the narrow topics only::

    outlet ─▶ records of wide topics ─▶ its own producer, in large batches
         └──▶ records of narrow topics ─▶ waiting ─▶ a producer with small batches
                                                └──▶ ``Lone``, one by one
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from iot_mqtt.ports.uplink import Record
from iot_mqtt.uplink.kafka.client import Report, error_of, let_go
from iot_mqtt.uplink.kafka.lone import Lone, Steps

#: A topic that takes less than this many bytes is narrow.
NARROW = 65_536
#: Records between two looks at what else there is to do.
STRIDE = 128
#: Kafka's format: of a batch, and of a record in it beside key, value and headers; and of each header. Numbers of
#: variable length at their longest.
_BATCH = 61
_RECORD = 36
_HEADER = 10
#: A character of a key has so many bytes at most.
CHARACTER = 4


def beside(headers: tuple[tuple[str, bytes], ...]) -> int:
    """Bytes that a record alone in its batch has at most beside key and value."""
    return _BATCH + _RECORD + sum(_HEADER + CHARACTER * len(name) + len(value) for name, value in headers)


def size_of(record: Record) -> int:
    """Bytes that a record has at most, alone in its batch: what Kafka holds against ``max.message.bytes``."""
    return beside(record.headers) + len(record.key.encode("utf-8", "replace")) + len(record.value)


class Waiting(NamedTuple):
    """A record of a narrow topic."""

    record: Record
    #: Bytes that its topic takes.
    limit: int
    #: Stands for the batch that it is of, which is over when nobody has this any more.
    report: Report
    spool: str
    #: To be sent alone, whatever its size.
    careful: bool


class Narrow:
    """``make`` makes a producer with so many bytes in a batch."""

    def __init__(self, make: Callable[[int], Producer], lone: Lone, batch_bytes: int) -> None:
        self._make = make
        self._lone = lone
        self._most = self._batch_bytes = min(NARROW, batch_bytes)
        self._producer: Producer | None = None
        self.wrong: KafkaError | None = None
        self._waiting: deque[Waiting] = deque()
        #: Records that are taken from there, and not given to the producer.
        self._taken = 0
        self._feeding = self._feed()

    def drop(self) -> None:
        """Forget what is under way."""
        if self._producer is not None:
            let_go(self._producer)
        self._producer = self.wrong = None
        self._batch_bytes = self._most
        self._waiting.clear()
        self._taken, self._feeding = 0, self._feed()

    def put(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)

    def __len__(self) -> int:
        """Records that are not in Kafka."""
        return len(self._waiting) + self._taken + (0 if self._producer is None else len(self._producer))

    def poll(self) -> None:
        """Hear what became of them."""
        if self._producer is not None:
            try:
                self._producer.poll(0)
            except KafkaException as error:
                self.wrong = self.wrong or error_of(error)

    def step(self) -> bool:
        """Do what can be done; True: there is more to do at once."""
        return next(self._feeding)

    def _feed(self) -> Steps:
        while True:
            yield bool(self._waiting)
            for _ in range(min(STRIDE, len(self._waiting))):
                record, limit, report, spool, careful = self._waiting.popleft()
                self._taken = 1
                if self._producer is None or limit < self._batch_bytes:
                    yield from self._empty()
                    self._batch_bytes = min(limit, self._batch_bytes)
                    self._producer = self._make(self._batch_bytes)
                if careful or size_of(record) > limit or not self._given(self._producer, record, report):
                    yield from self._empty()
                    yield from self._lone.send(record, spool)
                self._taken = 0
                del report
                while self.wrong is not None:
                    yield False

    def _given(self, producer: Producer, record: Record, report: Report) -> bool:
        """Give a record to the producer; False: the library does not take such a one."""
        topic, key, value, headers, timestamp, _ = record
        try:
            # What waits in it is bounded by the sink.
            producer.produce(topic, value, key, -1, report, None, timestamp, list(headers))
        except (TypeError, ValueError):
            return False
        except KafkaException as error:
            self.wrong = error_of(error)
        return True

    def _empty(self) -> Steps:
        while self._producer is not None and len(self._producer):
            yield False
