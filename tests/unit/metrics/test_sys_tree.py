"""The ``$SYS`` tree."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import PacketType, Publish
from iot_mqtt.errors import ReasonCode
from iot_mqtt.metrics.exposition import Metrics
from iot_mqtt.metrics.sys_tree import Load, sys_tree
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.topics import validate_topic
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import Node
from tests.unit.metrics.metricskit import Facts, RoomFacts


def tree(
    counters: Counters, now: float = 1000.0, load: Load | None = None, log: RoomFacts | None = None
) -> dict[str, str]:
    """Topics without their root, and payloads as text."""
    pairs = sys_tree(counters, Facts(), now, load, log)
    return {topic.decode().removeprefix("$SYS/broker/"): payload.decode() for topic, payload in pairs}


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("version", "iot-mqtt version 1.2"),
        ("uptime", "60 seconds"),
        ("clients/connected", "2"),
        ("clients/disconnected", "3"),
        ("clients/total", "5"),
        ("subscriptions/count", "7"),
        ("retained messages/count", "11"),
        ("store/messages/count", "17"),
    ],
)
def test_the_usual_topics_have_the_figures(topic: str, payload: str) -> None:
    """Under mosquitto's names, so that dashboards made for it work."""
    assert tree(Counters(), now=1060.5)[topic] == payload


def test_counters_are_summed_over_their_labels() -> None:
    """``messages`` counts packets of every type, ``publish/messages`` counts PUBLISH."""
    counters = Counters()
    counters.packets_received.update({"CONNECT": 1, "PUBLISH": 5})
    counters.messages_received = 5
    found = tree(counters)
    assert (found["messages/received"], found["publish/messages/received"]) == ("6", "5")


def test_what_is_sent_has_every_publish() -> None:
    """One of QoS 1 or 2 counts once it is acknowledged, or refused, and each repetition."""
    node = Node()
    reader = node.connect("reader", version=ProtocolVersion.V5)
    reader.subscribe("a", qos=1)
    before = node.counters.packets_sent
    writer = node.connect("writer")
    writer.publish("a", b"0")
    for number in range(3):
        writer.publish("a", b"%d" % number, qos=1)
    ids = [one.packet_id for one in reader.take(Publish) if one.qos]
    assert node.counters.packets_sent["PUBLISH"] == before["PUBLISH"] + 1
    reader.ack(PacketType.PUBACK, *ids[:2])
    reader.ack(PacketType.PUBACK, ids[2], reason=ReasonCode.UNSPECIFIED_ERROR)
    assert node.counters.packets_sent["PUBLISH"] == before["PUBLISH"] + 4
    node.counters.messages_resent += 1
    sent = node.counters.packets_sent
    assert sent["PUBLISH"] == before["PUBLISH"] + 5
    assert tree(node.counters)["messages/sent"] == str(sum(sent.values()))
    line = f'iot_mqtt_packets_sent_total{{type="PUBLISH"}} {sent["PUBLISH"]}.0\n'
    assert line in Metrics(node.counters, Facts).render().decode()


def test_drops_are_there_as_sum_and_by_reason() -> None:
    """A subscriber of ``$SYS`` sees why as well."""
    counters = Counters()
    counters.dropped.update({Drop.EXPIRED: 2, Drop.QUEUE_FULL: 3})
    found = tree(counters)
    assert (found["publish/messages/dropped"], found["publish/messages/dropped/queue_full"]) == ("5", "3")


def test_the_room_is_there_where_it_is_known() -> None:
    """What is kept takes so much of so much."""
    found = tree(Counters(), log=RoomFacts())
    assert found["store/messages/bytes"] == "2002"
    assert (found["disk/used"], found["disk/limit"], found["disk/alarm"]) == ("2011", "2012", "alarm")
    assert "disk/used" not in tree(Counters())


def test_every_topic_may_be_published_and_comes_once() -> None:
    """The broker publishes them like any other."""
    topics = [topic.decode() for topic, _ in sys_tree(Counters(), Facts(), 0.0, Load(), RoomFacts())]
    for topic in topics:
        validate_topic(topic)
    assert len(topics) == len(set(topics))


def test_a_wall_clock_that_stepped_back_gives_no_negative_uptime() -> None:
    """The clock of a machine is set now and then."""
    assert tree(Counters(), now=0.0)["uptime"] == "0 seconds"


def test_load_is_per_minute_and_approaches_a_steady_rate() -> None:
    """100 bytes a second are 6000 a minute; the one-minute average gets there first."""
    counters, load = Counters(), Load()
    load.sample(counters, Facts(), 0.0)
    for second in range(10, 310, 10):
        counters.bytes_received += 1000
        load.sample(counters, Facts(), float(second))
    found = tree(counters, load=load)
    one, five, fifteen = (float(found[f"load/bytes/received/{minutes}min"]) for minutes in (1, 5, 15))
    assert one == pytest.approx(6000, rel=0.01)
    assert five == pytest.approx(6000 * (1 - 2.718281828**-1), rel=0.01)
    assert fifteen < five


def test_load_before_two_samples_is_absent() -> None:
    """One sample is no rate."""
    load = Load()
    load.sample(Counters(), Facts(), 0.0)
    assert not any(topic.startswith("load/") for topic in tree(Counters(), load=load))


def test_two_samples_at_once_do_not_divide_by_zero() -> None:
    """Nor does a clock that steps back."""
    counters, load = Counters(), Load()
    for now in (5.0, 5.0, 4.0, 6.0):
        load.sample(counters, Facts(), now)
    assert tree(counters, load=load)["load/bytes/sent/1min"] == "0.00"


def test_the_most_clients_ever_seen_are_remembered() -> None:
    """Sampled before each round."""
    load = Load()
    for clients in (1, 9, 4):
        load.sample(Counters(), Facts(clients=clients), 0.0)
    assert tree(Counters(), load=load)["clients/maximum"] == "9"
