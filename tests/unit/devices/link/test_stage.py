"""A gateway's connection: from its first word to its last, with a broker behind it."""

from __future__ import annotations

import gc
import json
from collections import deque

import pytest

from iot_mqtt.auth.rights import NOTHING
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.devices.link import DeviceStage
from iot_mqtt.devices.link.client import GatewayClient
from iot_mqtt.devices.link.intake import Intake
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.plugins.inline import InlineRunner
from iot_mqtt.plugins.running import Opened
from iot_mqtt.sdk import Line, Readings
from iot_mqtt.values import NOBODY, CodecId, Origin
from tests.unit.broker.harness import Node, run
from tests.unit.devices.devicekit import DeviceNode
from tests.unit.devices.link.linkkit import World, command


def test_readings_reach_subscribers_as_unified_messages() -> None:
    """One message for each reading, on the topic of its device."""
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("up/#", qos=1)
    gateway = world.gateway("line-1")
    gateway.say('r press {"t": 21.5, "on": true} 7', 'r oven {"t": null}')
    first, second = (json.loads(one.payload) for one in reader.messages())
    now = int(world.node.clock.wall() * 1000)
    assert first == {
        "id": "line-1/press/7",
        "node": "n1",
        "gateway": "line-1",
        "device": "press",
        "ts": 1000,
        "ingest_ts": now,
        "seq": 7,
        "values": {"t": 21.5, "on": True},
        "codec": "lines/1.2",
        "schema": 3,
    }
    assert second["device"] == "oven" and second["seq"] is None and second["id"].startswith("line-1/oven/")
    assert world.notes.log[:2] == [("login", "line-1", "lines", "1.2"), ("seen", "line-1", "press", 1)]
    assert ("values", "press", {"t": 21.5, "on": True}, 1000) in world.notes.log


def test_runs_of_one_device_are_published_as_one() -> None:
    """Order is kept between devices, and ids do not run out."""
    world = World()
    reader = world.node.connect("reader", receive_maximum=65_535)
    reader.subscribe("up/#", qos=0)
    gateway = world.gateway()
    for round in range(70):
        gateway.say(*[f'r d{n // 500} {{"n": {n}}} {round * 1000 + n + 1}' for n in range(1000)])
    found = [json.loads(one.payload)["values"]["n"] for one in reader.messages()]
    assert found == list(range(1000)) * 70
    assert world.counters.readings == 70_000


def test_a_gateway_is_told_what_is_safe_only_after_the_commit() -> None:
    """What it asked about before the commit is answered by the last number."""
    world = World()
    keeper = world.node.connect("keeper", expiry=3600)
    keeper.subscribe("up/#", qos=1)
    gateway = world.gateway()
    world.node.hold()
    gateway.say('r d {"t": 1} 1', "safe 1", 'r d {"t": 2} 2', "safe 2")
    assert gateway.heard() == []
    world.node.release()
    assert gateway.heard() == ["safe 2"]
    gateway.say("safe 3")
    assert gateway.heard() == ["safe 3"]


def test_a_connection_that_is_gone_is_freed_without_the_collector() -> None:
    """With its codec and all that it had kept: what is old is collected rarely, and everybody waits then."""

    def there() -> list[str]:
        kinds = (DeviceStage, GatewayClient, Intake, Opened, InlineRunner)
        return [type(one).__name__ for one in gc.get_objects() if isinstance(one, kinds)]

    world = World()
    gc.collect()
    gc.disable()
    try:
        before = there()
        for end in ("hung up", "closed"):
            gateway = world.gateway(end.replace(" ", "-"))
            gateway.say('r d {"t": 1} 1', "safe 1")
            if end == "closed":
                gateway.say("bye")
            gateway.hang_up()
            del gateway
        world.plugins.opened.clear()
        assert there() == before
    finally:
        gc.enable()


def test_what_comes_again_is_not_published_again_but_is_safe() -> None:
    """A gateway that reconnects and sends again all that it is not sure of."""
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("up/#", qos=1)
    gateway = world.gateway()
    gateway.say('r a {"t": 1} 5', 'r b {"t": 1} 5', 'r a {"t": 2} 6')
    gateway.hang_up()
    again = world.gateway()
    again.say('r a {"t": 1} 5', 'r b {"t": 1} 5', 'r a {"t": 2} 6', 'r a {"t": 3} 7', "safe 7")
    assert again.heard() == ["safe 7"]
    assert [json.loads(one.payload)["seq"] for one in reader.messages()] == [5, 5, 6, 7]
    assert world.counters.duplicates == 3


def test_what_is_said_before_it_is_known_what_came_before_waits() -> None:
    """Login and readings in one piece, while the grid still looks for what this gateway has sent."""
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("up/#", qos=1)
    world.notes.waiting = []
    gateway = world.open()
    gateway.say("login line-1", 'r d {"t": 1} 1', "safe 1", "beat")
    assert gateway.heard() == ["welcome"] and not gateway.wire.channel.reading
    assert world.notes.log == []
    waiting, world.notes.waiting = world.notes.waiting, None
    waiting[0]()
    world.node.turn()
    assert gateway.heard() == ["beat", "safe 1"]
    assert len(reader.messages()) == 1 and gateway.wire.channel.reading


def test_the_log_says_what_a_codec_made() -> None:
    """And of what a client published, to the same topic and word by word the same, that nobody's codec did."""
    world = World()
    reader = world.node.connect("reader", clean=False, expiry=600)
    reader.subscribe("up/#", qos=1)
    gateway = world.gateway()
    gateway.say('r d {"t": 1} 1')
    (message,) = reader.messages()
    gateway.hang_up()
    world.node.connect("line-1").publish("up/line-1/d", message.payload, qos=1)
    found = run(world.node.broker.log.read(("#",), 0, 100, 1 << 20)).runs
    assert [(one.publisher, one.topic, one.origin) for one in found] == [
        ("line-1", b"up/line-1/d", Origin(codec=CodecId("lines/1.2", "3"))),
        ("line-1", b"up/line-1/d", NOBODY),
    ]
    assert found[0].run.payloads() == found[1].run.payloads()


def test_devices_in_turn_keep_the_order_in_which_they_spoke() -> None:
    """In one read, a message each; all of it is safe when the last of it is."""
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("up/#", qos=1)
    gateway = world.gateway()
    gateway.say(*(f'r d{number % 3} {{"t": {number}}} {number}' for number in range(1, 8)), "safe 7")
    found = [(message.topic.decode(), json.loads(message.payload)["seq"]) for message in reader.messages()]
    assert found == [(f"up/line-1/d{number % 3}", number) for number in range(1, 8)]
    assert gateway.heard() == ["safe 7"] and world.notes.highest == {"line-1": 7}


def test_data_without_a_login_closes_the_connection() -> None:
    """And is counted by its reason."""
    world = World()
    gateway = world.open()
    gateway.say('r d {"t": 1}')
    assert gateway.closed and world.counters.refused == {"no_login": 1}


@pytest.mark.parametrize("name", ["a/b", "a+", "#", "$x", "a\x7f", "x" * 65], ids=ascii)
def test_a_name_that_is_no_level_of_a_topic_is_refused(name: str) -> None:
    """By the stage or by what looks at the codec's words before it."""
    world = World()
    gateway = world.open()
    gateway.say(f"login {name}")
    assert gateway.closed and world.counters.refused + world.counters.faults


def test_a_second_login_closes_the_connection() -> None:
    """One gateway, one connection."""
    world = World()
    gateway = world.gateway()
    gateway.say("login other")
    assert gateway.closed and world.counters.refused == {"unexpected": 1}


def test_a_bad_frame_closes_the_connection_and_what_stood_before_it_counts() -> None:
    """The reason is the codec's."""
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("up/#", qos=1)
    gateway = world.gateway()
    gateway.say('r d {"t": 1} 1', "nonsense", 'r d {"t": 2} 2')
    assert gateway.closed and world.counters.refused == {"unknown_word": 1}
    assert len(reader.messages()) == 1
    assert world.notes.log[-1] == ("left", "line-1")


@pytest.mark.parametrize("bad", ["nonsense", "crash", "x" * 5000, "bye"])
def test_what_stands_before_the_end_counts_though_the_broker_has_not_taken_it_yet(bad: str) -> None:
    """In one piece with the login: the end waits in its place, and no command is begun that could not be said."""
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("up/#", qos=1)
    world.gateway().hang_up()
    command(world, b"{}", user_properties=(("command-id", "c1"),))
    gateway = world.open()
    gateway.say("login line-1", *[f'r d {{"t": {number}}} {number}' for number in range(1, 9)], bad, "login line-2")
    assert gateway.closed
    assert [json.loads(one.payload)["seq"] for one in reader.messages()] == list(range(1, 9))
    assert world.notes.log[-1] == ("left", "line-1") and world.notes.highest == {"line-1": 8}
    if bad != "bye":
        assert not [one for one in world.notes.log if one[0] in ("begin", "lost")]
        again = world.open()
        again.say("login line-1")
        assert again.heard() == ["welcome", "do 1 press {}"]


def test_a_bad_frame_behind_more_than_the_broker_takes_at_once() -> None:
    """What it has not acknowledged yet does not hold back the end for ever, nor is anything lost."""
    world = World(Node(MqttSettings(receive_maximum=10)))
    keeper = world.node.connect("keeper", expiry=3600)
    keeper.subscribe("up/#", qos=1)
    gateway = world.gateway()
    world.node.hold()
    gateway.say(*[f'r d {{"n": {n}}} {n}' for n in range(1, 101)], "nonsense")
    assert not gateway.closed
    world.node.release()
    world.node.turn()
    assert gateway.closed and world.counters.refused == {"unknown_word": 1}
    assert [json.loads(one)["seq"] for one in keeper.drain()] == list(range(1, 101))


BAD_ENDS = {
    "nonsense": "bad_frame: unknown_word",
    "login other": "bad_frame: unexpected",
    "x" * 5000: "bad_frame: too_long",
    "bye": "closed_by_codec",
}


@pytest.mark.parametrize("slow", [False, True], ids=["inline", "slow codec"])
@pytest.mark.parametrize("bad", BAD_ENDS, ids=lambda bad: bad[:8])
def test_a_gateway_is_told_what_is_safe_and_why_it_is_closed(bad: str, *, slow: bool) -> None:
    """Behind the commit; nothing more is read meanwhile, or counted."""
    world = World()
    world.plugins.later = deque() if slow else None
    keeper = world.node.connect("keeper", expiry=3600)
    keeper.subscribe("up/#", qos=1)
    gateway = world.open()
    gateway.say("login line-1")
    world.catch_up()
    assert gateway.heard() == ["welcome"]
    world.node.hold()
    gateway.say('r d {"t": 1} 1', "safe 1", bad, 'r d {"t": 2} 2', "safe 2", "nonsense")
    world.catch_up()
    assert not gateway.closed and not gateway.wire.channel.reading and gateway.heard() == []
    world.node.release()
    world.node.turn()
    world.catch_up()
    assert gateway.heard() == ["safe 1", f"refused {BAD_ENDS[bad]}"]
    assert gateway.closed and sum(world.counters.refused.values()) == 1
    assert [json.loads(one)["seq"] for one in keeper.drain()] == [1]


@pytest.mark.parametrize("sends_no_more", [False, True])
def test_a_gateway_with_a_bad_frame_waits_for_a_bounded_time(*, sends_no_more: bool) -> None:
    """And is told why, also when it has closed its side."""
    world = World()
    keeper = world.node.connect("keeper", expiry=3600)
    keeper.subscribe("up/#", qos=1)
    gateway = world.gateway()
    world.node.hold()
    gateway.say('r d {"t": 1} 1', "safe 1", "nonsense")
    if sends_no_more:
        gateway.wire.peer_ends_input()
    world.node.advance(2)
    assert not gateway.closed
    world.node.advance(2)
    assert gateway.closed and gateway.heard() == ["refused bad_frame: unknown_word"]


def test_a_frame_that_is_too_long_closes_the_connection() -> None:
    """Framing has reasons of its own."""
    world = World()
    gateway = world.gateway()
    gateway.say("x" * 5000)
    assert gateway.closed and world.counters.refused == {"too_long": 1}


def test_what_is_skipped_is_counted_up_to_its_limit() -> None:
    """Bytes and reasons, once each; too many in a row close the connection, with a reason of its own."""
    world = World()
    world.plugins.framing = Line(max_frame=16, resync="skip", max_skipped=100)
    gateway = world.gateway()
    noise, counters = "x" * 39, world.counters
    for _ in range(5):
        gateway.say(noise)
        gateway.say(noise, "beat")
    assert (counters.skipped_bytes, counters.skipped) == (400, {"too_long": 10})
    assert not gateway.closed
    gateway.say(noise, noise, noise)
    assert gateway.closed and counters.refused == {"noise": 1}
    assert (counters.skipped_bytes, counters.skipped) == (520, {"too_long": 13, "noise": 1})


def test_a_bug_of_the_codec_closes_the_connection_and_is_its_fault() -> None:
    """Nobody else notices."""
    world = World()
    other = world.gateway("line-2")
    gateway = world.gateway()
    gateway.say("crash")
    assert gateway.closed and world.counters.faults == {"exception": 1}
    (end,) = world.node.broker.monitoring.attempts.of("line-1")
    assert end.text.startswith("the codec lines failed: decode")
    assert "RuntimeError: a bug (linkkit.py:" in end.text
    other.say("beat")
    assert other.heard() == ["beat"]


def test_a_codec_that_is_away_closes_the_connection() -> None:
    """With the reason, and without a trace in the sessions."""
    world = World()
    world.plugins.away = "disabled by an operator"
    gateway = world.open()
    assert gateway.closed and world.counters.refused == {"no_codec": 1}
    assert not list(world.node.broker.sessions)


def test_a_gateway_that_comes_again_takes_its_place() -> None:
    """As MQTT clients do."""
    world = World()
    gateway = world.gateway()
    again = world.gateway()
    assert gateway.closed and not again.closed
    assert world.counters.refused["session_taken_over"] == 1


def test_a_gateway_whose_place_is_taken_during_its_login_is_told_so() -> None:
    """CONNACK has no word for that."""
    world = World()
    world.node.hold()
    gateway = world.open()
    gateway.say("login line-1")
    again = world.open()
    again.say("login line-1")
    assert gateway.heard() == ["refused session_taken_over"] and gateway.closed
    assert world.counters.refused == {"session_taken_over": 1}
    world.node.release()
    assert again.heard() == ["welcome"] and not again.closed


def test_a_silent_gateway_is_asked_and_then_closed() -> None:
    """Heartbeat 10: asked after two thirds of it, closed after one and a half."""
    world = World()
    gateway = world.gateway()
    world.node.advance(7.5)
    assert gateway.heard() == ["there?"]
    gateway.say("beat")
    world.node.advance(7.5)
    assert gateway.heard() == ["beat", "there?"] and not gateway.closed
    world.node.advance(15.0)
    assert gateway.closed


def test_a_gateway_that_is_not_let_in_is_refused_in_its_own_words() -> None:
    """Whatever the broker's reason is."""
    world = World()
    gateway = world.open()
    world.node.broker.clients.door.refusing = Refused("not now", ReasonCode.SERVER_UNAVAILABLE)
    gateway.say("login line-1")
    assert gateway.heard() == ["refused server_unavailable"] and gateway.closed
    assert world.counters.refused == {"server_unavailable": 1}
    assert world.notes.log == [], "somebody heard of it"


def test_no_more_is_read_than_the_broker_acknowledges() -> None:
    """Receive Maximum is kept, and everything arrives in the end."""
    world = World(Node(MqttSettings(receive_maximum=10)))
    keeper = world.node.connect("keeper", expiry=3600)
    keeper.subscribe("up/#", qos=1)
    gateway = world.gateway()
    world.node.hold()
    gateway.say(*[f'r d {{"n": {n}}} {n}' for n in range(1, 101)], "safe 100")
    assert not gateway.wire.channel.reading and not gateway.closed
    world.node.release()
    world.node.turn()
    assert gateway.heard() == ["safe 100"] and gateway.wire.channel.reading
    assert [json.loads(one)["seq"] for one in keeper.drain()] == list(range(1, 101))


def test_values_that_json_does_not_have_are_dropped_and_counted() -> None:
    """One reading's fault is not its gateway's."""
    world = World()
    gateway = world.gateway()
    gateway.say('r d {"t": NaN} 1', 'r d {"t": 1} 2', "safe 2")
    assert gateway.heard() == ["safe 2"] or gateway.closed
    assert world.counters.dropped == {"bad_value": 1} or world.counters.faults == {"garbage": 1}


def test_a_gateway_that_may_not_publish_is_not_told_that_its_data_is_safe() -> None:
    """It is closed, and the drop is counted."""
    world = World()
    gateway = world.gateway()
    connection = next(iter(world.node.broker.clients.connections))
    connection.permissions = NOTHING
    gateway.say('r d {"t": 1} 1', "safe 1")
    assert gateway.heard() == ["refused not_taken"] and gateway.closed
    assert world.counters.dropped == {"not_authorized": 1}


def test_what_was_refused_is_taken_when_it_comes_again() -> None:
    """It was published, refused, and must not count as a duplicate."""
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("up/#", qos=1)
    gateway = world.gateway()
    gateway.say('r d {"t": 1} 1')
    connection = next(
        one for one in world.node.broker.clients.connections if one.connect and one.connect.client_id == "line-1"
    )
    connection.permissions = NOTHING
    gateway.say('r d {"t": 2} 2', 'r d {"t": 3} 3')
    assert gateway.closed and world.notes.highest == {"line-1": 1}
    again = world.gateway()
    again.say('r d {"t": 2} 2', 'r d {"t": 3} 3', "safe 3")
    assert again.heard() == ["safe 3"]
    assert [json.loads(one.payload)["seq"] for one in reader.messages()] == [1, 2, 3]


@pytest.mark.parametrize("isolated", [False, True], ids=["inline", "slow codec"])
def test_a_gateway_that_sends_no_more_is_told_what_is_safe_before_the_end(*, isolated: bool) -> None:
    """It has closed its side behind its frames, and reads on."""
    world = World()
    world.plugins.later = deque() if isolated else None
    keeper = world.node.connect("keeper", expiry=3600)
    keeper.subscribe("up/#", qos=1)
    gateway = world.open()
    world.node.hold()
    gateway.say("login line-1", *[f'r d {{"t": {n}}} {n}' for n in range(100)], "safe 100")
    gateway.wire.peer_ends_input()
    world.catch_up()
    assert not gateway.closed and gateway.heard()[-1:] != ["safe 100"]
    world.node.release()
    world.catch_up()
    assert gateway.heard()[-1] == "safe 100"
    reason = gateway.wire.channel.close_reason
    assert gateway.closed and reason is not None and reason.name == "peer_closed"
    assert len(keeper.drain()) == 100


def test_a_gateway_that_sends_no_more_waits_for_a_bounded_time() -> None:
    """What is not safe then was not acknowledged."""
    world = World()
    keeper = world.node.connect("keeper", expiry=3600)
    keeper.subscribe("up/#", qos=1)
    gateway = world.gateway()
    world.node.hold()
    gateway.say('r d {"t": 1} 1', "safe 1")
    gateway.wire.peer_ends_input()
    world.node.advance(2)
    assert not gateway.closed
    world.node.advance(2)
    assert gateway.closed and gateway.heard() == []


def test_a_gateway_that_closes_and_is_owed_nothing_is_gone_at_once() -> None:
    """Also before its login."""
    world = World()
    for gateway in (world.open(), world.gateway()):
        gateway.wire.peer_ends_input()
        assert gateway.closed


def test_a_gateway_may_count_from_0() -> None:
    """Its first frame is published before it is called safe, and a repetition is one."""
    node = DeviceNode()
    world = World(node, devices=node.accompanied.devices)
    reader = node.connect("reader")
    reader.subscribe("up/#", qos=1)
    gateway = world.gateway()
    gateway.say('r a {"t": 1} 0', 'r b {"t": 1} 0', "safe 0")
    assert gateway.heard() == ["safe 0"]
    gateway.say('r a {"t": 2} 1', 'r a {"t": 1} 0', "safe 1")
    assert gateway.heard() == ["safe 1"]
    gateway.hang_up()
    world.gateway().say('r a {"t": 1} 0', 'r a {"t": 3} 2')
    assert [json.loads(one.payload)["seq"] for one in reader.messages()] == [0, 0, 1, 2]


def test_each_frame_that_comes_again_is_counted() -> None:
    """On the same connection, be it safe or not yet, and on the next one."""
    node = DeviceNode()
    devices = node.accompanied.devices
    world = World(node, devices=devices)
    gateway = world.gateway()
    gateway.say('r a {"t": 1} 1', 'r a {"t": 2} 2', 'r a {"t": 1} 1', 'r b {"t": 1} 1')
    assert (devices.duplicates, world.counters.duplicates) == (1, 2)
    gateway.say('r a {"t": 2} 2')
    assert (devices.duplicates, world.counters.duplicates) == (2, 3)
    gateway.hang_up()
    world.gateway().say('r a {"t": 2} 2', 'r a {"t": 3} 3')
    assert (devices.duplicates, world.counters.duplicates) == (3, 4)


def test_a_frame_that_comes_twice_in_one_piece_is_published_once() -> None:
    """A gateway that is too eager."""
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("up/#", qos=1)
    gateway = world.gateway()
    gateway.say('r a {"t": 1} 1', 'r b {"t": 1} 1', 'r a {"t": 2} 2', 'r a {"t": 1} 1', 'r b {"t": 1} 1')
    assert [json.loads(one.payload)["seq"] for one in reader.messages()] == [1, 1, 2]


def test_what_the_broker_holds_back_is_not_called_taken() -> None:
    """It would be lost if the node ended now."""
    world = World()
    gateway = world.gateway()
    stage = gateway.wire.pipeline.get("device")
    context = gateway.wire.pipeline.context("device")
    assert isinstance(stage, DeviceStage) and context is not None
    stage.set_reading(context, on=False)
    stage.events([Readings("d", {"t": 1}, sequence=1)])
    assert world.notes.highest == {} and not gateway.wire.channel.reading
    stage.set_reading(context, on=True)
    world.node.turn()
    assert world.notes.highest == {"line-1": 1} and gateway.wire.channel.reading
