"""The Kafka sink against the contract, over a real Kafka, and each thing that Kafka can do to it."""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.uplink import Done, MadeTopic, Record, Sink
from iot_mqtt.uplink.kafka.narrow import size_of
from iot_mqtt.uplink.kafka.settings import KafkaSettings, SecuritySettings
from iot_mqtt.uplink.kafka.sink import KafkaSink
from tests.contract.driving import Pump
from tests.contract.uplink_suite import CAME, Feed, SinkKit, SinkSuite, record
from tests.enginekit.kafka import PASSWORD, USERNAME, Found, KafkaServer, running_kafka

#: From trouble to its words, and from its end to the end of the words.
TELL_SECONDS = 5.0

_numbers = itertools.count(1)


class KafkaKit:
    """Topics of their own for each test, seen under the names that the suite uses."""

    def __init__(self, kafka: KafkaServer, **told: object) -> None:
        self.kafka = kafka
        self.pump = Pump()
        self.prefix = f"t{next(_numbers)}-"
        settings = KafkaSettings((kafka.address,), create_topics=True, dead_letters=self.topic("dead"))
        self.settings = replace(settings, **told)  # type: ignore[arg-type]
        self.sinks: list[KafkaSink] = []

    def topic(self, name: str) -> str:
        return self.prefix + name

    def make(self) -> Sink:
        sink = Renaming(self.settings, self.pump.cross, time.monotonic)
        sink.prefix = self.prefix
        self.sinks.append(sink)
        return sink

    def finish(self) -> None:
        """Time passes by itself."""

    def read(self) -> list[tuple[str, bytes]]:
        topics = [topic for topic in self.kafka.topics() if topic.startswith(self.prefix)]
        return [
            (topic.removeprefix(self.prefix), one.value or b"")
            for topic in topics
            for one in self.kafka.read_all(topic)
        ]

    def found(self, name: str = "t") -> list[Found]:
        return self.kafka.read_all(self.topic(name))

    def break_it(self) -> None:
        self.kafka.kill()

    def repair(self) -> None:
        self.kafka.start()

    def end(self) -> None:
        for sink in self.sinks:
            sink.abandon()


class Renaming(KafkaSink):
    """Puts a prefix before each topic."""

    prefix = ""

    def send(self, records: Sequence[Record], done: Done) -> bool:
        return super().send([one._replace(topic=self._prefixed(one.topic)) for one in records], done)

    def _prefixed(self, topic: str) -> str:
        named = self.prefix + topic
        return MadeTopic(named, self.prefix + topic.other) if isinstance(topic, MadeTopic) else named


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A Kafka that makes no topics on its own."""
    with running_kafka(tmp_path_factory.mktemp("sealed"), "auto.create.topics.enable=false\n") as server:
        yield server


@pytest.fixture
def make_kit(kafka: KafkaServer) -> Iterator[Callable[..., KafkaKit]]:
    """Kits, with settings of ``KafkaSettings``; their sinks end with the test."""
    kits: list[KafkaKit] = []

    def make(**told: object) -> KafkaKit:
        kits.append(KafkaKit(kafka, **told))
        return kits[-1]

    yield make
    kafka.quota(None)
    for kit in kits:
        kit.end()


class TestKafkaSink(SinkSuite):
    """Over a real Kafka and a real thread."""

    @pytest.fixture
    def kit(self, make_kit: Callable[..., KafkaKit]) -> SinkKit:
        return make_kit()


class Flow:
    """Records of some keys, numbered for each, sent and looked for in Kafka."""

    def __init__(self, kit: KafkaKit) -> None:
        self.kit = kit
        self.feed = Feed(kit)
        self.sink = self.feed.sink
        self.position = self.batches = 0
        self.numbers: dict[str, int] = {}

    def open(self) -> None:
        self.feed.open()

    def send(self, batches: int = 1, records: int = 10, size: int = 0) -> None:
        """So many batches, whose records belong to five keys in turn."""
        for _ in range(batches):
            made = []
            for _ in range(records):
                key = f"gw/{self.position % 5}"
                number = self.numbers[key] = self.numbers.get(key, -1) + 1
                value = b'{"n":%d,"fill":"%s"}' % (number, b"x" * size)
                made.append(Record("t", key, value, (("node", b"n1"), ("codec", b"c")), CAME, self.position))
                self.position += 1
            self.feed.send(self.batches, *made)
            self.batches += 1

    def until(self, condition: Callable[[], bool], seconds: float = 30) -> float:
        """Do what crosses until it is so; how long that took."""
        began, pump = time.monotonic(), self.kit.pump
        while not condition():
            assert time.monotonic() - began < seconds, f"not in {seconds} s; trouble: {self.sink.trouble}"
            if pump.calls.empty():
                time.sleep(0.01)
            else:
                pump.calls.get()()
        return time.monotonic() - began

    def until_trouble(self, words: str) -> None:
        """It is told in time, with words."""
        took = self.until(lambda: words in (self.sink.trouble or ""), TELL_SECONDS)
        print(f"told after {took:.1f} s: {self.sink.trouble}")

    def until_safe(self, seconds: float = 30) -> float:
        took = self.until(lambda: len(self.feed.told) == self.batches, seconds)
        assert self.feed.told == [(number, None) for number in range(self.batches)]
        return took

    def check(self) -> None:
        """Everything is in Kafka once, and in order for each key."""
        found: dict[str, list[int]] = {}
        for one in self.kit.found():
            found.setdefault((one.key or b"").decode(), []).append(json.loads(one.value or b"")["n"])
        assert found == {key: list(range(last + 1)) for key, last in self.numbers.items()}


def test_a_record_is_in_kafka_as_it_was_given(make_kit: Callable[..., KafkaKit]) -> None:
    """Key, value, headers and time."""
    flow = Flow(make_kit())
    flow.open()
    flow.send(records=1)
    flow.until_safe()
    (found,) = flow.kit.found()
    assert found[2:] == (b"gw/0", b'{"n":0,"fill":""}', (("node", b"n1"), ("codec", b"c")), CAME)


def test_a_killed_kafka_is_told_and_gets_everything_once_when_it_is_back(make_kit: Callable[..., KafkaKit]) -> None:
    """What was under way, too: the sink does not fail, it waits."""
    flow = Flow(make_kit())
    flow.open()
    flow.send(20)
    flow.until_safe()
    flow.send(20)
    flow.kit.kafka.kill()
    flow.send(20)
    flow.until_trouble("cannot be reached")
    flow.send(20)
    assert len(flow.feed.told) < flow.batches
    flow.kit.kafka.start()
    print(f"safe {flow.until_safe():.1f} s after it is back")
    assert flow.sink.trouble is None
    flow.check()


def test_a_hanging_kafka_is_told_and_gets_everything_once_when_it_goes_on(make_kit: Callable[..., KafkaKit]) -> None:
    """Connections stay, nothing answers, and nothing counts as safe that is not; longer than requests may take."""
    flow = Flow(make_kit(options={"socket.timeout.ms": 4000}))
    flow.open()
    flow.send(20)
    flow.until_safe()
    flow.kit.kafka.stop()
    flow.send(20)
    flow.until_trouble("has not answered")
    flow.send(20)
    flow.until(lambda: "has not answered for 6 s" in (flow.sink.trouble or "") or "timed out" in str(flow.sink.trouble))
    assert len(flow.feed.told) == 20
    flow.kit.kafka.cont()
    print(f"safe {flow.until_safe():.1f} s after it goes on")
    assert flow.sink.trouble is None
    flow.check()


def test_a_kafka_that_is_away_while_nothing_is_sent_is_told_and_so_is_its_return(
    make_kit: Callable[..., KafkaKit],
) -> None:
    """An alarm that stands until somebody sends something would be no use."""
    flow = Flow(make_kit())
    flow.open()
    flow.send()
    flow.until_safe()
    flow.kit.kafka.kill()
    flow.until_trouble("cannot be reached")
    flow.kit.kafka.start()
    flow.until(lambda: flow.sink.trouble is None, TELL_SECONDS)


def test_a_quota_is_named_if_it_holds_us_back(make_kit: Callable[..., KafkaKit]) -> None:
    """Slow, and correct; with the quota gone it is fast again."""
    # Small batches: what is throttled is the request behind the one that was too much.
    flow = Flow(make_kit(compression="none", batch_bytes=5_000))
    flow.open()
    flow.send()
    flow.until_safe()
    flow.kit.kafka.quota(20_000)
    flow.send(40, size=300)
    flow.until_trouble("quota")
    flow.kit.kafka.quota(None)
    print(f"safe {flow.until_safe(60):.1f} s after the quota is gone")
    flow.until(lambda: flow.sink.trouble is None, TELL_SECONDS)
    flow.check()


def test_a_missing_topic_is_named_and_waited_for(make_kit: Callable[..., KafkaKit], sealed: KafkaServer) -> None:
    """Whoever has to make it is told how; nothing is lost, and nothing else is needed."""
    flow = Flow(make_kit(create_topics=False, bootstrap_servers=(sealed.address,)))
    flow.open()
    flow.send(5)
    flow.until_trouble(f"topic {flow.kit.topic('t')} does not exist")
    assert "kafka-topics.sh --create" in str(flow.sink.trouble)
    assert flow.feed.told == []
    flow.kit.kafka = sealed
    sealed.make_topic(flow.kit.topic("t"))
    flow.until_safe(10)
    assert flow.sink.trouble is None
    flow.check()


def test_a_topic_that_vanishes_is_told_and_waited_for(make_kit: Callable[..., KafkaKit], sealed: KafkaServer) -> None:
    """What was under way for it fails; from then on it is a topic that is missing."""
    kit = make_kit(create_topics=False, bootstrap_servers=(sealed.address,))
    flow = Flow(kit)
    topic = sealed.make_topic(kit.topic("t"))
    flow.open()
    flow.send(2)
    flow.until_safe()
    sealed.remove_topic(topic)
    flow.send(2)
    flow.until_trouble(f"topic {topic}: ")
    flow.until(lambda: len(flow.feed.told) == 4)
    assert all(isinstance(error, Unavailable) for _, error in flow.feed.told[2:])
    assert flow.feed.open(20) == 20
    flow.feed.send(4, *[record(20 + n) for n in range(3)])
    flow.until_trouble(f"topic {topic} does not exist")
    sealed.make_topic(topic)
    flow.until(lambda: flow.feed.told[4:] == [(4, None)])
    assert [json.loads(one.value or b"")["n"] for one in sealed.read_all(topic)] == [20, 21, 22]


def test_topics_are_made_as_they_are_wanted(make_kit: Callable[..., KafkaKit], sealed: KafkaServer) -> None:
    """With as many partitions as was said."""
    flow = Flow(make_kit(partitions=7, replication=1, bootstrap_servers=(sealed.address,)))
    flow.kit.kafka = sealed
    flow.open()
    flow.send(5)
    flow.until_safe(10)
    assert len(sealed.partitions(flow.kit.topic("t"))) == 7
    flow.check()


@pytest.mark.parametrize("create_topics", [True, False])
def test_a_name_that_a_client_made_and_kafka_can_never_have_holds_up_nobody(
    make_kit: Callable[..., KafkaKit], *, create_topics: bool
) -> None:
    """It differs in '.' and '_' alone from a topic that is there: its records go to the other name of their rule."""
    kit = make_kit(create_topics=create_topics)
    for name in ("by.press_1", "by.other", "t"):
        kit.kafka.make_topic(kit.topic(name), 1)
    flow = Flow(kit)
    flow.open()
    names = ["t", MadeTopic("by.press.1", "by.other"), "t", MadeTopic("by.press_1", "by.other")]
    for position, name in enumerate(names * 2):
        flow.feed.send(flow.batches, record(position)._replace(topic=name))
        flow.batches += 1
    flow.until_safe()
    numbers = {name: [json.loads(one.value or b"")["n"] for one in kit.found(name)] for name in set(map(str, names))}
    assert numbers == {"t": [0, 2, 4, 6], "by.press_1": [3, 7], "by.press.1": []}
    assert [json.loads(one.value or b"")["n"] for one in kit.found("by.other")] == [1, 5]
    assert kit.topic("by.press.1") not in kit.kafka.topics()
    assert "collides with existing topic: " + kit.topic("by.press_1") in flow.sink.notes[0]


def test_a_record_that_is_too_large_goes_to_the_dead_letters_and_the_rest_goes_on(
    make_kit: Callable[..., KafkaKit], caplog: pytest.LogCaptureFixture
) -> None:
    """Cut to what fits, with where it should have gone, why it did not, and how large it was."""
    kit = make_kit(compression="none")
    kit.kafka.make_topic(kit.topic("t"), 1, max_message_bytes=20_000)
    kit.kafka.make_topic(kit.topic("dead"), 1, max_message_bytes=5_000)
    flow = Flow(kit)
    flow.open()
    flow.send(3)
    large = Record("t", "gw/0", b"L" * 30_000, (("node", b"n1"),), CAME, 30)
    with caplog.at_level(logging.ERROR):
        flow.feed.send(flow.batches, large)
        flow.batches, flow.position = flow.batches + 1, 31
        flow.send(3)
        flow.until_safe()
    assert "does not take a record" in caplog.text
    flow.check()
    (letter,) = kit.found("dead")
    headers = dict(letter.headers)
    assert (letter.key, headers["original_topic"], headers["size"]) == (b"gw/0", kit.topic("t").encode(), b"30000")
    assert b"too large" in headers["reason"]
    assert (headers["node"], headers["id"]) == (b"n1", b"0.0a1b2c3d-30")
    assert 3000 < len(letter.value or b"") < 5000
    assert (kit.sinks[0].dead, kit.sinks[0].dropped) == (1, 0)
    (rejected,) = kit.sinks[0].rejected
    assert (rejected.id, rejected.topic, rejected.size) == ("0.0a1b2c3d-30", kit.topic("t"), 30_000)
    assert (rejected.came_at, rejected.kept_in) == (CAME / 1000, kit.topic("dead"))
    assert "too large" in rejected.reason


def test_what_surely_fits_a_topic_that_takes_little_goes_in_batches(make_kit: Callable[..., KafkaKit]) -> None:
    """Up to the last byte; one by one they would take a minute."""
    kit = make_kit(compression="none")
    kit.kafka.make_topic(kit.topic("t"), 1, max_message_bytes=1000)
    flow = Flow(kit)
    flow.open()
    empty = size_of(Record("t", "gw/0", b"", (("node", b"n1"),), CAME, 0))
    sizes = [300 + number % (1000 - empty - 299) for number in range(2000)]
    records = [Record("t", "gw/0", b"v" * size, (("node", b"n1"),), CAME, n) for n, size in enumerate(sizes)]
    flow.feed.send(0, *records)
    flow.batches = 1
    flow.until_safe(10)
    assert [len(one.value or b"") for one in kit.found()] == sizes
    assert kit.sinks[0].dead == 0


def test_what_goes_alone_holds_up_its_own_topic_only(make_kit: Callable[..., KafkaKit]) -> None:
    """Records that are too large for a topic, and others behind them for another one."""
    kit = make_kit(compression="none")
    kit.kafka.make_topic(kit.topic("small"), 1, max_message_bytes=1000)
    for name in ("t", "dead"):
        kit.kafka.make_topic(kit.topic(name), 1)
    flow = Flow(kit)
    flow.open()
    flow.feed.send(0, *[Record("small", "k", b"L" * 2000, (), CAME, position) for position in range(2000)])
    flow.batches, flow.position = 1, 2000
    flow.send()
    flow.until(lambda: len(kit.found()) > 0)
    assert flow.feed.told == [] and kit.sinks[0].dead < 2000
    flow.until_safe(60)
    flow.until(lambda: len(kit.found()) == 10)
    flow.check()
    assert len(kit.found("dead")) == kit.sinks[0].dead == 2000


def test_what_not_even_the_dead_letters_take_is_counted_and_told(
    make_kit: Callable[..., KafkaKit], caplog: pytest.LogCaptureFixture
) -> None:
    """A stuck uplink would be worse."""
    kit = make_kit(compression="none")
    kit.kafka.make_topic(kit.topic("t"), 1, max_message_bytes=20_000)
    kit.kafka.make_topic(kit.topic("dead"), 1, max_message_bytes=100)
    flow = Flow(kit)
    flow.open()
    with caplog.at_level(logging.ERROR):
        flow.feed.send(0, Record("t", "gw/0", b"L" * 30_000, (), CAME, 0))
        flow.batches = 1
        flow.send(3)
        flow.until_safe()
    assert "which is lost" in caplog.text
    assert (kit.sinks[0].dead, kit.sinks[0].dropped) == (0, 1)
    (rejected,) = kit.sinks[0].rejected
    assert rejected.kept_in is None
    assert "does not take it either" in rejected.reason


def test_a_batch_that_is_rejected_for_one_record_is_sent_again_in_order(make_kit: Callable[..., KafkaKit]) -> None:
    """The topic takes less than it said when it was asked: the sink fails, and the next one finds the record."""
    kit = make_kit(compression="none")
    topic = kit.kafka.make_topic(kit.topic("t"), 1)
    flow = Flow(kit)
    flow.open()
    flow.send(3)
    flow.until_safe()
    kit.kafka.take_less(topic, 20_000)
    records = [Record("t", "gw/0", b"%d" % n if n != 4 else b"L" * 30_000, (), CAME, 30 + n) for n in range(10)]
    flow.feed.send(3, *records)
    flow.until(lambda: len(flow.feed.told) == 4)
    assert "too large" in str(flow.feed.told[3][1])
    assert flow.feed.open(30) == 30
    flow.feed.send(4, *records)
    flow.until(lambda: len(flow.feed.told) == 5)
    assert flow.feed.told[4] == (4, None)
    values = [one.value for one in kit.found() if one.value is not None and any(one.value)][30:]
    # What was before it in the batch of before may be there twice; the first of each is in order.
    assert list(dict.fromkeys(values)) == [b"%d" % n for n in range(10) if n != 4]
    assert len(kit.found("dead")) == 1


def test_tls_and_a_login_work_and_a_wrong_password_is_told(make_kit: Callable[..., KafkaKit]) -> None:
    """In words that name the keys to look at."""
    kafka = make_kit().kafka
    right = SecuritySettings("sasl_ssl", str(kafka.ca), username=USERNAME, password=PASSWORD)
    flow = Flow(make_kit(bootstrap_servers=(kafka.secure,), security=right))
    flow.open()
    flow.send()
    flow.until_safe()
    flow.check()
    wrong = Flow(make_kit(bootstrap_servers=(kafka.secure,), security=replace(right, password="guessed")))
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"uplink\.kafka\.security"):
        wrong.open()
    assert time.monotonic() - began < TELL_SECONDS
    assert "refuses the login" in str(wrong.sink.trouble)
    assert "guessed" not in str(wrong.sink.trouble)
    nobody = Flow(make_kit(bootstrap_servers=(kafka.secure,), security=replace(right, ca=None)))
    with pytest.raises(Unavailable, match="certificate"):
        nobody.open()


def test_what_is_under_way_is_bounded_while_kafka_hangs(make_kit: Callable[..., KafkaKit]) -> None:
    """The log keeps the rest."""
    flow = Flow(make_kit(buffer_bytes=1_000_000))
    flow.open()
    flow.kit.kafka.stop()
    records = [record(n, size=1000) for n in range(100)]
    sent = 0
    while flow.feed.send(sent, *records):
        sent += 1
        assert sent < 20
    assert sent > 5
    flow.kit.kafka.cont()
    flow.until(lambda: flow.feed.made_ready == 1)
