"""Readings whose numbers were all taken before: what a codec gets wrong, and what honest gateways do."""

from __future__ import annotations

import json
import logging

import pytest

from iot_mqtt.devices.link.repetitions import GATEWAYS, LONG, MANY, REPEATED, WATCHED, Repetitions
from iot_mqtt.ports.recent import Trouble
from tests.unit.devices.link.linkkit import Gateway, World

#: Between two readings, and how many come in half a minute.
STEP = 3.0
SOME = int(LONG / 1000 / STEP)


def troubles(world: World) -> list[Trouble]:
    return world.node.broker.counters.recent.of("line-1")


def say(gateway: Gateway, device: str, *numbers: int) -> None:
    """Readings with these numbers, one after the other."""
    for number in numbers:
        gateway.world.node.clock.advance(STEP)
        gateway.say(f'r {device} {{"t": 1}} {number}')


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


def test_a_frame_that_repeats_the_last_number_is_not_published_again() -> None:
    """It is called safe, as often as it comes."""
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("up/#", qos=1)
    gateway = world.gateway()
    for _ in range(3):
        gateway.say('r a {"t": 1} 5', 'r b {"t": 1} 5', "safe 5")
        assert gateway.heard() == ["safe 5"]
    gateway.say('r a {"t": 1} 6')
    assert [json.loads(one.payload)["seq"] for one in reader.messages()] == [5, 5, 6]
    assert world.counters.duplicates == 4


def test_a_frame_goes_on_behind_readings_without_number() -> None:
    """They are no end of it, also where the broker takes no more."""
    world = World()
    reader = world.node.connect("reader")
    reader.subscribe("up/#", qos=1)
    gateway = world.gateway()
    world.node.hold()
    gateway.say(*['r a {"t": 1} 5', 'r b {"t": 1}'] * 3, 'r a {"t": 1} 6', 'r b {"t": 1}')
    world.node.release()
    assert [json.loads(one.payload)["seq"] for one in reader.messages()] == [5, None] * 3 + [6, None]
    assert world.notes.highest == {"line-1": 6}


def test_a_device_whose_numbers_begin_again_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """With its topic and both numbers, as often as it is so, and once in the log."""
    world = World()
    gateway = world.gateway()
    say(gateway, "press", 65_534, 65_535)
    say(gateway, "press", *range(SOME))
    assert troubles(world) == []
    say(gateway, "press", SOME, SOME + 1)
    (one,) = troubles(world)
    assert (one.code, one.topic, one.count) == (REPEATED, "up/line-1/press", SOME + 2)
    assert one.detail == f"it counts {SOME + 1}, and 65535 was taken before"
    (line,) = warnings(caplog)
    assert "65535" in line


def test_a_device_that_counts_for_itself_is_told_of_while_another_goes_on() -> None:
    """The numbers of one are behind those of the other, whose readings arrive."""
    world = World()
    gateway = world.gateway()
    for number in range(1, 2 * SOME):
        say(gateway, "a", 100 + number)
        say(gateway, "b", number)
    assert [one.topic for one in troubles(world)] == ["up/line-1/b"]


def test_what_comes_again_after_a_reconnect_is_nothing_to_tell() -> None:
    """As slowly as it may: behind it come new readings, and then it begins from nothing."""
    world = World()
    gateway = world.gateway()
    say(gateway, "press", *range(1, SOME))
    gateway.hang_up()
    again = world.gateway()
    say(again, "press", *range(1, SOME))
    say(again, "press", SOME)
    say(again, "press", *range(1, SOME))
    assert troubles(world) == []


def test_many_that_come_again_at_once_are_nothing_to_tell() -> None:
    """All that a gateway has kept, in one piece."""
    world = World()
    gateway = world.gateway()
    kept = [f'r press {{"t": 1}} {number}' for number in range(1, 20 * SOME)]
    gateway.say(*kept)
    gateway.hang_up()
    world.gateway().say(*kept)
    assert troubles(world) == []


@pytest.mark.parametrize("seconds", [15, 20, 60])
@pytest.mark.parametrize("hangs_up", [False, True])
def test_a_slow_device_whose_numbers_begin_again_is_told_of(seconds: int, *, hangs_up: bool) -> None:
    """With the third reading, also where it connects anew for each."""
    world = World()
    gateway = world.gateway()
    say(gateway, "press", 65_535)
    for number in range(MANY):
        assert troubles(world) == []
        if hangs_up:
            gateway.hang_up()
            gateway = world.gateway()
        for _ in range(seconds // 5):
            world.node.advance(5)
            gateway.say("beat")
        gateway.say(f'r press {{"t": 1}} {number}')
    (one,) = troubles(world)
    assert (one.topic, one.count) == ("up/line-1/press", MANY)


def test_what_comes_again_after_each_of_two_reconnects_is_nothing_to_tell() -> None:
    """All that a gateway has kept counts once, however much it is."""
    world = World()
    kept = [f'r press {{"t": 1}} {number}' for number in range(1, 200)]
    for _ in range(MANY):
        gateway = world.gateway()
        gateway.say(*kept)
        gateway.hang_up()
        world.node.clock.advance(LONG / 1000)
    assert troubles(world) == []


def test_a_gateway_with_devices_without_number_costs_no_memory_without_bounds() -> None:
    """Names are cut, and so many are watched; of gateways those that had repetitions last."""
    noted: list[str] = []
    now = 0
    repetitions = Repetitions(lambda: now, lambda _gateway, _code, topic, _count, _why: noted.append(topic))

    def come(gateway: str, count: int, width: int = 0) -> None:
        nonlocal now
        for _ in range(MANY):
            for device in range(count):
                repetitions.came(gateway, f"{device:0{width}}", 1, 2)
            now += LONG

    come("g", 2 * WATCHED, 500)
    assert len(set(noted)) == 1
    assert len(noted[0]) < 100
    noted.clear()
    come("g", 2 * WATCHED)
    assert len(set(noted)) == WATCHED - 1
    noted.clear()
    for number in range(GATEWAYS):
        repetitions.came(f"g{number}", "d", 1, 2)
    come("g", 1)
    come("g0", 1)
    assert noted == ["up/g/0", "up/g0/0"]


def test_a_gateway_whose_readings_are_new_again_is_watched_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """When it is so again, the log has it again."""
    now = 0
    repetitions = Repetitions(lambda: now, lambda *_: None)
    for _ in range(2):
        for _ in range(MANY):
            now += LONG
            repetitions.came("g", "d", 1, 2)
        repetitions.ended("g", "d")
        assert not repetitions._gateways
    assert len(warnings(caplog)) == 2
