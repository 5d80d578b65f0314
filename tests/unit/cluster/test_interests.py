"""What nodes know of each other's subscriptions: changes in their order, and who acts by them."""

from __future__ import annotations

import pytest

from iot_mqtt.cluster.interests import Ours, Theirs
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.cluster import Interest

WITHIN = 2.0


def ours(*peers: int) -> tuple[Ours, ManualClock]:
    """A node that expects these to acknowledge."""
    clock = ManualClock()
    return Ours(clock, WITHIN, lambda: peers), clock


def test_a_change_is_known_when_every_peer_has_acknowledged() -> None:
    """One of them is not enough: a message that is published at the other one would go nowhere."""
    node, _ = ours(2, 3)
    version = node.changed([Interest("t", live=True)]).version
    called: list[str] = []
    node.when_known(version, lambda: called.append("known"))
    node.acknowledged(2, version)
    node.look()
    assert called == []
    node.acknowledged(3, version - 1)
    node.look()
    assert called == []
    node.acknowledged(3, version)
    node.look()
    assert called == ["known"]


def test_a_peer_that_is_silent_is_not_waited_for_for_ever() -> None:
    """It is counted."""
    node, clock = ours(2)
    called: list[str] = []
    node.when_known(node.changed([Interest("t", live=True)]).version, lambda: called.append("late"))
    clock.advance(WITHIN - 0.1)
    assert called == []
    clock.advance(0.2)
    assert (called, node.late) == (["late"], 1)


def test_a_change_of_another_version_is_not_taken() -> None:
    """Neither one that was missed before, nor one that came already; all of it can be taken at any time."""
    node, _ = ours()
    changes = [node.changed([Interest(filter, live=True)]) for filter in "abc"]
    theirs = Theirs()
    assert theirs.take(changes[0]) is not None
    assert theirs.take(changes[2]) is None
    assert theirs.take(changes[0]) is None
    assert theirs.version == 1
    everything = theirs.take(node.everything([Interest(filter, live=True) for filter in "abc"]))
    assert everything is not None
    assert (everything.full, theirs.version) == (True, 3)


def test_what_somebody_wants_is_not_known_when_more_is_on_its_way_for_long() -> None:
    """A moment is nothing: heartbeats overtake what is being repaired."""
    node, _ = ours()
    theirs = Theirs()
    assert theirs.compare(0, 0, 100.0, 1.0)
    assert theirs.told
    missed = node.changed([Interest("t", kept=True)])
    for now, told in ((100.5, True), (101.4, True), (101.5, False), (102.0, False)):
        assert not theirs.compare(node.version, node.digest.value, now, 1.0)
        assert theirs.told is told
    assert theirs.take(missed) is not None
    assert theirs.compare(node.version, node.digest.value, 102.5, 1.0)
    assert theirs.told
    node.changed([Interest("u", kept=True)])
    assert not theirs.compare(node.version, node.digest.value, 103.0, 1.0)
    assert theirs.told


@pytest.mark.parametrize("whole", [False, True])
def test_who_stood_still_does_not_know_what_is_wanted_until_he_hears_something_new(*, whole: bool) -> None:
    """What he reads at first was waiting for him: the peer may not speak with him any more."""
    node, _ = ours()
    wanted = node.changed([Interest("t", kept=True)])
    theirs = Theirs()
    theirs.take(wanted)
    assert theirs.compare(node.version, node.digest.value, 100.0, 1.0)
    assert theirs.told
    theirs.stale(105.25)
    assert not theirs.told
    if whole:
        assert theirs.take(node.everything([Interest("t", kept=True)])) is not None
    assert theirs.compare(node.version, node.digest.value, 105.1, 1.0)
    assert not theirs.told
    assert theirs.compare(node.version, node.digest.value, 105.3, 1.0)
    assert theirs.told


def test_two_sides_agree_on_versions_and_on_what_is_in_them() -> None:
    """The digest of other filters is another one, whatever the version."""
    node, _ = ours()
    theirs = Theirs()
    theirs.take(node.changed([Interest("a", live=True), Interest("b", kept=True)]))
    assert theirs.agrees(node.version, node.digest.value)
    other, _ = ours()
    other.changed([Interest("a", live=True)])
    assert not theirs.agrees(other.version, other.digest.value)
    assert not theirs.agrees(node.version + 1, node.digest.value)
