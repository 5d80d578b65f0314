"""The directory, on every grid."""

from __future__ import annotations

from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.records.directory import (
    PENDING_SECONDS,
    RECENT,
    Changes,
    decode_changes,
    decode_document,
    document_key,
    encode_changes,
)
from iot_mqtt.ports.directory import USERS
from tests.contract.directory_suite import DirectorySuite, Nodes, WallClock
from tests.contract.driving import ReactorPump
from tests.contract.grids import InMemory, OnDisk, OnIgnite
from tests.contract.ignitekit import make


class TestInMemory(InMemory, DirectorySuite):
    """The reference."""


class TestOnDisk(OnDisk, DirectorySuite):
    """RocksDB."""


class TestOnIgnite(OnIgnite, DirectorySuite):
    """A real server."""

    def test_two_nodes_that_write_at_once_both_succeed_and_know_the_same(self, nodes: Nodes) -> None:
        """Over connections of their own: neither loses the other's change of the row."""
        pump = nodes.pump
        assert isinstance(pump, ReactorPump)
        grid = make(pump, [self.server])
        pump.run(grid.open())
        here, there = nodes.node(), GridDirectory(grid, WallClock())  # type: ignore[arg-type]
        puts = [pump.start(node.put(USERS, f"{n}-{id(node)}", {"n": n})) for n in range(10) for node in (here, there)]
        pump.until(lambda: all(put.called for put in puts))
        for node in (here, there):
            pump.run(node.refresh())
        assert len(here.of(USERS)) == 20
        assert here.of(USERS) == there.of(USERS)
        pump.run(grid.close())


def test_the_formats_are_frozen() -> None:
    """Written by an earlier version, with a field of a later one: read by this one."""
    key = document_key("users", "bob")
    assert key == b"directory/d/users\0bob"
    document = decode_document(key, b'\x11{"version":3,"body":{"a":1},"by":"x","new":1}')
    assert (document.kind, document.name, document.version, document.body) == ("users", "bob", 3, {"a": 1})
    row = b'\x10{"seq":2,"floor":0,"recent":[[2,"users","bob"]],"pending":{"t":["users","a",5.0]}}'
    assert encode_changes(decode_changes(row)) == row


def test_the_row_stays_small_and_says_who_has_missed_too_much() -> None:
    """Names of the last changes only; the number tells whether they are enough."""
    row = Changes()
    for number in range(RECENT + 10):
        row = row.begin("t", "users", f"u{number}", 0.0).end("t", "users", f"u{number}")
    assert len(row.recent) == RECENT
    assert row.since(row.seq) == set()
    assert row.since(row.seq - 2) == {("users", f"u{RECENT + 9}")}
    assert row.since(row.floor) == {("users", f"u{number}") for number in range(10, RECENT + 10)}
    assert row.since(row.floor - 1) is None
    assert row.since(row.seq + 1) is None, "a grid that has forgotten"


def test_what_never_ended_is_a_change_in_the_end() -> None:
    """A writer who died is not looked after for ever."""
    row = Changes().begin("dead", "users", "bob", 0.0)
    seen = row.seq
    assert row.since(seen) == {("users", "bob")}
    row = row.begin("t", "users", "eve", PENDING_SECONDS + 1)
    assert set(row.pending) == {"t"}
    assert row.since(seen) == {("users", "bob"), ("users", "eve")}
