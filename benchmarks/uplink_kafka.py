"""How many records a second the Kafka sink hands to a real Kafka, and how that compares to the bare library.

    python -m benchmarks.uplink_kafka                       200,000 records of 100 bytes, a Kafka started for it
    python -m benchmarks.uplink_kafka --address HOST:PORT   one that runs already; topics bench-* are written to
    python -m benchmarks.uplink_kafka --compression zstd --linger 0.05

In turns, in one process: the sink through ``send``, as the reader of the log uses it; and ``produce`` in a loop with
what anybody would write (the same properties, key, headers and time, a callback that counts). And the whole way: a
broker, MQTT publishers at QoS 1 with runs of 250 messages, until Kafka has all of it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.durable import Node, say
from benchmarks.flood import STRIDE, publish
from benchmarks.uplink import JsonPublisher
from benchmarks.whole import cpu_seconds
from iot_mqtt.app.engines import Cluster, Places, Plan
from iot_mqtt.ports.uplink import Place, Record
from iot_mqtt.uplink.kafka.settings import KafkaSettings, producing
from iot_mqtt.uplink.kafka.sink import KafkaSink

#: What the reader of the log hands over at once.
BATCH = 1000
VALUE = 100
SECONDS = 300.0
PUBLISHERS = 4


def _records(count: int, keys: int, run: int = 10) -> list[Record]:
    """Messages of a publisher come in runs, whose headers are one object."""
    value, found = b"v" * VALUE, list[Record]()
    for first in range(0, count, run):
        gateway = f"gw{first // run % keys}"
        headers = (
            ("node", b"node-1"),
            ("gateway", gateway.encode()),
            ("codec", b"gateway"),
            ("schema", b"1"),
            ("ingest_ts", b"1790000000000"),
        )
        for position in range(first, min(first + run, count)):
            found.append(Record("bench-sink", f"{gateway}/d", value, headers, 1_790_000_000_000, position))
    return found


class _Timer:
    """Rate, and what of the processor it took."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._began, self._used = time.perf_counter(), time.process_time()

    def say(self, what: str, **more: float | str) -> float:
        rate = self._count / (time.perf_counter() - self._began)
        used = (time.process_time() - self._used) / self._count * 1e6
        say(what, records_per_s=rate, cpu_us_per_record=used, **more)
        return rate


def _through_sink(settings: KafkaSettings, records: Sequence[Record]) -> float:
    calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
    sink = KafkaSink(settings, calls.put, time.monotonic)
    opened: list[int] = []
    safe: list[BaseException | None] = []
    sink.open(Place("bench.0", 0)).addCallback(opened.append)
    while not opened:
        calls.get(timeout=SECONDS)()
    batches = [records[at : at + BATCH] for at in range(0, len(records), BATCH)]
    timer, own = _Timer(len(records)), time.thread_time()
    for batch in batches:
        room = sink.send(batch, safe.append)
        while not (room and calls.empty()):
            calls.get(timeout=SECONDS)()
            room = room or not sink.is_full
    while len(safe) < len(batches):
        calls.get(timeout=SECONDS)()
    reactor = (time.thread_time() - own) / len(records) * 1e6
    rate = timer.say("the sink", reactor_us_per_record=reactor)
    sink.close()
    assert not any(safe), f"not safe: {sink.trouble}"
    return rate


def _bare(settings: KafkaSettings, records: Sequence[Record]) -> float:
    producer = Producer(producing(settings))
    counts = [0, 0]

    def reported(error: KafkaError | None, _: Message) -> None:
        counts[error is not None] += 1

    producer.list_topics(timeout=10)
    timer = _Timer(len(records))
    for number, record in enumerate(records):
        producer.produce(
            "bench-bare",
            record.value,
            record.key,
            on_delivery=reported,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
        if not number % BATCH:
            producer.poll(0)
    producer.flush(SECONDS)
    assert counts == [len(records), 0]
    return timer.say("confluent-kafka alone")


def main(arguments: list[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="benchmarks.uplink_kafka")
    parser.add_argument("--address", help="of a Kafka that runs already")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compression", default="lz4")
    parser.add_argument("--linger", type=float, default=KafkaSettings(()).linger_seconds)
    told = parser.parse_args(arguments)
    records = _records(told.records, told.keys)
    with ExitStack() as stack:
        address = told.address or stack.enter_context(_kafka())
        settings = KafkaSettings(
            (address,), told.compression, told.linger, create_topics=True, buffer_bytes=KafkaSettings(()).buffer_bytes
        )
        ratios: list[float] = []
        whole: list[float] = []
        _through_sink(settings, records[:BATCH])
        for _ in range(told.rounds):
            bare = _bare(settings, records)
            ratios.append(_through_sink(settings, records) / bare)
            whole.append(_whole_way(address, told.records) / bare)
        for name, found in (("the sink", ratios), ("from publishers to Kafka", whole)):
            say(f"{name}, as a part of the library alone", median=sorted(found)[len(found) // 2], best=max(found))
    return 0


class KafkaNode(Node):
    """A broker that feeds a Kafka."""

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder, "iot-mqtt")
        self._address = address

    def _command(self) -> list[str]:
        more = [
            "uplink.kind=kafka",
            f"uplink.kafka.bootstrap_servers=[{self._address}]",
            'uplink.rules=[{filter: "up/#", to: bench-whole}]',
            "uplink.kafka.create_topics=true",
            "uplink.commands.topic=null",
            "listeners.gateway.enabled=false",
        ]
        return [*super()._command(), *(word for setting in more for word in ("--set", setting))]


def _whole_way(address: str, records: int) -> float:
    """Records a second from the first publish until Kafka has the last one."""
    folder = Path(tempfile.mkdtemp(prefix="bench-way-"))
    node = KafkaNode(folder / "node", address)
    each = records // PUBLISHERS // STRIDE * STRIDE
    try:
        node.start()
        cpu, began = cpu_seconds(node.pid), time.monotonic()
        made = [JsonPublisher(node.port, f"p{number}", [f"up/p{number}/d"]) for number in range(PUBLISHERS)]
        published = publish(made, each, SECONDS)
        while node.metrics()["iot_mqtt_uplink_safe_messages_total"] < each * PUBLISHERS:
            assert time.monotonic() - began < SECONDS, "Kafka has not got all of it"
            time.sleep(0.02)
        count = each * PUBLISHERS
        rate = count / (time.monotonic() - began)
        used = (cpu_seconds(node.pid) - cpu) / count * 1e6
        say("from publishers to Kafka", records_per_s=rate, published_per_s=count / published, cpu_us_per_record=used)
        return rate
    finally:
        node.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _kafka() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="bench-kafka-"))
    cluster = Cluster(folder, Places.find(), die_with_parent=True)
    try:
        cluster.up(Plan.make(kafka=1))
        yield cluster.plan.addresses("kafka")[0]
    finally:
        cluster.down(purge=True, gently=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
