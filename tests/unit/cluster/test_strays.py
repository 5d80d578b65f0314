"""Clients that a node has let go of and that nobody has taken: when it takes them back, and who has them then."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.cluster import Claim
from tests.unit.cluster.nodekit import World


def let_go(world: World, client_id: str = "c") -> None:
    """At home at a, which lets go of it for b, as far as that."""
    assert world["a"].claim(client_id) is Claim.NEW
    world["b"].begin_claim(client_id)
    while client_id in world["a"].node.sessions:
        world.pass_time(0.0005)


def test_who_lets_go_of_a_client_takes_it_back_when_nobody_has_it() -> None:
    """After a while, and for good."""
    world = World("a", "b")
    let_go(world)
    world.kill("b")
    world.pass_time(3.0)
    assert not world.owners("c")
    world.pass_time(5.0)
    assert world.owners("c") == ["a"]
    assert world.home("c") == world["a"].number


def test_a_crowd_is_taken_back_in_time() -> None:
    """However many they are."""
    world = World("a", "b")
    names = [f"c{number}" for number in range(2_000)]
    for name in names:
        world["a"].begin_claim(name)
    world.pass_time(2.0)
    for name in names:
        world["b"].begin_claim(name)
    while world["a"].node.sessions:
        world.pass_time(0.0005)
    world.kill("b")
    world.pass_time(9.0)
    assert {name for name in names if world.owners(name) == ["a"]} == {
        name for name in names if world.home(name) == world["a"].number
    }
    assert world["a"].node.sessions


def test_a_client_that_was_taken_is_left_where_it_is() -> None:
    """Nothing is written, and nobody is asked for it."""
    world = World("a", "b")
    let_go(world)
    world.pass_time(1.0)
    record = world.record("c")
    world.pass_time(20.0)
    assert world.record("c") == record
    assert world.owners("c") == ["b"]
    assert not world["a"].node.told("adopt")


def test_a_node_that_takes_it_after_all_is_too_late() -> None:
    """It stood still for longer than is waited: it finds another record than it has read, and asks once more."""
    world = World("a", "b")
    let_go(world)
    world.network.pause("b")
    world.pass_time(5.9)
    while not world.owners("c"):
        world.pass_time(0.0005)
    world.network.resume("b")
    for _ in range(4_000):
        world.pass_time(0.0005)
        assert len(world.owners("c")) <= 1
    world.pass_time(20.0)
    assert len(world.owners("c")) == 1


def test_a_claim_that_was_written_and_not_answered_is_found() -> None:
    """The client was refused, and is at home here."""
    world = World("a", "b")
    assert world["a"].claim("c") is Claim.NEW
    door = world["b"].door
    swap = door.compare_and_set

    async def unanswered(*what: Any) -> bool:
        await swap(*what)
        raise Unavailable("the grid does not answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "compare_and_set", unanswered)
        assert world["b"].claim("c") is Claim.REFUSED
    assert world.home("c") == world["b"].number
    assert not world.owners("c")
    world.pass_time(8.0)
    assert world.owners("c") == ["b"]


def test_what_a_node_wants_is_said_to_be_unknown_while_it_cannot_look() -> None:
    """And known when it could."""
    world = World("a", "b")
    let_go(world)
    world.kill("b")
    world["a"].door.shut = True
    world.pass_time(8.0)
    assert world["a"].node.unread_some
    world["a"].door.shut = False
    world.pass_time(3.0)
    assert not world["a"].node.unread_some
    assert world.owners("c") == ["a"]


def test_what_cannot_be_loaded_is_loaded_again() -> None:
    """The client is nobody else's meanwhile."""
    world = World("a", "b", "c")
    let_go(world)
    world.kill("b")
    world["a"].node.fails_to_adopt = 3
    world.pass_time(6.5)
    assert world["a"].node.unread_some
    assert world["c"].claim("c", 30.0) is Claim.TAKEN
    assert world.owners("c") == ["c"]
    assert not world["a"].node.unread_some
