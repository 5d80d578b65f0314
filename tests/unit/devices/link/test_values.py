"""What goes between a gateway's stage and the broker: packets as values, and never bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iot_mqtt.codec import AckRun, Connack, Disconnect, PacketType, Pingresp, Publish, Suback
from iot_mqtt.codec.describing import described
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.pipeline import Batch, Context, Stage
from tests.unit.devices.link.linkkit import Gateway, World

PASSED = (AckRun, Connack, Disconnect, Pingresp, Publish, Suback)


class Spy(Stage):
    """Between a gateway's stage and the broker; keeps what the broker writes."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def write(self, ctx: Context, batch: Batch) -> None:
        self.seen += batch
        ctx.write(batch)

    def take(self) -> list[Any]:
        seen, self.seen = self.seen, []
        assert all(isinstance(item, PASSED) for item in seen), seen
        return seen


def watched(world: World, login: str = "login line-1") -> tuple[Gateway, Spy]:
    """A gateway that is let in, and what it has been sent since it was accepted."""
    gateway, spy = world.open(), Spy()
    gateway.wire.pipeline.add_after("device", "spy", spy)
    gateway.say(login)
    return gateway, spy


def test_everything_a_gateway_is_sent_is_a_value() -> None:
    """Welcome, acknowledgements in runs, an answer to a heartbeat, commands of either QoS, the end."""
    world = World()
    gateway, spy = watched(world)
    connack, suback = spy.take()
    assert isinstance(connack, Connack) and isinstance(suback, Suback) and suback.reasons == (1,)
    gateway.say(*(f'r d{number % 2} {{"t": 1}} {number}' for number in range(1, 8)))
    gateway.say("beat")
    run, pong = spy.take()
    assert isinstance(pong, Pingresp)
    assert (run.type, run.ids, run.reason) == (PacketType.PUBACK, list(range(1, 8)), ReasonCode.SUCCESS)
    sender = world.node.connect("sender")
    for qos in (0, 1, 2):
        sender.publish("down/line-1/press", b"%d" % qos, qos=qos)
    sent = spy.take()
    assert [(one.topic, one.payload, one.qos, one.dup, bool(one.packet_id)) for one in sent] == [
        (b"down/line-1/press", b"0", 0, False, False),
        (b"down/line-1/press", b"1", 1, False, True),
        (b"down/line-1/press", b"2", 1, False, True),
    ]
    world.gateway()
    (last,) = spy.take()
    assert isinstance(last, Disconnect) and last.reason is ReasonCode.SESSION_TAKEN_OVER and gateway.closed


def test_a_refused_gateway_is_told_by_a_value() -> None:
    """CONNACK with the reason."""
    world = World()
    world.node.broker.door.refusing = Refused("not now", ReasonCode.SERVER_UNAVAILABLE)
    gateway, spy = watched(world)
    (connack,) = spy.take()
    assert isinstance(connack, Connack) and connack.reason is ReasonCode.SERVER_UNAVAILABLE
    assert gateway.heard() == ["refused server_unavailable"] and gateway.closed


def test_a_command_has_the_time_that_is_left_and_its_properties() -> None:
    """It waited in the session for four of ten seconds."""
    world = World()
    world.gateway().hang_up()
    properties: dict[str, Any] = {"user_properties": (("a", "b"),), "content_type": "text", "correlation_data": b"7"}
    sender = world.node.connect("sender")
    sender.publish("down/line-1/press", b"x", qos=1, message_expiry_interval=10, **properties)
    world.node.advance(4)
    _, spy = watched(world)
    (command,) = [one for one in spy.take() if isinstance(one, Publish)]
    found = command.properties
    assert found.message_expiry_interval == 6
    assert {name: getattr(found, name) for name in properties} == properties


def test_a_command_that_is_sent_again_says_so() -> None:
    """DUP, and the id that it had."""
    world = World()
    world.notes.retry.add("c1")
    first, spy = watched(world)
    sender = world.node.connect("sender")
    sender.publish("down/line-1/press", b"{}", qos=1, user_properties=(("command-id", "c1"),))
    (before,) = [one for one in spy.take() if isinstance(one, Publish)]
    first.hang_up()
    _, spy = watched(world)
    (again,) = [one for one in spy.take() if isinstance(one, Publish)]
    assert (before.dup, again.dup) == (False, True) and again.packet_id == before.packet_id
    assert again.payload == before.payload and again.properties == before.properties


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("retain", [False, True])
def test_messages_in_bulk_come_one_by_one(qos: int, retain: bool) -> None:
    """A session of that name had subscribed to everything: what comes is no command, and must not stay for ever."""
    world = World()
    before = world.node.connect("line-1", clean=False, expiry=600)
    before.subscribe("any/#", qos=1)
    before.wire.peer_closes()
    world.node.turn()
    gateway, spy = watched(world)
    spy.take()
    sender, head = world.node.connect("sender"), 0x30 | qos << 1 | retain
    packets = [b"\x00\x07any/%03d" % number + b"\x00\x01" * qos + b"\x00" + b"x" for number in range(50)]
    wire = b"".join(bytes((head, len(packet))) + packet for packet in packets)
    sender.wire.feed(wire)
    world.node.turn()
    topics = [one.topic for one in spy.take() if isinstance(one, Publish)]
    assert topics == [b"any/%03d" % number for number in range(50)]
    assert world.counters.commands_refused == {"no_device": 50}
    assert not len(world.node.session("line-1").outbound) and not gateway.closed


def test_what_a_gateway_is_sent_is_recorded_as_mqtt() -> None:
    """The flight recorder keeps bytes."""
    world = World()
    gateway = world.gateway()
    gateway.say('r d {"t": 1} 1', 'r e {"t": 2} 1')
    world.node.connect("sender").publish("down/line-1/press", b"{}", qos=1)
    recorded = [one for kept in world.node.broker.recorder.of("line-1") for one in described(kept.image)]
    assert [(one.direction, one.packet, one.packets) for one in recorded] == [
        ("out", "CONNACK", 1),
        ("out", "SUBACK", 1),
        ("out", "PUBACK", 2),
        ("out", "PUBLISH", 1),
    ]
    assert "down/line-1/press, QoS 1" in recorded[-1].text


def test_what_waits_for_a_commit_waits_as_values() -> None:
    """Being let in, and what was published."""
    world = World()
    keeper = world.node.connect("keeper", expiry=3600)
    keeper.subscribe("up/#", qos=1)
    world.node.hold()
    gateway, spy = watched(world)
    assert spy.take() == [] and gateway.heard() == []
    world.node.release()
    assert [type(item) for item in spy.take()] == [Connack, Suback] and gateway.heard() == ["welcome"]
    world.node.hold()
    gateway.say('r d {"t": 1} 1', 'r e {"t": 2} 2')
    gateway.say('r d {"t": 3} 3')
    assert spy.take() == []
    world.node.release()
    assert [packet_id for run in spy.take() for packet_id in run.ids] == [1, 2, 3]
    assert [json.loads(one)["seq"] for one in keeper.drain()] == [1, 2, 3]
