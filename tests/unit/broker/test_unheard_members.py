"""A member of a durable group whose node stands still: what was sent to it is nowhere but on its way."""

from __future__ import annotations

import pytest

from tests.unit.broker.groupworld import GroupWorld

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("patience", [5.0, 12.0])
def test_what_is_on_its_way_to_a_living_node_is_given_to_nobody_else(patience: float) -> None:
    """The one that gives out begins anew and does not know where a member is, and a third one dies; or, where nodes may
    stand still for longer, nobody does, and it looks by itself.
    """
    world = GroupWorld(names="abcd")
    world.ensemble.session_timeout = patience
    world.enter("m1", "c")
    world.enter("m2", "d")
    if patience == 5.0:
        world.kill("b")
        world.wait(2.5)
    world.pause("c")
    sent = world.publish("a", 8, 2)
    world.publisher.leave()
    world.kill("a")
    world.start("a")
    world.wait(patience - 1.7)
    assert world.lives["a"].ready
    assert world.out() == 4
    world.resume("c")
    world.wait(2.0)
    world.settle()
    assert sorted(world.came().elements()) == sorted(sent)
    assert world.out() == 0
