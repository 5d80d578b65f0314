"""What nodes say to each other of durable groups, and who waits for a group's place, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from iot_mqtt.broker.shared_groups.link import GroupLink
from iot_mqtt.broker.shared_groups.waiting import OPEN_WITHIN, WaitingGroups
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.log import Reference
from iot_mqtt.topics import POLICIES, SharedGroup

ONE, TWO = Reference(0, 0, 5, 1), Reference(0, 0, 6, 2)


class Turn:
    """Does at once what is to be done soon."""

    def call_soon(self, call: Callable[[], None]) -> None:
        call()

    def plan(self) -> None:
        """It ends when the test says so."""

    def reserve(self) -> int:
        return 1


class Wire:
    """What has left for other nodes."""

    def __init__(self) -> None:
        self.said: list[tuple[int, str, list[Reference], int]] = []

    def tell_group(
        self, peer: int, kind: str, name: str, client_id: str, references: Sequence[Reference], question: int
    ) -> None:
        self.said.append((peer, kind, list(references), question))


def link_to(wire: Wire | None = None) -> tuple[GroupLink, list[str]]:
    """That of node 1, and what it hears."""
    heard: list[str] = []
    link = GroupLink(Turn(), 1, lambda peer, kind, *_: heard.append(f"{peer} {kind}"))
    if wire is not None:
        link.join(cast(Peers, wire), cast(Any, None))
    return link, heard


def test_words_leave_with_the_commit_they_rest_on() -> None:
    """Those of a turn together, and what belongs together in one; answers to two questions do not."""
    wire = Wire()
    link, _ = link_to(wire)
    link.tell(2, "done", "g", "c", [ONE])
    link.tell(2, "done", "g", "c", [TWO])
    link.tell(3, "full", "g", "c", [TWO])
    link.tell(3, "returned", "g", "c", [ONE], 6)
    link.tell(3, "returned", "g", "c", [ONE], 7)
    link.end_turn(7)
    link.committed(6)
    assert not wire.said
    link.committed(7)
    assert wire.said == [
        (2, "done", [ONE, TWO], 0),
        (3, "full", [TWO], 0),
        (3, "returned", [ONE], 6),
        (3, "returned", [ONE], 7),
    ]


def test_nothing_is_heard_before_what_is_kept_was_read() -> None:
    """Then all of it, in its order; what a node says to itself is no exception."""
    link, heard = link_to(Wire())
    link.told(2, "ask", "g", "c", [ONE], 1)
    link.tell(1, "done", "g", "c", [ONE])
    assert not heard
    link.begin()
    link.told(2, "noted", "g", "c", [ONE], 0)
    assert heard == ["2 ask", "1 done", "2 noted"]


def test_a_sole_node_talks_to_itself() -> None:
    """Whoever it is that it means."""
    link, heard = link_to()
    link.begin()
    link.tell(2, "done", "g", "c", [ONE])
    assert heard == ["2 done"] and not link.clustered and not list(link.kept_groups())


def test_who_waits_for_a_groups_place_waits_a_bounded_time() -> None:
    """And not at all where no group has to wait."""
    clock, called = ManualClock(), list[str]()
    waiting = WaitingGroups(clock, lambda: called.append("wanted"))
    waiting.when_open(lambda: called.append("at once"))
    group: SharedGroup[Any] = SharedGroup("g", "t", POLICIES["round_robin"]())
    waiting.add(group, 9)
    waiting.when_open(lambda: called.append("late"))
    assert called == ["at once", "wanted"] and group in waiting
    clock.advance(OPEN_WITHIN)
    assert called[2:] == ["late"]
    waiting.when_open(lambda: called.append("opened"))
    assert waiting.take() == {group: 9}
    waiting.tell()
    assert called[3:] == ["opened"]
