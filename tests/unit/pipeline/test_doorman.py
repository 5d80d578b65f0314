"""Who is let in at a listener: by address, by rate, by places; and who gives way among those who say nothing."""

from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING

import pytest

from iot_mqtt.pipeline import (
    AddressLimits,
    CloseReason,
    Descriptors,
    Doorman,
    HalfOpen,
    HalfOpenLimits,
    Layout,
    ListenerSettings,
    ManualClock,
    Visitors,
)
from iot_mqtt.pipeline.doorman import SAY_SECONDS
from iot_mqtt.pipeline.proxy_protocol import networks
from iot_mqtt.pipeline.visitors import MOST_GONE

if TYPE_CHECKING:
    from .conftest import Server

SETTINGS = ListenerSettings("mqtt")


class Door:
    """A doorman with a clock that is turned by hand, and every collaborator."""

    def __init__(
        self, limits: AddressLimits | None = None, places: int = 10_000, settings: ListenerSettings = SETTINGS
    ) -> None:
        self.clock = ManualClock()
        self.visitors = Visitors(limits or AddressLimits(), self.clock.monotonic)
        self.banned: set[str] = set()
        self.doorman = Doorman(
            settings,
            self.clock.monotonic,
            share=Descriptors(places).share(places, among=1),
            visitors=self.visitors,
            banned=self.banned.__contains__,
        )

    def come(self, host: str, count: int = 1) -> int:
        """How many of so many connections are let in."""
        return sum(self.doorman.lets_in(host) is not None for _ in range(count))


def test_an_address_has_no_more_connections_than_it_may() -> None:
    """Others are not concerned, and what leaves makes room."""
    door = Door(AddressLimits(most=3))
    assert door.come("192.0.2.1", 5) == 3
    assert door.come("192.0.2.2") == 1
    door.doorman.left("192.0.2.1")
    assert door.come("192.0.2.1", 2) == 1
    assert door.doorman.counts.refusals == {"address_connections": 3}
    assert (door.doorman.counts.accepted, door.doorman.counts.refused, door.doorman.counts.open) == (5, 3, 4)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_ipv6_counts_by_its_64(one: str, other: str, same: bool) -> None:
    """Which is what one subscriber has; IPv4 in IPv6 is IPv4."""
    door = Door(AddressLimits(most=1))
    assert door.come(one) == 1
    assert door.come(other) == (not same)


def test_an_address_begins_no_faster_than_it_may() -> None:
    """Many at once, as behind a NAT after a power failure; then so many in a second."""
    door = Door(AddressLimits(rate=10, burst=50))
    assert door.come("192.0.2.1", 100) == 50
    door.clock.advance(1)
    assert door.come("192.0.2.1", 100) == 10
    assert door.come("192.0.2.2") == 1
    door.clock.advance(60)
    assert door.come("192.0.2.1", 100) == 50
    assert door.doorman.counts.refusals == {"address_rate": 190}


def test_leaving_does_not_forget_the_rate() -> None:
    """Whoever connects and leaves again and again is as fast as whoever stays."""
    door = Door(AddressLimits(rate=1, burst=5))
    for _ in range(20):
        if door.come("192.0.2.1"):
            door.doorman.left("192.0.2.1")
    assert door.doorman.counts.accepted == 5


def test_addresses_are_forgotten() -> None:
    """Those that are gone, once their rate is over, and the oldest of too many."""
    door = Door(AddressLimits(rate=1, burst=5), places=100_000)
    for number in range(MOST_GONE + 100):
        host = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        door.come(host)
        door.doorman.left(host)
    assert len(door.visitors) == MOST_GONE
    door.clock.advance(10)
    for _ in range(MOST_GONE):
        door.come("192.0.2.1")
        door.doorman.left("192.0.2.1")
        door.clock.advance(1)
    assert len(door.visitors) <= 2


def test_networks_without_limits() -> None:
    """Load balancers, and this machine."""
    door = Door(AddressLimits(most=1, rate=1, unlimited=networks(["127.0.0.0/8", "2001:db8::/32"])))
    assert door.come("127.0.0.1", 5) == door.come("2001:db8::1", 5) == door.come("::ffff:127.0.0.1", 5) == 5
    assert len(door.visitors) == 0


def test_the_last_places_are_for_others() -> None:
    """One address that has taken nine tenths gets none of the rest; somebody else does."""
    door = Door(places=100)
    assert door.come("192.0.2.1", 200) == 90
    assert door.come("192.0.2.2", 5) == 5
    assert door.doorman.counts.refusals == {"address_connections": 110}


def test_places_that_are_refused_are_counted_for_nobody() -> None:
    """The listener is full: the address has not one connection more."""
    door = Door(AddressLimits(most=3), settings=ListenerSettings("mqtt", max_connections=2))
    assert door.come("192.0.2.1", 9) == 2
    assert door.doorman.counts.refusals == {"connections": 7}
    door.doorman.left("192.0.2.1")
    door.doorman.left("192.0.2.1")
    assert (door.doorman.counts.open, len(door.visitors)) == (0, 0)


def test_a_banned_address_is_not_let_in() -> None:
    """It is counted for nothing else."""
    door = Door(AddressLimits(most=1))
    door.banned.add("192.0.2.1")
    assert door.come("192.0.2.1", 3) == 0
    assert (door.doorman.counts.refusals, len(door.visitors)) == ({"banned": 3}, 0)


class Behind:
    """A channel of which a header has said where it comes from."""

    def __init__(self, peer: str) -> None:
        self.peer, self.source = peer, ""


def test_behind_a_balancer_the_header_counts() -> None:
    """The balancer's own address does not."""
    door = Door(AddressLimits(most=1), settings=ListenerSettings("mqtt", proxy_protocol=True))
    door.banned.add("192.0.2.9")
    assert door.come("10.0.0.1", 4) == 4
    first, second, banned = Behind("192.0.2.1:1"), Behind("192.0.2.1:2"), Behind("192.0.2.9:1")
    assert door.doorman.placed(first) is None
    assert first.source == "192.0.2.1"
    assert door.doorman.placed(second) is not None
    assert door.doorman.placed(banned) is not None
    assert door.doorman.counts.refusals == {"address_connections": 1, "banned": 1}
    for source in ("", "", "", "192.0.2.1"):
        door.doorman.left(source)
    assert door.doorman.placed(Behind("192.0.2.1:3")) is None


def test_a_flood_is_two_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The first at once, the next one with how many they were."""
    door = Door(AddressLimits(most=1))
    with caplog.at_level(logging.WARNING):
        door.come("192.0.2.1", 1000)
        door.clock.advance(SAY_SECONDS)
        door.come("192.0.2.1")
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "listener mqtt refused 1 connections (address_connections), the last of 192.0.2.1",
        "listener mqtt refused 999 connections (address_connections), the last of 192.0.2.1",
    ]


def test_the_log_says_by_which_limit_there_is_no_place(caplog: pytest.LogCaptureFixture) -> None:
    """That of the listener is a key, that of open files is the unit's."""
    with caplog.at_level(logging.WARNING):
        for settings in (SETTINGS, ListenerSettings("mqtt", max_connections=1)):
            doorman = Doorman(settings, ManualClock().monotonic, share=Descriptors(1).share(10, among=1))
            assert [doorman.lets_in("192.0.2.1"), doorman.lets_in("192.0.2.1")] == ["", None]
    assert [record.getMessage().partition(", ")[0] for record in caplog.records] == [
        "listener mqtt refused 1 connections (connections: no more by the limit of open files)",
        "listener mqtt refused 1 connections (connections: no more by listeners.mqtt.max_connections (1))",
    ]


# --- half-open --------------------------------------------------------------------------------------------


class Silent:
    """A channel whose client says nothing."""

    def __init__(self, listener: str = "mqtt", source: str = "") -> None:
        self.listener, self.source = listener, source
        self.ended: CloseReason | None = None

    def abort(self, reason: CloseReason) -> None:
        self.ended = reason


def _add(half_open: HalfOpen, count: int, listener: str = "mqtt", source: str = "") -> list[Silent]:
    added = [Silent(listener, source) for _ in range(count)]
    for one in added:
        half_open.add(one)
    return added


def _left(those: list[Silent]) -> list[int]:
    """Places of those that are still there."""
    return [place for place, one in enumerate(those) if one.ended is None]


def test_the_oldest_of_a_listener_gives_way() -> None:
    """Half of all is a listener's: the other one's are not touched."""
    half_open = HalfOpen(HalfOpenLimits(10))
    quiet = _add(half_open, 3, "ws")
    flood = _add(half_open, 100)
    assert _left(flood) == [95, 96, 97, 98, 99]
    assert _left(quiet) == [0, 1, 2]
    assert str(flood[0].ended).startswith("half_open")


def test_of_all_the_fullest_listener_pays() -> None:
    """Three listeners at their half are more than all may have."""
    half_open = HalfOpen(HalfOpenLimits(10))
    one, other = _add(half_open, 5, "mqtt"), _add(half_open, 5, "ws")
    third = _add(half_open, 2, "mqtts")
    assert (len(half_open), len(_left(third)), len(_left(one)) + len(_left(other))) == (10, 2, 8)


def test_the_oldest_of_an_address_gives_way() -> None:
    """A quarter of all is an address's."""
    half_open = HalfOpen(HalfOpenLimits(16))
    others = _add(half_open, 2, source="192.0.2.2")
    flood = _add(half_open, 6, source="192.0.2.1")
    assert (_left(others), _left(flood)) == ([0, 1], [2, 3, 4, 5])


def test_who_has_said_who_it_is_counts_no_more() -> None:
    """Nor whoever is gone, once or twice."""
    half_open = HalfOpen(HalfOpenLimits(4, 2, 1))
    (known,) = _add(half_open, 1, source="192.0.2.1")
    half_open.remove(known)
    half_open.remove(known)
    (other,) = _add(half_open, 1, source="192.0.2.1")
    behind = _add(half_open, 1)[0]
    behind.source = "192.0.2.1"
    half_open.placed(behind)
    half_open.placed(behind)
    assert (known.ended, behind.ended, other.ended is None, len(half_open)) == (None, None, False, 1)


def test_half_of_the_descriptors_is_the_most() -> None:
    """However many were configured."""
    half_open = HalfOpen(HalfOpenLimits(1000, 1000, 1000))
    half_open.within(20)
    assert len(_left(_add(half_open, 50))) == 10


# --- sockets ----------------------------------------------------------------------------------------------


def test_a_listener_takes_its_time(server: Server, echo: Layout) -> None:
    """Beyond its burst connections wait in the backlog; none is refused."""
    listening = server.listen(echo, ListenerSettings("test", port=0, connect_rate=50, connect_burst=5))

    def client() -> float:
        began = time.monotonic()
        sockets = [socket.create_connection(("127.0.0.1", listening.port), 5) for _ in range(15)]
        for sock in sockets:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
        for sock in sockets:
            sock.close()
        return time.monotonic() - began

    assert server.run(client) >= 0.15
    listening.resume()  # it may be at rest still, where the server does not look for it
    assert (listening.counts.accepted, listening.counts.refused) == (15, 0)
