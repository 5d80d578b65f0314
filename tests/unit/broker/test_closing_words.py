"""Which of many filters, or which topic, a client is sent away for: it is told, and so is who asks afterwards."""

from __future__ import annotations

import logging

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Connect, ConnectWill, Disconnect, Packet, Publish, Request, Unsubscribe, encode
from iot_mqtt.ports.endings import ends_apart
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V311, Node, subscribe

GOOD = tuple(f"f/{number}" for number in range(1_999))
LONG = "a" * 500 + "/#/b"
RLO = "\u202e#"

#: What comes → what is said of it.
WRONGS = {
    "filter": (subscribe(1, *GOOD, "a/#/b"), "filter 'a/#/b': '#' must be the whole last level"),
    "between-others": (subscribe(1, *GOOD[:9], "a+", *GOOD[9:]), "filter 'a+': '+' must be a whole level"),
    "share": (subscribe(1, "$share//a"), "filter '$share//a': share name is empty or has a wildcard"),
    "long": (subscribe(1, LONG), f"filter '{LONG[:128]}…': '#' must be the whole last level"),
    "escaped": (subscribe(1, RLO), r"filter '\u202e#': '#' must be the whole last level"),
    "empty": (subscribe(1, "a", ""), "filter '': empty filter"),
    "unsubscribe": (Unsubscribe(1, (*GOOD, "a+")), "filter 'a+': '+' must be a whole level"),
    "unsubscribe-levels": (Unsubscribe(1, ("a/b/c/d",)), "filter 'a/b/c/d': filter has more than 3 levels"),
    "topic": (Publish(b"a/#", b""), "topic 'a/#': it contains a wildcard"),
}
#: The same, where the version has words for it.
WRONGS_OF_5 = {
    "no-local": (
        subscribe(1, "a", Request("$share/g/a", 0, no_local=True)),
        "filter '$share/g/a': no local on a shared subscription",
    ),
}
#: What no encoder of ours writes.
RAW = {
    "reserved": (b"\x32\x08\x00\x04$SYS\x00\x01", "topic '$SYS': only the broker publishes there"),
    "filter-utf-8": (b"\x82\x07\x00\x01\x00\x02\xc3\x28\x00", r"filter '\\xc3(': a string is not well-formed UTF-8"),
    "filter-null": (b"\x82\x07\x00\x01\x00\x02a\x00\x00", r"filter 'a\x00': a string contains U+0000"),
    "filter-options": (b"\x82\x06\x00\x01\x00\x01a\x07", "filter 'a': subscription options 0x07"),
    "unsubscribe-utf-8": (b"\xa2\x06\x00\x01\x00\x02\xc3\x28", r"filter '\\xc3(': a string is not well-formed UTF-8"),
    "topic-utf-8": (b"\x30\x04\x00\x02\xc3\x28", r"topic '\\xc3(': a string is not well-formed UTF-8"),
}


def said_everywhere(version: ProtocolVersion, data: bytes, caplog: pytest.LogCaptureFixture) -> set[str]:
    """What is said of these bytes by the log, by what is remembered and recorded of the client, and to the client."""
    node = Node(MqttSettings(max_topic_levels=3))
    client = node.connect("c", version)
    with caplog.at_level(logging.INFO):
        client.feed(data)
    assert client.closed
    (logged,) = (record.getMessage() for record in caplog.records)
    (remembered,) = node.view.attempts("c")
    told = [one.properties.reason_string for one in client.take(Disconnect)]
    assert len(told) == (version is V5)
    (recorded,) = node.broker.monitoring.recorder.of("c")
    _, ended = ends_apart(recorded.info.end)
    return {logged.removeprefix("connection closed: "), remembered.text, ended, *(one or "" for one in told)}


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize(("packet", "words"), WRONGS.values(), ids=WRONGS)
def test_what_is_wrong_is_named(
    version: ProtocolVersion, packet: Packet, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One of 2,000 filters, the topic of a message."""
    assert said_everywhere(version, encode(packet, version), caplog) == {words}


@pytest.mark.parametrize(("packet", "words"), WRONGS_OF_5.values(), ids=WRONGS_OF_5)
def test_what_is_wrong_in_version_5_only_is_named(packet: Packet, words: str, caplog: pytest.LogCaptureFixture) -> None:
    assert said_everywhere(V5, encode(packet, V5), caplog) == {words}


@pytest.mark.parametrize(("data", "words"), RAW.values(), ids=RAW)
def test_what_no_encoder_writes_is_named(data: bytes, words: str, caplog: pytest.LogCaptureFixture) -> None:
    """What is no text is shown as its bytes."""
    assert said_everywhere(V311, data, caplog) == {words}


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("a/#", "topic 'a/#': it contains a wildcard"),
        ("a/b/c/d", "will topic 'a/b/c/d': topic has more than 3 levels"),
    ],
)
def test_the_topic_of_a_will_is_named(topic: str, words: str, caplog: pytest.LogCaptureFixture) -> None:
    """In CONNACK, the log and what is remembered."""
    node = Node(MqttSettings(max_topic_levels=3))
    client = node.open(V5)
    with caplog.at_level(logging.INFO):
        client.send(Connect(V5, "c", clean_start=True, will=ConnectWill(topic.encode(), b"")))
    assert client.closed
    assert words in caplog.text
