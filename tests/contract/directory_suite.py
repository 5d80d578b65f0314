"""What any grid must keep of the directory: documents, their versions, and changes that every node sees.

Subclass ``DirectorySuite`` and define ``make`` (and ``pump``, if the grid needs a reactor). Nodes are directories of
their own, over one grid or over grids of their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.records.directory import CHANGES_KEY, document_key, encode_document
from iot_mqtt.ports.directory import RULES, USERS, Conflict, Document, TooMuch
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from tests.contract.driving import Pump


class WallClock:
    """Real time, and no timers."""

    def wall(self) -> float:
        return time.time()

    monotonic = wall

    def call_later(self, delay: float, call: object) -> object:
        raise NotImplementedError


class Nodes:
    """A grid, and directories over it."""

    def __init__(self, grid: Grid, pump: Pump) -> None:
        self.grid, self.pump = grid, pump
        pump.run(grid.open())

    def node(self, **bounds: int) -> GridDirectory:
        directory = GridDirectory(self.grid, WallClock(), **bounds)  # type: ignore[arg-type]
        self.pump.run(directory.load())
        return directory


class DirectorySuite:
    """Subclass, and define ``make``."""

    def make(self, directory: Path, pump: Pump) -> Grid:
        raise NotImplementedError

    def pump(self) -> Pump:
        return Pump()

    @pytest.fixture
    def nodes(self, tmp_path: Path) -> Iterator[Nodes]:
        pump = self.pump()
        nodes = Nodes(self.make(tmp_path, pump), pump)
        yield nodes
        pump.run(nodes.grid.close())

    def test_a_document_comes_back_on_every_node(self, nodes: Nodes) -> None:
        """At once where it was written, with the next look elsewhere, and after a start."""
        here, there = nodes.node(), nodes.node()
        body = {"enabled": True, "groups": ["ä", "b"], "more": {"a": [1, None, 2.5]}}
        written = nodes.pump.run(here.put(USERS, "jürgen/1", body))
        assert here.get(USERS, "jürgen/1") == written
        assert written.body == body
        assert there.get(USERS, "jürgen/1") is None
        nodes.pump.run(there.refresh())
        assert there.get(USERS, "jürgen/1") == written
        assert nodes.node().of(USERS) == {"jürgen/1": written}
        assert there.get(RULES, "jürgen/1") is None, "another kind"

    def test_only_the_version_that_was_seen_is_replaced(self, nodes: Nodes) -> None:
        """A stale writer is told, and changes nothing; 0 stands for no document."""
        here, there = nodes.node(), nodes.node()
        first = nodes.pump.run(here.put(USERS, "bob", {"a": 1}, version=0))
        with pytest.raises(Conflict):
            nodes.pump.run(there.put(USERS, "bob", {"a": 2}, version=0))
        second = nodes.pump.run(there.put(USERS, "bob", {"a": 3}, version=first.version))
        assert second.version > first.version
        with pytest.raises(Conflict):
            nodes.pump.run(here.put(USERS, "bob", {"a": 4}, version=first.version))
        with pytest.raises(Conflict):
            nodes.pump.run(here.delete(USERS, "bob", version=first.version))
        nodes.pump.run(here.refresh())
        assert here.get(USERS, "bob") == second
        assert nodes.pump.run(here.put(USERS, "bob", {})).version > second.version

    def test_a_deleted_document_is_gone_on_every_node_and_its_versions_never_come_back(self, nodes: Nodes) -> None:
        """Who saw the one before cannot change the one after."""
        here, there = nodes.node(), nodes.node()
        first = nodes.pump.run(here.put(USERS, "bob", {}))
        nodes.pump.run(there.refresh())
        assert nodes.pump.run(here.delete(USERS, "bob", version=first.version))
        assert not nodes.pump.run(here.delete(USERS, "bob"))
        nodes.pump.run(there.refresh())
        assert there.get(USERS, "bob") is None
        again = nodes.pump.run(here.put(USERS, "bob", {}, version=0))
        assert again.version > first.version
        with pytest.raises(Conflict):
            nodes.pump.run(there.put(USERS, "bob", {}, version=first.version))

    def test_listeners_hear_what_changed_and_only_that(self, nodes: Nodes) -> None:
        """By kind, after it is known; not when nothing changed, and not after they have stopped."""
        here, there = nodes.node(), nodes.node()
        heard: list[tuple[str, ...]] = []
        stop = there.watch(USERS, lambda names: heard.append((*sorted(names), str(len(there.of(USERS))))))
        for name in ("b", "a"):
            nodes.pump.run(here.put(USERS, name, {}))
        nodes.pump.run(here.put(RULES, "r", {}))
        for _ in range(3):
            nodes.pump.run(there.refresh())
        assert heard == [("a", "b", "2")]
        nodes.pump.run(there.put(USERS, "a", {"x": 1}))
        assert heard[1:] == [("a", "2")], "its own are heard before they are acknowledged"
        nodes.pump.run(there.refresh())
        assert len(heard) == 2
        stop()
        nodes.pump.run(there.delete(USERS, "a"))
        assert len(heard) == 2

    def test_many_changes_between_two_looks_are_all_seen(self, nodes: Nodes) -> None:
        """More than the row of changes can name."""
        here, there = nodes.node(), nodes.node()
        nodes.pump.run(here.put(USERS, "gone", {}))
        nodes.pump.run(there.refresh())
        nodes.pump.run(here.delete(USERS, "gone"))
        for number in range(70):
            nodes.pump.run(here.put(USERS, f"u{number}", {"n": number}))
        nodes.pump.run(there.refresh())
        assert there.of(USERS) == here.of(USERS)
        assert len(there.of(USERS)) == 70

    def test_pages_are_by_name(self, nodes: Nodes) -> None:
        """Each begins behind the name that the one before ended with."""
        node = nodes.node()
        for name in ("c", "a", "d", "b"):
            nodes.pump.run(node.put(USERS, name, {}))
        assert [one.name for one in node.page(USERS, limit=3)] == ["a", "b", "c"]
        assert [one.name for one in node.page(USERS, after="c", limit=3)] == ["d"]
        assert node.page(USERS, after="bb", limit=1)[0].name == "c"

    def test_what_a_writer_who_died_left_is_seen(self, nodes: Nodes) -> None:
        """It had written the document, and could not say so any more."""
        here, there = nodes.node(), nodes.node()
        seen: list[int] = []

        async def dies(*_: object) -> None:
            row = await nodes.grid.get(CacheName.META, CHANGES_KEY)
            seen.append(len(row or b""))
            raise KeyboardInterrupt

        here._swap = dies  # type: ignore[assignment, method-assign]
        with pytest.raises(KeyboardInterrupt):
            nodes.pump.run(here.put(USERS, "bob", {"a": 1}))
        assert seen, "it had said that it begins"
        nodes.pump.run(there.refresh())
        assert there.get(USERS, "bob") is None
        batch = WriteBatch()
        document = Document(USERS, "bob", 1, {"a": 1})
        batch.put(CacheName.META, document_key(USERS, "bob"), encode_document(document, "dead"))
        nodes.pump.run(nodes.grid.commit(batch))
        nodes.pump.run(there.refresh())
        assert there.get(USERS, "bob") == document

    def test_a_record_of_a_newer_version_hurts_nobody(self, nodes: Nodes) -> None:
        """It stays what it was known as, and others are read."""
        node = nodes.node()
        nodes.pump.run(node.put(USERS, "a", {"x": 1}))
        batch = WriteBatch()
        batch.put(CacheName.META, document_key(USERS, "a"), b"\x20{}")
        nodes.pump.run(nodes.grid.commit(batch))
        nodes.pump.run(node.put(USERS, "b", {}))
        nodes.pump.run(node.load())
        assert set(node.of(USERS)) == {"a", "b"}
        assert set(nodes.node().of(USERS)) == {"b"}

    def test_bounds_hold(self, nodes: Nodes) -> None:
        """Of a document, of a kind, of all together; what is replaced or deleted makes room."""
        node = nodes.node(max_of_kind=2, max_bytes=1000)
        with pytest.raises(TooMuch):
            nodes.pump.run(node.put(USERS, "big", {"x": "x" * 300_000}))
        nodes.pump.run(node.put(USERS, "a", {"x": "x" * 600}))
        with pytest.raises(TooMuch):
            nodes.pump.run(node.put(RULES, "r", {"x": "x" * 600}))
        nodes.pump.run(node.put(USERS, "a", {"x": "y" * 700}))
        nodes.pump.run(node.put(USERS, "b", {}))
        with pytest.raises(TooMuch):
            nodes.pump.run(node.put(USERS, "c", {}))
        assert nodes.pump.run(node.delete(USERS, "a"))
        nodes.pump.run(node.put(RULES, "r", {"x": "x" * 600}))

    @pytest.mark.parametrize(
        ("kind", "name"), [("Users", "a"), ("", "a"), (USERS, ""), (USERS, "a\0"), (USERS, "x" * 513)]
    )
    def test_what_cannot_be_a_name_is_refused(self, nodes: Nodes, kind: str, name: str) -> None:
        """Before anything is written."""
        with pytest.raises(ValueError):
            nodes.pump.run(nodes.node().put(kind, name, {}))
        assert nodes.pump.run(nodes.grid.get(CacheName.META, CHANGES_KEY)) is None
