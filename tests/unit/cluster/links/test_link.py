"""One link: two state machines, datagrams carried by hand, time by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from iot_mqtt.cluster.links import LinkSettings, items_v1, proto_v1
from iot_mqtt.cluster.links.events import CaughtUp, Down, Event, Gap, Items, Started, StoodStill, Up
from iot_mqtt.cluster.links.link import Condition, Link
from iot_mqtt.cluster.links.values import Data, Datagram, Head, Heartbeat, Lost, Repair
from iot_mqtt.pipeline.clock import ManualClock
from tests.unit.cluster.links.linkskit import numbered

SETTINGS = LinkSettings()


class Side:
    """One end."""

    def __init__(self, number: int, boot: int, peer: int, settings: LinkSettings) -> None:
        self.condition = Condition()
        self.link = Link(number, boot, peer, self.condition, settings, ManualClock().wall)
        self.out: list[bytes] = []
        self.events: list[Event] = []

    def take(self) -> None:
        payloads, events = self.link.take()
        self.out += payloads
        self.events += events

    def told(self, *kinds: type[Event]) -> list[Event]:
        """What has happened of these kinds; all of it is forgotten."""
        found = [event for event in self.events if isinstance(event, kinds)]
        self.events.clear()
        return found

    def numbers(self) -> list[Any]:
        """The items and gaps that were told; a gap as (first, last)."""
        found: list[Any] = []
        for event in self.told(Items, Gap):
            if isinstance(event, Gap):
                found.append((event.first, event.last))
            elif isinstance(event, Items):
                found += [getattr(item, "version", None) for item in event.items]
        return found

    def sent(self) -> list[Datagram]:
        """What is under way from here; it is lost."""
        payloads, self.out = self.out, []
        return [proto_v1.read(payload)[1] for payload in payloads]


class Two:
    """Node 1 and node 2; nothing moves by itself."""

    def __init__(self, settings: LinkSettings = SETTINGS, *, met: bool = True) -> None:
        self.settings = settings
        self.now = 1000.0
        self.one = Side(1, 1, 2, settings)
        self.two = Side(2, 1, 1, settings)
        if met:
            self.one.link.meet(1, self.now)
            self.two.link.meet(1, self.now)
            self.tick()
            self.tick()
            self.one.told()
            self.two.told()

    def post(self, *numbers: int, end: int = 0) -> bytes:
        """Node 1 sends these in one datagram; it stays here until ``bring``."""
        payload = self.one.link.post([items_v1.write_item(numbered(number)) for number in numbers], end, self.now)
        self.one.take()
        return payload

    def bring(self, payload: bytes, to: Side | None = None) -> None:
        side = to or self.two
        kind, head = proto_v1.read_head(payload)
        side.link.receive(kind, head, payload, self.now)
        side.take()

    def exchange(self) -> None:
        """Bring what is under way, and what that brings about."""
        while self.one.out or self.two.out:
            for here, there in ((self.one, self.two), (self.two, self.one)):
                payloads, here.out = here.out, []
                for payload in payloads:
                    self.bring(payload, there)

    def tick(self, seconds: float = 0.0, *, exchange: bool = True) -> None:
        """Time passes in small steps."""
        until = self.now + seconds
        while True:
            for side in (self.one, self.two):
                side.link.tick(self.now)
                side.take()
            if exchange:
                self.exchange()
            if self.now >= until:
                return
            self.now = min(self.now + self.settings.tick, until)


def test_each_side_starts_and_hears_the_other() -> None:
    two = Two(met=False)
    two.one.link.meet(1, two.now)
    two.two.link.meet(1, two.now)
    two.tick()
    two.tick()
    assert two.one.told(Started, Up, Down) == [Started(1), Up()]
    assert two.two.told(Started, Up, Down) == [Started(1), Up()]
    assert two.one.link.hears_us and two.two.link.hears_us


def test_items_come_in_order_with_the_end_behind_them() -> None:
    two = Two()
    two.bring(two.post(1, 2, end=7))
    two.bring(two.post(3, end=9))
    assert two.two.told(Items) == [Items((numbered(1), numbered(2)), 7), Items((numbered(3),), 9)]


def test_what_comes_twice_is_told_once() -> None:
    two = Two()
    payload = two.post(1)
    two.bring(payload)
    two.bring(payload)
    assert two.two.numbers() == [1]
    assert two.two.link.figures.duplicates == 1


def test_what_comes_too_early_waits_and_nothing_is_asked_at_once() -> None:
    two = Two()
    first, second = two.post(1), two.post(2)
    two.bring(second)
    assert two.two.numbers() == [] and not two.two.out
    two.bring(first)
    two.tick(1.0)
    assert two.two.numbers() == [1, 2]
    assert two.two.link.figures.repairs_asked == 0


def test_a_hole_is_asked_for_and_filled_from_the_ring() -> None:
    two = Two()
    two.post(1)
    two.bring(two.post(2))
    two.tick(0.1)
    assert two.two.numbers() == [1, 2]
    assert (two.two.link.figures.repairs_asked, two.one.link.figures.repairs_served) == (1, 1)


def test_a_lost_tail_shows_with_the_next_heartbeat() -> None:
    two = Two()
    two.bring(two.post(1))
    two.post(2)
    two.tick(SETTINGS.active_heartbeat + 0.1)
    assert two.two.numbers() == [1, 2]


def test_all_holes_are_asked_for_at_once() -> None:
    two = Two()
    payloads = [two.post(number) for number in range(1, 7)]
    two.bring(payloads[1])
    two.bring(payloads[4])
    two.tick(0.05, exchange=False)
    assert Repair(((1, 1), (3, 4))) in two.two.sent()


def test_a_hole_is_asked_for_again_with_growing_pauses() -> None:
    two = Two()
    two.post(1)
    two.bring(two.post(2))
    asked = []
    begun = two.now
    for _ in range(70):
        two.tick(SETTINGS.tick, exchange=False)
        if any(isinstance(datagram, Repair) for datagram in two.two.sent()):
            asked.append(two.now - begun)
    assert asked[0] <= SETTINGS.repair_wait + SETTINGS.tick
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8], abs=1.1 * SETTINGS.tick)


def test_a_hole_that_nothing_fills_is_given_up_in_the_end() -> None:
    two = Two()
    two.post(1)
    two.bring(two.post(2))
    two.tick(SETTINGS.gap_after - 0.05, exchange=False)
    assert two.two.numbers() == []
    two.tick(0.05, exchange=False)
    assert two.two.numbers() == [(1, 1), 2]
    assert (two.two.link.figures.gaps, two.two.link.figures.items_missed) == (1, 1)


def test_patience_begins_anew_when_something_was_filled() -> None:
    two = Two()
    payloads = [two.post(number) for number in (1, 2, 3, 4)]
    two.bring(payloads[1])
    two.bring(payloads[3])
    two.tick(1.5, exchange=False)
    two.bring(payloads[0])
    two.tick(1.5, exchange=False)
    assert two.two.numbers() == [1, 2]
    two.bring(payloads[2])
    assert two.two.numbers() == [3, 4]


def test_what_the_ring_has_lost_is_a_gap_as_soon_as_it_is_asked_for() -> None:
    two = Two(replace(SETTINGS, ring_count=2))
    for number in (1, 2, 3):
        two.post(number)
    two.bring(two.post(4))
    two.tick(0.1)
    assert two.two.numbers() == [(1, 2), 3, 4]


def test_the_ring_is_bounded_in_bytes() -> None:
    size = len(Two().post(1))
    two = Two(replace(SETTINGS, ring_bytes=3 * size))
    for number in range(1, 10):
        two.post(number)
    assert (len(two.one.link.ring), two.one.link.ring.bytes, two.one.link.ring.start) == (3, 3 * size, 7)


def test_what_has_come_leaves_the_ring() -> None:
    two = Two()
    for number in range(1, 4):
        two.bring(two.post(number))
    two.tick(SETTINGS.active_heartbeat + 0.05)
    assert (len(two.one.link.ring), two.one.link.ring.bytes) == (0, 0)


def test_a_repair_is_served_in_portions() -> None:
    size = len(Two().post(1))
    two = Two(replace(SETTINGS, repair_burst=2 * size))
    for number in range(1, 6):
        two.post(number)
    two.bring(two.post(6))
    two.tick(0.03)
    assert two.two.numbers() == [1, 2]
    two.tick(0.2)
    assert two.two.numbers() == [3, 4, 5, 6]
    assert two.two.link.figures.duplicates == 0


def test_an_item_too_long_for_any_datagram_is_a_gap_at_once() -> None:
    two = Two(replace(SETTINGS, datagram_most=100))
    two.bring(two.post(1))
    long = two.post(*range(2, 10))
    assert proto_v1.read(long)[1] == Lost(2, 9)
    two.bring(long)
    two.bring(two.post(10))
    assert two.two.numbers() == [1, (2, 9), 10]
    assert two.one.link.figures.unsendable == 8


def test_an_item_too_long_is_a_gap_even_if_that_word_is_lost() -> None:
    two = Two(replace(SETTINGS, datagram_most=100))
    two.post(*range(1, 9))
    two.bring(two.post(9))
    two.tick(0.1)
    assert two.two.numbers() == [(1, 8), 9]


def test_a_restart_of_the_peer_begins_both_directions_anew() -> None:
    two = Two()
    two.bring(two.post(1))
    two.post(2)
    two.two = Side(2, 2, 1, SETTINGS)
    two.two.link.meet(1, two.now)
    two.tick()
    assert two.one.told(Started, Up, Down) == [Started(2)]
    assert two.one.link.ring.next == 1
    two.bring(two.post(3))
    two.tick(3.0)
    assert two.two.numbers() == [3]


def test_a_list_of_members_that_lags_behind_changes_nothing() -> None:
    two = Two()
    two.one.link.meet(3, two.now)
    two.one.link.meet(2, two.now)
    two.one.take()
    assert two.one.told(Started) == [Started(3)]
    assert two.one.link.peer_boot == 3


def test_datagrams_of_an_earlier_life_of_the_peer_are_ignored_and_counted() -> None:
    two = Two()
    old = two.post(1)
    two.two.link.meet(2, two.now)
    two.bring(old)
    assert two.two.numbers() == []
    assert two.two.link.figures.foreign_boots == 1


def test_datagrams_to_an_earlier_life_of_ours_are_ignored_and_counted() -> None:
    two = Two()
    payload = two.post(1)
    two.two = Side(2, 2, 1, SETTINGS)
    two.two.link.meet(1, two.now)
    two.bring(payload)
    assert two.two.numbers() == [] and not two.two.link.up
    assert two.two.link.figures.foreign_boots == 1


def test_two_restarts_at_once_find_each_other_without_the_list() -> None:
    """Each knows the other's earlier life only; datagrams that are not for us still say who speaks."""
    two = Two(met=False)
    two.one = Side(1, 5, 2, SETTINGS)
    two.two = Side(2, 6, 1, SETTINGS)
    two.one.link.meet(1, two.now)
    two.two.link.meet(1, two.now)
    two.tick(1.0)
    assert (two.one.link.peer_boot, two.two.link.peer_boot) == (6, 5)
    assert two.one.link.hears_us and two.two.link.hears_us


def test_a_greeting_without_our_boot_makes_the_peer_heard_and_nothing_else() -> None:
    two = Two(met=False)
    two.two.link.meet(1, two.now)
    heartbeat = proto_v1.write(Head(1, 1, 2, 0), Heartbeat(100, 100, 1))
    two.bring(heartbeat)
    two.bring(proto_v1.write(Head(1, 1, 2, 0), Data(1, 0, (numbered(1),))))
    assert two.two.told(Up, Items, CaughtUp) == [Up()]
    assert two.two.link.figures.foreign_boots == 1


def test_silence_is_told_once_and_so_is_the_first_word() -> None:
    two = Two()
    two.tick(SETTINGS.silence + 1, exchange=False)
    assert two.one.told(Up, Down) == [Down()]
    assert not two.one.link.hears_us
    two.one.out.clear()
    two.two.out.clear()
    two.tick(1.0)
    assert two.one.told(Up, Down, Started) == [Up()]


def test_what_is_sent_during_a_silence_comes_when_it_is_over() -> None:
    two = Two()
    two.tick(SETTINGS.silence + 1, exchange=False)
    for number in range(1, 20):
        two.post(number)
    two.one.out.clear()
    two.two.out.clear()
    two.two.told()
    two.tick(1.0)
    assert two.two.numbers() == list(range(1, 20))


def test_a_process_that_stood_still_does_not_blame_the_others() -> None:
    two = Two()
    two.post(1)
    two.bring(two.post(2))
    two.now += 60.0
    two.two.link.tick(two.now)
    two.two.take()
    assert two.two.told(Down, Gap, StoodStill) == [StoodStill()]


def test_heartbeats_are_regular_and_soon_after_items() -> None:
    two = Two()
    two.tick(1.0)
    two.one.out.clear()
    times = []
    begun = two.now
    for step in range(60):
        if step == 30:
            two.post(1)
        two.tick(0.02, exchange=False)
        times += [round(two.now - begun, 2) for datagram in two.one.sent() if isinstance(datagram, Heartbeat)]
    pauses = [round(later - earlier, 2) for earlier, later in pairwise(times)]
    assert max(pauses) <= SETTINGS.heartbeat + 0.02
    assert any(0.6 <= at <= 0.6 + SETTINGS.active_heartbeat + 0.04 for at in times)


def test_a_heartbeat_is_told_only_when_all_before_it_has_been() -> None:
    two = Two()
    payload = two.post(1, end=5)
    two.one.condition.end = 9
    two.one.link.beat(two.now)
    two.one.take()
    (heartbeat,) = two.one.out
    two.one.out.clear()
    two.bring(heartbeat)
    assert two.two.told(CaughtUp) == []
    two.bring(payload)
    two.bring(heartbeat)
    first, second = two.two.told(Items, CaughtUp)
    assert isinstance(first, Items) and isinstance(second, CaughtUp)
    assert (first.end, second.heartbeat.end) == (5, 9)


def test_a_peer_that_leaves_the_list_and_comes_back_finds_a_gap() -> None:
    """What was not sent to it meanwhile has no numbers, so one is used up."""
    two = Two()
    two.bring(two.post(1))
    two.one.link.leave()
    two.one.take()
    assert two.one.told(Down) == [Down()]
    two.tick(1.0, exchange=False)
    assert two.one.sent() == []
    two.one.link.meet(1, two.now)
    two.one.take()
    assert two.one.told(Started) == [Started(1)]
    two.bring(two.post(2))
    two.tick(0.2)
    assert two.two.numbers() == [1, (2, 2), 2]


def test_one_who_is_not_on_the_list_is_not_listened_to() -> None:
    two = Two()
    two.two.link.leave()
    two.bring(two.post(1))
    assert two.two.numbers() == []
    assert two.two.link.figures.foreign_boots == 1


@pytest.mark.parametrize("body", ["", "00", "0000000000000001 0000000000000000 00000001 03 00000009 00"])
@pytest.mark.parametrize("kind", range(1, 6))
def test_rubbish_is_counted_and_changes_nothing(kind: int, body: str) -> None:
    two = Two()
    head = proto_v1.write(Head(1, 1, 2, 1), Lost(1, 1))[: proto_v1.HEAD_SIZE]
    before = two.two.link.figures.malformed
    two.bring(head[:1] + bytes((kind,)) + head[2:] + bytes.fromhex(body))
    if kind != proto_v1.LOST and not (kind == proto_v1.REPAIR and body[:4] == "0000"):
        assert two.two.link.figures.malformed == before + 1
    two.bring(two.post(1))
    two.tick(0.2)
    assert 1 in two.two.numbers() or kind == proto_v1.LOST


def test_a_repair_of_what_was_never_sent_is_ignored() -> None:
    two = Two()
    two.bring(proto_v1.write(Head(2, 1, 1, 1), Repair(((5, 9), (1 << 40, 1 << 41)))), two.one)
    assert two.one.out == []


def test_numbers_out_of_this_world_end_in_a_gap() -> None:
    two = Two()
    two.bring(proto_v1.write(Head(1, 1, 2, 1), Data((1 << 63) - 2, 0, (numbered(1),))))
    two.tick(SETTINGS.gap_after + 0.5)
    assert two.two.numbers() == [(1, (1 << 63) - 3), 1]
