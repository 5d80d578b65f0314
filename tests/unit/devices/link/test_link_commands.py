"""A gateway's connection: the commands that come, from the broker to what the device says."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.devices.link.services import Verdict
from tests.unit.devices.link.linkkit import World, command


def test_a_command_is_begun_encoded_written_and_answered() -> None:
    """And the broker forgets it when it has left."""
    world = World()
    gateway = world.gateway()
    command(world, b'{"speed":3}', user_properties=(("command-id", "c1"),))
    assert gateway.heard() == ['do 1 press {"speed":3}']
    assert not len(world.node.session("line-1").outbound)
    gateway.say("answer 1 ok")
    gateway.say("answer 1 ok", "answer 9 ok")
    assert [one for one in world.notes.log if one[0] in ("begin", "answered")] == [
        ("begin", "c1"),
        ("answered", "c1", True, ""),
    ]


def test_a_command_that_is_not_to_be_sent_is_not() -> None:
    """It may have been sent before, or be expired."""
    world = World()
    gateway = world.gateway()
    world.notes.verdict = Verdict(send=False, why="expired")
    command(world, b"{}", user_properties=(("command-id", "c1"),))
    assert gateway.heard() == [] and not len(world.node.session("line-1").outbound)


def test_a_command_that_cannot_be_said_has_failed() -> None:
    """With the codec's reason."""
    world = World()
    gateway = world.gateway()
    command(world, b'{"impossible":1}', user_properties=(("command-id", "c1"),))
    assert gateway.heard() == [] and ("failed", "c1", "no such register") in world.notes.log
    assert not len(world.node.session("line-1").outbound)


def test_a_command_on_which_the_codec_fails_has_failed_for_good() -> None:
    """Though it may be sent again: that would fail once more. The gateway is not concerned."""
    world = World()
    world.notes.retry.add("c1")
    gateway = world.gateway()
    command(world, b'{"bug":"a text"}', user_properties=(("command-id", "c1"),))
    assert ("failed", "c1", "the gateway's codec fails on it: encode returned str, not bytes") in world.notes.log
    assert not len(world.node.session("line-1").outbound)
    command(world, b"{}", user_properties=(("command-id", "c2"),))
    assert gateway.heard() == ["do 2 press {}"] and not gateway.closed


def test_a_command_that_may_be_sent_again_is_kept_until_it_is_answered() -> None:
    """The next connection gets it."""
    world = World()
    world.notes.retry.add("c1")
    gateway = world.gateway()
    command(world, b"{}", user_properties=(("command-id", "c1"),))
    assert gateway.heard() == ["do 1 press {}"]
    gateway.hang_up()
    assert ("lost", "c1") in world.notes.log
    again = world.open()
    again.say("login line-1")
    assert again.heard() == ["welcome", "do 1 press {}"]
    again.say("answer 1 broken")
    assert ("answered", "c1", False, "broken") in world.notes.log
    assert not len(world.node.session("line-1").outbound)


def test_a_command_that_may_not_be_sent_again_is_not() -> None:
    """The lost connection is told of, and the broker has forgotten it."""
    world = World()
    gateway = world.gateway()
    command(world, b"{}", user_properties=(("command-id", "c1"),))
    assert gateway.heard() == ["do 1 press {}"]
    gateway.hang_up()
    assert ("lost", "c1") in world.notes.log
    assert world.gateway().heard() == []


def test_commands_wait_while_the_gateway_is_away() -> None:
    """Its session is kept."""
    world = World()
    world.gateway().hang_up()
    command(world, b'{"a":1}', user_properties=(("command-id", "c1"),))
    again = world.open()
    again.say("login line-1")
    assert again.heard() == ["welcome", 'do 1 press {"a":1}']


def test_a_command_without_a_record_is_delivered_all_the_same() -> None:
    """Somebody publishes to the topic by hand."""
    world = World()
    gateway = world.gateway()
    command(world, b"raw")
    assert gateway.heard() == ["do 1 press raw"] and not len(world.node.session("line-1").outbound)


@pytest.mark.parametrize("how", [{"qos": 0}, {"qos": 1, "retain": True}], ids=["QoS 0", "retained"])
def test_what_is_no_command_begins_none(how: dict[str, Any]) -> None:
    """Whatever id it carries: it would be that of somebody else's."""
    world = World()
    gateway = world.open()
    if not how["qos"]:
        gateway.say("login line-1")
    world.node.connect("sender").publish("down/line-1/press", b"raw", user_properties=(("command-id", "c1"),), **how)
    if how["qos"]:
        gateway.say("login line-1")
    assert gateway.heard() == ["welcome", "do 1 press raw"]
    assert not [one for one in world.notes.log if one[0] == "begin"]


@pytest.mark.parametrize("device", ["press/deeper", ""])
def test_a_command_to_no_device_is_dropped_and_counted(device: str) -> None:
    """It must not stay in the session for ever."""
    world = World()
    gateway = world.gateway()
    command(world, b"{}", device)
    assert gateway.heard() == [] and world.counters.commands_refused == {"no_device": 1}
    assert not len(world.node.session("line-1").outbound)


@pytest.mark.parametrize("target", ["line-1/press/deeper", "line-1/", "line-1"])
def test_a_command_to_no_device_has_failed_and_the_next_one_leaves(target: str) -> None:
    """It would wait for days for what never comes."""
    world = World()
    gateway = world.gateway()
    sender = world.node.connect("sender")
    sender.publish(f"down/{target}", b"{}", qos=1, user_properties=(("command-id", "c1"),))
    sender.publish("down/line-1/press", b"{}", qos=1, user_properties=(("command-id", "c2"),))
    assert [one[:3] for one in world.notes.log if one[0] in ("refused", "begin")] == [
        ("refused", "c1", target),
        ("begin", "c2"),
    ]
    assert gateway.heard() == ["do 1 press {}"] and world.counters.commands_refused == {"no_device": 1}
    assert not len(world.node.session("line-1").outbound)


def send(world: World, *ids: str) -> None:
    """Commands of these ids, whose bodies they are."""
    for one in ids:
        command(world, one.encode(), user_properties=(("command-id", one),))


def test_a_gateway_has_no_more_commands_at_once_than_it_may() -> None:
    """The next one leaves when one is answered, cannot be said, or is given up."""
    world = World(commands_at_once=2)
    gateway = world.gateway()
    send(world, "c1", "c2", "c3")
    assert gateway.heard() == ["do 1 press c1", "do 2 press c2"]
    assert ("begin", "c3") not in world.notes.log
    gateway.say("answer 2 ok")
    assert gateway.heard() == ["do 3 press c3"]
    command(world, b'{"impossible":1}', user_properties=(("command-id", "c4"),))
    send(world, "c5")
    world.notes.is_over("c1")
    world.node.turn()
    assert gateway.heard() == ["do 5 press c5"]
    send(world, "c6")
    gateway.say("answer 1 ok")
    assert gateway.heard() == [], "a late answer makes no room twice"
    world.notes.verdict = Verdict(send=False, why="expired")
    gateway.say("answer 3 ok")
    assert gateway.heard() == [] and not len(world.node.session("line-1").outbound)


def test_commands_that_wait_for_a_place_wait_for_the_next_connection() -> None:
    """They were not begun; and nobody holds what is left of the connection."""
    world = World(commands_at_once=2)
    gateway = world.gateway()
    send(world, "c1", "c2", "c3", "c4")
    assert len(gateway.heard()) == 2
    gateway.hang_up()
    assert ("lost", "c1", "c2") in world.notes.log and not world.notes.over
    again = world.open()
    again.say("login line-1")
    assert again.heard() == ["welcome", "do 1 press c3", "do 2 press c4"]


def test_where_nobody_answers_a_command_is_dealt_with_when_it_was_written() -> None:
    """A codec without answers stalls nothing."""
    world = World(commands_at_once=2)
    world.plugins.answers = False
    gateway = world.gateway()
    send(world, *(f"c{number}" for number in range(1, 10)))
    assert gateway.heard() == [f"do {number} press c{number}" for number in range(1, 10)]
