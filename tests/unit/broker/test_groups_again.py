"""What a member of a durable group gets a second time, over several nodes: with DUP, and its id where that is known."""

from __future__ import annotations

import pytest

from tests.unit.broker.groupworld import GroupWorld

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


def again(sent: list[tuple[bytes, int, bool]]) -> list[tuple[bytes, int, bool]]:
    """The same once more, with DUP."""
    return [(payload, packet_id, True) for payload, packet_id, _ in sent]


@pytest.mark.parametrize("giver", ["a", "b"], ids=["given out there", "given out here"])
def test_what_comes_to_the_same_session_again_has_dup_and_its_id(giver: str) -> None:
    """[MQTT-4.4.0-1] [MQTT-3.3.1-1] Whichever node gives its group out."""
    world = GroupWorld()
    one = world.enter("m1", "b", qos=1)
    one.slow = True
    world.publish(giver, 3)
    assert world.until(lambda: len(one.sent) == 3, 10.0)
    assert not any(dup for _, _, dup in one.sent)
    one.leave()
    world.wait(0.5)
    world.connect(one, "b")
    assert world.until(lambda: len(one.sent) == 6, 10.0)
    assert one.sent[3:] == again(one.sent[:3])
    world.settle()


@pytest.mark.parametrize("to", ["a", "c"], ids=["where it is given out", "elsewhere"])
def test_what_comes_to_a_session_that_has_moved_has_dup(to: str) -> None:
    """[MQTT-3.3.1-1] Its ids are new; and whoever gets it for the first time gets it without."""
    world = GroupWorld()
    one = world.enter("m1", "b", qos=1)
    one.slow = True
    sent = world.publish("a", 3)
    assert world.until(lambda: len(one.sent) == 3, 10.0)
    one.leave()
    world.wait(0.5)
    world.connect(one, to)
    assert world.until(lambda: len(one.sent) == 6, 10.0)
    assert [(payload, dup) for payload, _, dup in one.sent[3:]] == [(payload, True) for payload in sent]
    one.leave()
    other = world.enter("m2", "b", qos=1)
    assert world.until(lambda: len(other.sent) == 3, 10.0)
    assert not any(dup for _, _, dup in other.sent)
    world.settle()


def test_what_a_member_had_no_room_for_comes_without_dup() -> None:
    """It was on its way to that member's node, and never to the member."""
    world = GroupWorld()
    one = world.enter("m1", "b", qos=1, window=2)
    one.slow = True
    sent = world.publish("a", 6)
    world.wait(1.0)
    world.settle()
    assert one.got == sent
    assert not any(dup for _, _, dup in one.sent)
