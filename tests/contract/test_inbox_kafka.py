"""The inbox over a real Kafka: order, positions that are never ahead, static members, failures, dead letters."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from iot_mqtt.ports.inbox import Letter
from iot_mqtt.uplink.inbox.kafka import KafkaInbox
from iot_mqtt.uplink.inbox.settings import InboxSettings
from tests.contract.driving import Pump
from tests.enginekit.kafka import KafkaServer

#: From trouble to words.
TELL_SECONDS = 5.0
CLOSE_SECONDS = 3.0


class Recorder:
    """A reader that settles what it is told to, and remembers."""

    def __init__(self, settle: bool = True) -> None:
        self.letters: list[Letter] = []
        self.partitions: set[int] = set()
        self.unfinished: deque[Callable[[], None]] = deque()
        self.settle = settle
        self.patient = False
        self.inbox: KafkaInbox | None = None

    def assigned(self, partitions: Sequence[int]) -> None:
        self.partitions |= set(partitions)

    def came(self, letters: Sequence[Letter]) -> None:
        self.letters += letters
        assert self.inbox is not None
        if self.settle:
            for letter in letters:
                assert letter.partition in self.partitions
                self.inbox.settled(letter.partition, letter.offset + 1)

    def revoked(self, partitions: Sequence[int], done: Callable[[], None]) -> None:
        self.partitions -= set(partitions)
        if self.patient:
            self.unfinished.append(done)
        else:
            done()

    def lost(self, partitions: Sequence[int]) -> None:
        self.partitions -= set(partitions)


class Running:
    """An inbox, the reactor that a test turns, and its reader."""

    def __init__(self, settings: InboxSettings, reader: Recorder) -> None:
        self.pump = Pump()
        self.reader = reader
        self.inbox = KafkaInbox(settings, self.pump.cross, time.monotonic, time.time)
        reader.inbox = self.inbox
        self.inbox.begin(reader)

    def turn(self) -> None:
        while not self.pump.calls.empty():
            self.pump.calls.get()()

    def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> float:
        return until(condition, seconds, self)


def until(condition: Callable[[], bool], seconds: float, *running: Running) -> float:
    """Turn them until it is so; how long that took."""
    began = time.monotonic()
    while not condition():
        took = time.monotonic() - began
        assert took < seconds, f"not within {seconds} s: {[(one.inbox.facts(), one.inbox.trouble) for one in running]}"
        for one in running:
            one.turn()
        time.sleep(0.01)
    return time.monotonic() - began


@contextmanager
def running(settings: InboxSettings, reader: Recorder | None = None) -> Iterator[Running]:
    one = Running(settings, reader or Recorder())
    try:
        yield one
        one.pump.run(one.inbox.close())
    finally:
        one.inbox.abandon()


@pytest.fixture
def settings(kafka: KafkaServer) -> InboxSettings:
    """A topic of three partitions and a group of its own."""
    name = uuid4().hex[:8]
    return InboxSettings(
        {"bootstrap.servers": kafka.address},
        kafka.make_topic(f"in.{name}"),
        f"group-{name}",
        dead_letters=f"dead.{name}",
    )


def write(kafka: KafkaServer, topic: str, count: int, begin: int = 0, *, age: float = 0) -> None:
    """Numbered values, spread by their keys."""
    producer = Producer({"bootstrap.servers": kafka.address})
    written = round((time.time() - age) * 1000)
    for number in range(begin, begin + count):
        producer.produce(topic, b"%d" % number, b"k%d" % (number % 10), timestamp=written)
    assert producer.flush(20) == 0


def kept(kafka: KafkaServer, settings: InboxSettings) -> dict[int, int]:
    """The positions that the group has; -1001: none."""
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": settings.group})
    try:
        asked = [TopicPartition(settings.topic, partition) for partition in range(3)]
        return {one.partition: one.offset for one in consumer.committed(asked, timeout=10)}
    finally:
        consumer.close()


def numbers(reader: Recorder) -> list[int]:
    return sorted(int(letter.value) for letter in reader.letters)


def test_letters_come_in_order_and_the_next_life_goes_on_behind_them(
    kafka: KafkaServer, settings: InboxSettings
) -> None:
    """Each partition in order; a life that ends in peace keeps its positions, and the next one is let in at once."""
    write(kafka, settings.topic, 500)
    reader = Recorder()
    with running(settings, reader) as one:
        one.until(lambda: len(reader.letters) == 500)
        assert one.inbox.trouble is None
    for partition in range(3):
        offsets = [letter.offset for letter in reader.letters if letter.partition == partition]
        assert offsets == list(range(len(offsets)))
    assert sum(kept(kafka, settings).values()) == 500
    write(kafka, settings.topic, 100, 500)
    after = Recorder()
    with running(settings, after) as one:
        took = one.until(lambda: len(after.letters) == 100)
    print(f"let in again after {took:.1f} s")
    assert took < 5
    assert numbers(after) == list(range(500, 600))


def test_what_is_not_settled_comes_again(kafka: KafkaServer, settings: InboxSettings) -> None:
    """A life that is killed without having settled anything but the first letters of each partition."""
    write(kafka, settings.topic, 300)
    reader = Recorder(settle=False)
    one = Running(settings, reader)
    one.until(lambda: len(reader.letters) == 300)
    for partition in range(3):
        one.inbox.settled(partition, 5)
    # In one commit, or in one more than that of where it began.
    until(lambda: kept(kafka, settings) == {0: 5, 1: 5, 2: 5}, 10, one)
    one.inbox.abandon()
    after = Recorder()
    with running(settings, after) as two:
        two.until(lambda: len(after.letters) == 285)
    assert min(letter.offset for letter in after.letters) == 5


def test_a_group_without_a_position_passes_over_what_is_too_old(kafka: KafkaServer, settings: InboxSettings) -> None:
    """What was written before ``max_age`` is not read, and from then on nothing is passed over."""
    write(kafka, settings.topic, 50, age=7200)
    write(kafka, settings.topic, 50, 50)
    reader = Recorder(settle=False)
    with running(settings, reader) as one:
        one.until(lambda: len(reader.letters) == 50)
        one.until(lambda: one.inbox.facts().commits > 0)
    assert numbers(reader) == list(range(50, 100))
    assert sum(kept(kafka, settings).values()) == 50


def test_a_held_inbox_brings_no_more(kafka: KafkaServer, settings: InboxSettings) -> None:
    """Until it goes on; it stays in its group meanwhile."""
    reader = Recorder()
    held: list[Exception | None] = []
    with running(replace(settings, dead_letters=None), reader) as one:
        one.until(lambda: len(reader.partitions) == 3)
        one.inbox.hold()
        # The thread does one thing after the other.
        one.inbox.bury(Letter(settings.topic, 0, 0, None, b"", None), "nothing", held.append)
        one.until(lambda: held == [None])
        until_quiet = time.monotonic() + 1.0
        write(kafka, settings.topic, 100)
        one.until(lambda: time.monotonic() > until_quiet)
        assert reader.letters == []
        assert one.inbox.trouble is None
        one.inbox.go_on()
        one.until(lambda: len(reader.letters) == 100)


def test_partitions_go_to_another_node_when_nothing_is_under_way(kafka: KafkaServer, settings: InboxSettings) -> None:
    """The first node is asked to finish, and keeps them until it has."""
    first, second = Recorder(), Recorder()
    first.patient = True
    with running(settings, first) as one:
        one.until(lambda: len(first.partitions) == 3)
        with running(replace(settings, member="node-2"), second) as two:
            until(lambda: bool(first.unfinished), 30, one, two)
            assert not second.partitions
            first.unfinished.popleft()()
            until(lambda: bool(second.partitions), 30, one, two)
            assert first.partitions | second.partitions == {0, 1, 2}
            write(kafka, settings.topic, 100)
            until(lambda: len(first.letters) + len(second.letters) == 100, 30, one, two)
            first.patient = False


def test_a_letter_is_buried_with_its_reason(kafka: KafkaServer, settings: InboxSettings) -> None:
    """Whole, with where it came from; one that is too large for the topic is cut."""
    assert settings.dead_letters is not None
    kafka.make_topic(settings.dead_letters, 1, max_message_bytes=50_000)
    told: list[Exception | None] = []
    with running(settings) as one:
        one.inbox.bury(Letter(settings.topic, 1, 7, b"k", b"not JSON", None), "it is none", told.append)
        one.inbox.bury(Letter(settings.topic, 1, 8, b"k", b"x" * 100_000, None), "too large", told.append)
        one.until(lambda: len(told) == 2)
    assert told == [None, None]
    small, large = kafka.read_all(settings.dead_letters)
    headers = dict(small.headers)
    assert (small.key, small.value, headers["reason"]) == (b"k", b"not JSON", b"it is none")
    assert (headers["original_topic"], headers["partition"], headers["offset"]) == (settings.topic.encode(), b"1", b"7")
    headers = dict(large.headers)
    assert (len(large.value or b""), headers["size"], headers["cut"]) == (16 * 1024, b"100000", b"16384")


def test_a_topic_that_is_not_there_is_told_and_awaited(kafka: KafkaServer, settings: InboxSettings) -> None:
    """It is read as soon as somebody makes it."""
    absent = replace(settings, topic=f"{settings.topic}.later")
    reader = Recorder()
    with running(absent, reader) as one:
        took = one.until(lambda: absent.topic in str(one.inbox.trouble), TELL_SECONDS)
        print(f"told after {took:.1f} s: {one.inbox.trouble}")
        kafka.make_topic(absent.topic)
        write(kafka, absent.topic, 10)
        one.until(lambda: len(reader.letters) == 10)
        one.until(lambda: one.inbox.trouble is None)


def test_nothing_of_a_topic_that_is_made_again_is_passed_over(kafka: KafkaServer, settings: InboxSettings) -> None:
    """Also when it has more records than were read of the old one, before anybody looks."""
    write(kafka, settings.topic, 10)
    reader = Recorder()
    with running(settings, reader) as one:
        one.until(lambda: len(reader.letters) == 10)
        one.until(lambda: sum(kept(kafka, settings).values()) == 10)
        kafka.remove_topic(settings.topic)
        kafka.make_topic(settings.topic)
        write(kafka, settings.topic, 300, 1000)
        took = one.until(lambda: set(numbers(reader)) >= set(range(1000, 1300)))
        print(f"all there after {took:.1f} s")
        one.until(lambda: one.inbox.trouble is None)
        assert one.inbox.facts().restarts >= 1


def test_a_topic_that_is_made_again_with_fewer_partitions_is_read(kafka: KafkaServer, settings: InboxSettings) -> None:
    """The group still gives out those that are gone: they are taken for empty, and what is there is read."""
    fewer = replace(settings, topic=kafka.make_topic(f"{settings.topic}.six", 6))
    reader = Recorder()
    with running(fewer, reader) as one:
        one.until(lambda: len(one.inbox.facts().partitions) == 6)
        write(kafka, fewer.topic, 60)
        one.until(lambda: len(reader.letters) == 60)
        kafka.remove_topic(fewer.topic)
        kafka.make_topic(fewer.topic, 2)
        write(kafka, fewer.topic, 50, 1000)
        took = one.until(lambda: set(numbers(reader)) >= set(range(1000, 1050)), 60.0)
        print(f"all there after {took:.1f} s, {one.inbox.facts()}")
        one.until(lambda: one.inbox.trouble is None)
        write(kafka, fewer.topic, 10, 2000)
        one.until(lambda: set(numbers(reader)) >= set(range(2000, 2010)))


def test_a_node_that_was_stopped_goes_on_with_the_oldest_command_that_is_left(
    kafka: KafkaServer, settings: InboxSettings
) -> None:
    """Retention has taken what was not read: what comes later is read in the same life, and from there on the next."""
    write(kafka, settings.topic, 100)
    with running(settings) as one:
        one.until(lambda: len(one.reader.letters) == 100)
    write(kafka, settings.topic, 100, 100)
    begins = kafka.take_records(settings.topic)
    reader, after = Recorder(settle=False), Recorder()
    with running(settings, reader) as one:
        # Nothing is settled, and the position is the new one all the same.
        one.until(lambda: kept(kafka, settings) == begins)
        write(kafka, settings.topic, 50, 200)
        one.until(lambda: numbers(reader) == list(range(200, 250)))
        one.until(lambda: one.inbox.facts().joined, TELL_SECONDS)
        assert (one.inbox.trouble, one.inbox.facts().restarts) == (None, 0)
    with running(settings, after) as one:
        one.until(lambda: numbers(after) == list(range(200, 250)))


def test_a_node_that_is_overtaken_by_retention_goes_on_with_the_oldest_command_that_is_left(
    kafka: KafkaServer, settings: InboxSettings
) -> None:
    """It runs, and holds its inbox; one that is held still reads nothing after that either."""
    reader = Recorder()
    held: list[Exception | None] = []
    with running(replace(settings, dead_letters=None), reader) as one:
        write(kafka, settings.topic, 100)
        one.until(lambda: len(reader.letters) == 100)
        one.inbox.hold()
        one.inbox.bury(Letter(settings.topic, 0, 0, None, b"", None), "nothing", held.append)
        one.until(lambda: held == [None])
        # More than librdkafka has read ahead.
        write(kafka, settings.topic, 100, 100)
        begins = kafka.take_records(settings.topic)
        write(kafka, settings.topic, 50, 200)
        one.inbox.go_on()
        one.until(lambda: set(numbers(reader)) >= set(range(200, 250)))
        one.until(lambda: kept(kafka, settings).keys() == begins.keys() and sum(kept(kafka, settings).values()) == 250)
        assert (one.inbox.trouble, one.inbox.facts().restarts) == (None, 0)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_kafka_that_is_away_is_told_and_awaited(kafka: KafkaServer, settings: InboxSettings, how: str) -> None:
    """Refused or hanging: words within five seconds, and everything when it is back."""
    write(kafka, settings.topic, 100)
    reader = Recorder()
    with running(settings, reader) as one:
        one.until(lambda: len(reader.letters) == 100)
        if how == "kill":
            kafka.kill()
        else:
            kafka.stop()
        took = one.until(lambda: one.inbox.trouble is not None, TELL_SECONDS)
        print(f"{how}: told after {took:.1f} s: {one.inbox.trouble}")
        if how == "kill":
            kafka.start()
        else:
            kafka.cont()
        write(kafka, settings.topic, 100, 100)
        took = one.until(lambda: set(numbers(reader)) == set(range(200)), 60)
        print(f"{how}: all there after {took:.1f} s")
        one.until(lambda: one.inbox.trouble is None)


def test_a_kafka_that_does_not_let_it_in_is_told(kafka: KafkaServer, settings: InboxSettings) -> None:
    """A wrong password: the words say so."""
    wrong = {
        "bootstrap.servers": kafka.secure,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(kafka.ca),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "nobody",
        "sasl.password": "wrong",
    }
    one = Running(replace(settings, connection=wrong), Recorder())
    try:
        took = one.until(lambda: "uthentication" in str(one.inbox.trouble), TELL_SECONDS + 1)
        print(f"told after {took:.1f} s: {one.inbox.trouble}")
    finally:
        one.inbox.abandon()


def test_another_node_of_the_same_name_is_told(settings: InboxSettings) -> None:
    """The one that came first says why it does not get anything any more."""
    first, second = Recorder(), Recorder()
    one = Running(settings, first)
    one.until(lambda: len(first.partitions) == 3)
    two = Running(settings, second)
    try:
        until(lambda: "another node" in str(one.inbox.trouble), 20, one, two)
        print(one.inbox.trouble)
    finally:
        one.inbox.abandon()
        two.inbox.abandon()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_it_closes_while_kafka_is_away(kafka: KafkaServer, settings: InboxSettings, how: str) -> None:
    """A node that is told to stop does not wait for a Kafka that is not there."""
    write(kafka, settings.topic, 100)
    reader = Recorder(settle=False)
    with running(settings, reader) as one:
        one.until(lambda: len(reader.letters) == 100)
        if how == "kill":
            kafka.kill()
        else:
            kafka.stop()
        one.inbox.settled(0, 1)
        began = time.monotonic()
        one.pump.run(one.inbox.close())
        took = time.monotonic() - began
        print(f"{how}: closed after {took:.1f} s")
        assert took < CLOSE_SECONDS
