"""How much clients may publish: each its own rate, and fair shares of those that it has with others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iot_mqtt.broker.connections.gates import STEP, Gate, Gates
from iot_mqtt.broker.connections.traffic import Rates
from iot_mqtt.broker.publishing.budget import Pause
from iot_mqtt.broker.settings import BudgetSettings, MqttSettings, TrafficSettings
from iot_mqtt.codec import Connect, PacketType, Pingreq, Publish, encode
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.limits import Limits
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V311, Client, Node
from tests.unit.broker.test_limits import ByName, by_user


def packets(count: int, size: int = 10, topic: bytes = b"t", qos: int = 0, version: ProtocolVersion = V5) -> bytes:
    """PUBLISH packets of one topic, or of as many where it has a sign for the number."""
    return b"".join(
        encode(Publish(topic.replace(b"%", b"%d" % n), b"x" * size, qos, packet_id=n + 1 if qos else 0), version)
        for n in range(count)
    )


def node_of(limits: Limits | None = None, **more: object) -> tuple[Node, Client]:
    """A node where ann has these limits, and somebody who gets everything."""
    limited = by_user(ann=limits) if limits is not None else by_user()
    node = Node(authenticator=ByName(), limits=limited, **more)  # type: ignore[arg-type]
    reader = node.connect("reader")
    reader.subscribe("#")
    return node, reader


@pytest.mark.parametrize("topic", [b"t", b"t/%"], ids=["a run", "a batch"])
def test_who_sends_more_is_not_read_for_a_while(topic: bytes) -> None:
    """As much as the burst at once, the rest at the rate; nothing is lost, and other packets keep their place."""
    node, reader = node_of(Limits(message_rate=10, message_burst=5))
    ann = node.connect("a", username="ann")
    ann.feed(packets(25, topic=topic) + encode(Pingreq(), V5))
    assert len(reader.payloads()) == 5
    assert not ann.wire.channel.reading
    assert node.broker.publishing.budget.paused(node.session("a").connection) is Pause.RATE  # type: ignore[arg-type]
    node.advance(1)
    assert len(reader.payloads()) == 10
    assert not ann.take_all()
    node.advance(1.05)
    assert len(reader.payloads()) == 10
    assert [packet.type for packet in ann.take_all()] == [PacketType.PINGRESP]
    assert ann.wire.channel.reading
    assert node.counters.publishers_paused["rate"] and node.counters.limited["message_rate"]


def test_the_same_at_qos_1_with_every_answer_in_its_place() -> None:
    node, reader = node_of(Limits(message_rate=100, message_burst=10))
    ann = node.connect("a", username="ann")
    ann.feed(packets(50, qos=1))
    assert len(ann.acks(PacketType.PUBACK)) == 10
    node.advance(0.5)
    assert [ack.packet_id for ack in ann.acks(PacketType.PUBACK)] == list(range(11, 51))  # type: ignore[union-attr]
    assert len(reader.payloads()) == 50


def test_bytes_are_counted_and_one_packet_larger_than_the_burst_passes() -> None:
    """It is paid for by what comes behind it."""
    node, reader = node_of(Limits(byte_rate=1000, byte_burst=100))
    ann = node.connect("a", username="ann")
    ann.feed(packets(1, size=5000) + packets(1))
    assert len(reader.payloads()) == 1
    node.advance(4.8)
    assert not reader.payloads()
    node.advance(0.2)
    assert len(reader.payloads()) == 1


def test_who_is_to_be_closed_for_it_is_told_why() -> None:
    """0x96 in MQTT 5; what was within the rate is served. 3.x is closed."""
    node, reader = node_of(Limits(message_rate=10, rate_action="disconnect"))
    for version in (V5, V311):
        ann = node.connect(f"a{version}", version, username="ann")
        ann.feed(packets(11, version=version))
        assert ann.closed
        assert ann.farewell is (ReasonCode.MESSAGE_RATE_TOO_HIGH if version is V5 else None)
        assert len(reader.payloads()) == 10
    assert node.counters.errors == {"MESSAGE_RATE_TOO_HIGH": 2}
    assert not node.broker.publishing.budget.paused_count


def test_coming_again_brings_no_new_burst() -> None:
    node, reader = node_of(Limits(message_rate=1, message_burst=5))
    for _ in range(3):
        ann = node.connect("a", username="ann")
        ann.feed(packets(10))
        ann.lose()
    assert len(reader.payloads()) == 5
    assert len(node.broker.clients.traffic.gates) == 1
    node.advance(20)
    node.connect("b", username="ann").lose()
    assert not node.broker.clients.traffic.gates


def test_what_comes_with_connect_is_counted_too() -> None:
    node, reader = node_of(Limits(message_rate=1, message_burst=2))
    ann = node.open()
    ann.feed(encode(Connect(V5, "a", username="ann"), V5) + packets(9))
    assert len(reader.payloads()) == 2


def test_a_rate_that_is_said_later_holds_at_once_and_ends_at_once() -> None:
    node, reader = node_of()
    ann = node.connect("a", username="ann")
    ann.feed(packets(100))
    assert len(reader.payloads()) == 100

    def say(limits: Callable[[Principal], Limits | None]) -> None:
        node.limits = limits
        node.broker.clients.limiting.changed()
        node.turn()

    say(by_user(ann=Limits(message_rate=1, message_burst=2)))
    ann.feed(packets(10))
    assert len(reader.payloads()) == 2
    say(by_user())
    assert len(reader.payloads()) == 8
    assert node.session("a").connection.flow is None  # type: ignore[union-attr]
    assert ann.wire.channel.reading and not node.broker.publishing.budget.paused_count


def test_what_has_to_wait_for_something_else_is_counted_once() -> None:
    """The store takes nothing: what is held is counted when it goes on."""
    node, reader = node_of(Limits(message_rate=10, message_burst=10), budget=BudgetSettings(uncommitted_bytes=1))
    node.connect("kept", clean=False, expiry=600).subscribe("kept", qos=1)
    ann = node.connect("a", username="ann")
    node.hold()
    ann.feed(packets(1, topic=b"kept", qos=1) + packets(7))
    assert node.broker.publishing.budget.paused(node.session("a").connection) is Pause.UNCOMMITTED  # type: ignore[arg-type]
    node.release()
    assert len(ann.acks(PacketType.PUBACK)) == 1
    ann.feed(packets(4))
    assert len(reader.payloads()) == 10


KINDS: dict[str, tuple[dict[str, object], Limits | None]] = {
    "node": ({"settings": MqttSettings(traffic=TrafficSettings(message_rate=100))}, None),
    "address": ({"settings": MqttSettings(traffic=TrafficSettings(address_message_rate=100))}, None),
    "listener": ({"rates": {"embedded": Rates(messages=100)}}, None),
    "user": ({}, Limits(user_message_rate=100)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_rate_of_several_is_shared_and_a_light_sender_does_not_wait(kind: str) -> None:
    """Two heavy ones get the same; who sends one in between is through within a round or two."""
    more, limits = KINDS[kind]
    node, reader = node_of(limits, **more)
    heavy = [node.connect(name, username="ann") for name in ("1", "2")]
    light = node.connect("3", username="ann")
    for number, one in enumerate(heavy):
        one.feed(packets(2000, topic=b"h/%d" % number))
    node.advance(1)
    reader.messages()
    for _ in range(10):
        light.feed(packets(1, topic=b"l"))
        node.advance(2 * STEP)
        assert [one.topic for one in reader.messages()].count(b"l") == 1
    found = []
    for _ in range(20):
        node.advance(STEP)
        found += [one.topic for one in reader.messages()]
    shares = [found.count(b"h/0"), found.count(b"h/1")]
    assert sum(shares) == pytest.approx(100, abs=5) and abs(shares[0] - shares[1]) <= 2
    assert node.counters.limited[f"{kind}_message_rate"]


def test_large_packets_of_one_are_paid_by_that_one() -> None:
    """Bytes are shared, not packets: a light one does not wait until the large packet is paid for."""
    node, reader = node_of(settings=MqttSettings(traffic=TrafficSettings(byte_rate=10_000)))
    heavy, light = node.connect("h", username="ann"), node.connect("l", username="bob")
    heavy.feed(packets(5, size=100_000, topic=b"h"))
    node.advance(STEP)
    for _ in range(20):
        light.feed(packets(1, topic=b"l"))
        node.advance(2 * STEP)
    found = [one.topic for one in reader.messages()]
    assert found.count(b"l") == 20 and found.count(b"h") == 1


def test_what_one_does_not_use_is_for_others() -> None:
    """The whole rate goes to whoever sends, also while others stand in line now and then."""
    node, reader = node_of(settings=MqttSettings(traffic=TrafficSettings(message_rate=100)))
    heavy = node.connect("h")
    lights = [node.connect(f"l{number}") for number in range(5)]
    heavy.feed(packets(1000))
    node.advance(1)
    reader.messages()
    for _ in range(10):
        for light in lights:
            light.feed(packets(1))
        node.advance(0.2)
    assert len(reader.messages()) == pytest.approx(200, abs=10)


def test_gates_that_nobody_uses_are_not_kept_for_ever() -> None:
    clock = ManualClock()
    gates = Gates(clock)
    for number in range(10):
        key = ("message_rate", "", str(number))
        gate = gates.use(key, 1.0, 1.0)
        assert isinstance(gate, Gate)
        gates.let_go(key)
    assert not gates


def test_who_has_no_rate_has_no_flow() -> None:
    node, _ = node_of(Limits(connections=5))
    node.connect("a", username="ann")
    node.connect("b", username="bob")
    assert all(connection.flow is None for connection in node.broker.clients.connections)
