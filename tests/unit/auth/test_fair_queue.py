"""Who is next where passwords wait: addresses in turn, names of an address in turn, and nobody locked out."""

from __future__ import annotations

import pytest

from iot_mqtt.auth import fair_queue
from iot_mqtt.auth.fair_queue import FEW, Allowance, FairQueue
from iot_mqtt.ports.addresses import source_of

SOURCES = {
    "192.0.2.1:50000": "192.0.2.1",
    "[::ffff:192.0.2.1]:50000": "192.0.2.1",
    "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64",
    "[2001:db8:1:2::9]:2": "2001:db8:1:2::/64",
    "[2001:db8:1:3::9]:2": "2001:db8:1:3::/64",
    "[fe80::1%eth0]:1883": "fe80::/64",
    "/run/x.sock": "/run/x.sock",
}


@pytest.mark.parametrize("peer", SOURCES)
def test_what_counts_as_one_address(peer: str) -> None:
    """IPv4 as it is, IPv6 by /64."""
    assert source_of(peer) == SOURCES[peer]


def drain(queue: FairQueue[str], now: float = 0.0) -> list[str]:
    """All that has its turn now."""
    keys = []
    while (taken := queue.take(now)) is not None:
        keys.append(taken[0])
    return keys


def test_addresses_take_turns_and_so_do_their_names() -> None:
    """However many wait for one of them."""
    queue: FairQueue[str] = FairQueue(100)
    for number in range(3):
        queue.put(f"g{number}", "attacker", "alice", 0.0)
    for key, source, name in [("b0", "attacker", "bob"), ("p0", "plant", "carol"), ("p1", "plant", "carol")]:
        queue.put(key, source, name, 0.0)
    assert drain(queue) == ["g0", "p0", "b0", "p1", "g1", "g2"]
    assert queue.delay(0.0) is None


def test_over_the_bound_the_newest_of_who_has_most_goes() -> None:
    """Of the address with most, and of its name with most."""
    queue: FairQueue[str] = FairQueue(4)
    gone = []
    for key, source, name in [("a", "one", "x"), ("b", "one", "x"), ("c", "one", "y"), ("d", "two", "x")]:
        gone += queue.put(key, source, name, 0.0)
    assert gone == []
    assert queue.put("e", "three", "x", 0.0) == [("b", "one")]
    assert drain(queue) == ["a", "d", "e", "c"]


def test_an_allowance_leaks_back() -> None:
    """Used up at once, then one in so many seconds; the right password costs nothing."""
    queue: FairQueue[str] = FairQueue(100, Allowance(2, 10.0))
    for number in range(FEW + 5):
        queue.put(f"{number}", "here", "x", 0.0)
    for expected in ("0", "1"):
        assert queue.take(0.0) == (expected, "here")
        queue.charge("here", 0.0)
    assert queue.take(0.0) is None
    assert queue.delay(0.0) == pytest.approx(10.0)
    assert [key for key, _ in queue.trim("here", 0.0)] == ["20", "19", "18"]
    assert [key for key, _ in queue.put("new", "here", "x", 0.0)] == ["new"]
    queue.put("other", "there", "x", 0.0)
    assert queue.take(0.0) == ("other", "there")
    assert queue.take(10.0) == ("2", "here")
    queue.charge("here", 10.0)
    queue.forgive("here", 10.0)
    assert queue.take(10.0) == ("3", "here")


def test_addresses_are_forgotten_but_for_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is bounded; the oldest make room."""
    monkeypatch.setattr(fair_queue, "MAX_ADDRESSES", 3)
    queue: FairQueue[str] = FairQueue(100, Allowance(1, 100.0))
    queue.put("kept", "old", "x", 0.0)
    for source in ("old", "a", "b", "c", "d"):
        queue.charge(source, 0.0)
    assert list(queue._addresses) == ["old", "c", "d"]


def test_who_withdraws_has_no_turn() -> None:
    """Neither does his address, if nothing else waits for it."""
    queue: FairQueue[str] = FairQueue(100)
    for key, source, name in [("a", "one", "x"), ("b", "one", "x"), ("c", "two", "x")]:
        queue.put(key, source, name, 0.0)
    queue.withdraw("a", "one", "x")
    queue.withdraw("c", "two", "x")
    assert queue.waiting == 1
    assert drain(queue) == ["b"]
