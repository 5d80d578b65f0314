"""Which life is alive, dead, or has not been seen yet."""

from __future__ import annotations

from typing import cast

from iot_mqtt.cluster.membership import Membership
from iot_mqtt.cluster.roster import Life, Standing
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.registry import Member, Registry

GRACE = 2.0


def member(number: int, boot: int) -> Member:
    """A node in the list."""
    return Member(f"n{number}", number, boot, "1")


def membership(clock: ManualClock) -> Membership:
    """Of node 1."""
    return Membership(Life(1, 5), cast(Registry, None), clock, GRACE)


def test_a_life_is_alive_while_the_list_has_it() -> None:
    """And dead as soon as it has it no more: the grace is not for what was seen."""
    others = membership(ManualClock())
    others.update([member(1, 5), member(2, 7)])
    assert others.standing(Life(2, 7)) is Standing.ALIVE
    assert others.update([member(1, 5)]) == [Life(2, 7)]
    assert others.standing(Life(2, 7)) is Standing.DEAD


def test_an_earlier_life_of_a_node_that_is_there_is_dead() -> None:
    """It was started again; nothing has gone for good."""
    others = membership(ManualClock())
    others.update([member(2, 7)])
    assert others.update([member(2, 8)]) == []
    assert others.standing(Life(2, 7)) is Standing.DEAD
    assert others.standing(Life(2, 8)) is Standing.ALIVE


def test_a_life_that_was_never_seen_may_be_about_to_come() -> None:
    """A node that starts is not taken for dead before its grace is over, also when an earlier life of it was seen."""
    clock = ManualClock()
    others = membership(clock)
    others.update([member(2, 7)])
    for life in (Life(3, 1), Life(2, 8)):
        assert others.standing(life) is Standing.UNSEEN
    clock.advance(GRACE - 0.1)
    assert others.standing(Life(3, 1)) is Standing.UNSEEN
    clock.advance(0.2)
    assert others.standing(Life(3, 1)) is Standing.DEAD
    others.update([member(2, 7), member(3, 1)])
    assert others.standing(Life(3, 1)) is Standing.ALIVE


def test_this_node_is_not_in_it() -> None:
    """Whatever the list says of it."""
    others = membership(ManualClock())
    others.update([member(1, 5), member(2, 7)])
    assert list(others.members) == [2]
