"""What is said to be in the way of the uplink to Kafka, and when."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from iot_mqtt.ports.uplink import Record
from iot_mqtt.uplink.kafka.lone import letter
from iot_mqtt.uplink.kafka.watch import Watch


class Clock:
    """A time that a test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(clock: Clock) -> Watch:
    return Watch("kafka:9092", clock)


def test_what_has_just_been_sent_is_no_trouble(watch: Watch, clock: Clock) -> None:
    """Nor is an error that the library has mended."""
    watch.error(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    clock.now = 102.0
    assert watch.trouble(100.0) is None


def test_no_progress_is_trouble_with_the_last_error_or_without(watch: Watch, clock: Clock) -> None:
    """Silence is told in seconds."""
    clock.now = 103.0
    assert watch.trouble(100.0) == "Kafka at kafka:9092 has not answered for 3 s"
    watch.error(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    assert watch.trouble(100.0) == "Kafka at kafka:9092 cannot be reached: connection refused"
    watch.moved()
    assert watch.trouble(101.0) is None


@pytest.mark.parametrize("code", [KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN])
def test_an_error_that_stands_is_said_in_the_same_words(watch: Watch, code: int) -> None:
    """However long it took this time, and however many the library has kept to itself."""
    told = set()
    for more in ("(after 302ms in state AUTH_REQ)", "(after 4ms in state CONNECT, 3 identical error(s) suppressed)"):
        watch.answered()
        watch.error(KafkaError(code, f"kafka:9092/bootstrap: refused {more}"))
        told.add(watch.trouble(None))
    (text,) = told
    assert "kafka:9092/bootstrap: refused" in str(text)
    assert "after" not in str(text)


def test_no_broker_at_all_is_trouble_at_once(watch: Watch) -> None:
    """With the error before it, which says more."""
    watch.error(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    watch.error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert watch.trouble(None) == "Kafka at kafka:9092 cannot be reached: connection refused"
    assert watch.needs_a_look
    watch.answered()
    assert watch.trouble(None) is None


def test_a_quota_is_trouble_only_if_it_holds_something_up(watch: Watch, clock: Clock) -> None:
    """And no longer than a little behind the silence that was asked for."""
    watch.moved()
    watch.throttled(1.5)
    assert watch.trouble(100.0) is None
    clock.now = 103.0
    watch.moved()
    assert "a quota of Kafka holds this node back: 1.5 s" in str(watch.trouble(100.0))
    clock.now = 110.0
    watch.moved()
    assert watch.trouble(101.0) is None


def test_a_login_that_is_refused_names_the_keys(watch: Watch) -> None:
    """At once."""
    watch.error(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    assert "uplink.kafka.security" in str(watch.trouble(None))


@pytest.mark.parametrize(("size", "limit"), [(10, 5000), (100_000, 5000), (100_000, 100)])
def test_a_dead_letter_fits_as_far_as_it_can(size: int, limit: int) -> None:
    """And says what it was."""
    record = Record("t", "gw\ud800/d", b"v" * size, (("node", b"n"),), 7, 9)
    dead = letter(record, "0.ab", "iot.dead", "too large", limit)
    headers = dict(dead.headers)
    assert (headers["original_topic"], headers["size"], headers["id"]) == (b"t", b"%d" % size, b"0.ab-9")
    assert len(dead.value) <= max(limit, 256)
    assert ("cut" in headers) == (len(dead.value) < size)
    dead.key.encode()


def test_a_dead_letter_names_the_record_and_the_message_in_it() -> None:
    """Also where it was cut."""
    value = b'{"id":"gw/\xc3\xa4\\"/7","node":"n","values":{"t":"%b"},"record":"0.ab-9"}' % (b"v" * 5000)
    dead = letter(Record("t", "gw/d", value, (), 7, 9), "0.ab", "iot.dead", "too large", 1000)
    headers = dict(dead.headers)
    assert (headers["id"], headers["message_id"].decode()) == (b"0.ab-9", 'gw/ä"/7')
    assert "cut" in headers
