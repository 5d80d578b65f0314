"""What gateways send beyond a turn's share is taken in later turns, in order, and others are served in between."""

from __future__ import annotations

import json

import pytest

from iot_mqtt.codec import PacketType, Pingreq, encode
from iot_mqtt.devices.link.turns import AT_ONCE, SHARE
from tests.unit.broker.harness import V5, Client
from tests.unit.devices.link.linkkit import Gateway, World

#: Readings that are taken with one look at the clock: their frames have some 50 bytes.
FEW = AT_ONCE // 40


@pytest.fixture
def world() -> World:
    """Time goes on while frames are taken: whatever is taken at once costs most of a share."""
    world = World()
    now = [0.0]

    def monotonic() -> float:
        now[0] += SHARE * 0.6e-6
        return now[0]

    world.turns.monotonic = monotonic
    return world


@pytest.fixture
def reader(world: World) -> Client:
    reader = world.node.connect("reader", receive_maximum=65_535)
    reader.subscribe("up/#", qos=0)
    return reader


def send(gateway: Gateway, first: int, last: int) -> None:
    """Readings with these numbers, in one piece; the turn does not end."""
    frames = [f'r d {{"n": {n}}}{" " * 30}{n}\n' for n in range(first, last)]
    gateway.wire.feed("".join(frames).encode())


def numbers(reader: Client) -> list[int]:
    return [json.loads(one.payload)["seq"] for one in reader.messages()]


def test_many_gateways_do_not_keep_others_waiting(world: World, reader: Client) -> None:
    """Each sends one frame; a client that comes behind them is served first."""
    gateways = [world.gateway(f"line-{n}") for n in range(10)]
    healthy = world.node.connect("healthy")
    for gateway in gateways:
        send(gateway, 1, 2)
    assert sum(gateway.wire.channel.reading for gateway in gateways) == 2
    healthy.wire.feed(encode(Pingreq(), V5))
    world.node.one_turn()
    assert len(healthy.acks(PacketType.PINGRESP)) == 1
    assert 2 <= len(numbers(reader)) <= 4
    world.node.turn()
    assert len(numbers(reader)) >= 6
    assert all(gateway.wire.channel.reading for gateway in gateways)
    assert world.counters.readings == 10


def test_who_has_waited_longest_goes_on_first(world: World, reader: Client) -> None:
    """Nobody overtakes."""
    gateways = [world.gateway(f"line-{n}") for n in range(6)]
    for gateway in gateways:
        send(gateway, 1, 2)
    world.node.turn()
    assert [json.loads(one.payload)["gateway"] for one in reader.messages()] == [f"line-{n}" for n in range(6)]


def test_what_one_gateway_sends_is_taken_piece_by_piece(world: World, reader: Client) -> None:
    """In order, and nothing more is read meanwhile; what comes all the same is behind it."""
    gateway = world.gateway()
    send(gateway, 1, 5 * FEW)
    send(gateway, 5 * FEW, 6 * FEW)
    assert not gateway.wire.channel.reading
    world.node.one_turn()
    assert 0 < world.counters.readings < 4 * FEW
    world.node.turn()
    assert gateway.wire.channel.reading
    assert numbers(reader) == list(range(1, 6 * FEW))


def test_a_bad_frame_is_behind_those_that_wait(world: World, reader: Client) -> None:
    """They count."""
    gateway = world.gateway()
    send(gateway, 1, 5 * FEW)
    gateway.wire.feed(b"x" * 5000 + b"\n")
    assert not gateway.closed
    world.node.turn()
    assert gateway.closed
    assert numbers(reader) == list(range(1, 5 * FEW))
    assert world.counters.refused["too_long"] == 1


def test_a_gateway_that_sends_no_more_has_all_taken(world: World, reader: Client) -> None:
    """It is told what is safe before the end."""
    gateway = world.gateway()
    send(gateway, 1, 5 * FEW)
    gateway.wire.feed(b"safe 7\n")
    gateway.wire.peer_ends_input()
    assert not gateway.closed
    world.node.turn()
    assert gateway.heard() == ["safe 7"]
    assert gateway.closed
    assert numbers(reader) == list(range(1, 5 * FEW))


def test_who_leaves_meanwhile_is_forgotten(world: World) -> None:
    """What is left of its frames is not taken."""
    gateway = world.gateway()
    send(gateway, 1, 5 * FEW)
    gateway.hang_up()
    world.node.turn()
    assert world.counters.readings < 4 * FEW
