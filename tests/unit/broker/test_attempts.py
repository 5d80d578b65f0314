"""What is remembered of clients that are not there: bounded, and nobody pushes out everybody."""

from __future__ import annotations

from collections import Counter

from iot_mqtt.broker.facade import DroppedWanted
from iot_mqtt.broker.sessions.attempts import Attempts, MemoryBounds
from iot_mqtt.ports.addresses import source_of
from tests.unit.broker.harness import V311, Node, run

BOUNDS = MemoryBounds(entries=80, parts=8, each=3)


def _add(attempts: Attempts, client_id: str, address: str = "10.0.0.1", at: float = 0.0) -> None:
    attempts._add((client_id, "refused", at, "not_authorized", "no", None, f"{address}:5000", "mqtt", None), address)


def test_the_last_of_each_client_are_kept() -> None:
    """The newest first."""
    attempts = Attempts(lambda: 0.0, BOUNDS)
    for at in range(5):
        _add(attempts, "c", at=at)
    assert [one.at for one in attempts.of("c")] == [4, 3, 2]


def test_a_flood_of_one_address_pushes_out_its_own() -> None:
    """An eighth of the memory is its part."""
    attempts = Attempts(lambda: 0.0, BOUNDS)
    _add(attempts, "other", "10.0.0.2")
    for number in range(1000):
        _add(attempts, f"c{number}")
    assert len(attempts) == 11
    assert attempts.of("other")
    assert attempts.of("c999")
    assert not attempts.of("c989")


def test_the_whole_is_bounded_in_entries_and_in_bytes() -> None:
    """However many addresses there are; and nothing is left of who was dropped."""
    attempts = Attempts(lambda: 0.0, BOUNDS)
    for number in range(1000):
        _add(attempts, f"c{number}", f"10.0.{number >> 8}.{number & 255}")
    assert len(attempts) == len(attempts._by_client) == len(attempts._by_address) == 80
    small = Attempts(lambda: 0.0, MemoryBounds(entries=1000, bytes=20_000, parts=2))
    for number in range(1000):
        _add(small, f"{number}" * 50, f"a{number}")
    assert small._bytes <= 20_000


def test_a_network_of_ipv6_is_one_address() -> None:
    """Whoever has one address of it has all of them."""
    assert source_of("[2001:db8:1:2:3:4:5:6]:7") == source_of("[2001:db8:1:2:9:9:9:9]:8") != ""
    assert source_of("[2001:db8::1]:7") == source_of("[2001:db8::2]:7") != source_of("[2001:db8:0:1::1]:7")
    assert source_of("10.0.0.1:5") == "10.0.0.1"
    assert source_of("") == ""


def test_all_that_were_not_let_in_are_counted() -> None:
    """Also who broke the rules before it said who it is; not who went away without a word."""
    node = Node()
    node.open().feed(b"\xff\xff")
    node.open().feed(b"GET / HTTP/1.1\r\n\r\n")
    node.open().lose()
    node.connect("", clean=False, version=V311)
    refused = run(node.view.dropped(DroppedWanted(kind="connect"), 10))
    assert len(refused) == 3
    assert Counter(one.code.upper() for one in refused) == node.counters.connects_refused


def test_ends_are_noted_with_who_and_from_where() -> None:
    """A session that ended with its connection, one that expired, and one that an operator purged."""
    node = Node()
    node.connect("short").disconnect()
    (end,) = node.view.attempts("short")
    assert (end.kind, end.reason, end.text) == ("ended", "client_disconnected", "disconnected by the client")
    assert end.peer
    node.connect("long", expiry=10).lose()
    assert [(one.kind, one.reason) for one in node.view.attempts("long")] == [("left", "peer_closed")]
    node.advance(11)
    assert [one.reason for one in node.view.attempts("long")] == ["session_expired", "peer_closed"]
