"""Two processes with the name of one node: the one that is there stays, and the other is told where it is."""

from __future__ import annotations

import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.app.data_id import data_id
from iot_mqtt.cluster.joining import NoNumber, join
from iot_mqtt.cluster.tenancy import Premises, Tenancy
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.grid import CacheName
from tests.simulation.sharedgrid import finish

PATIENCE = 12.0
HERE, THERE, ELSEWHERE = (
    Premises("a" * 32, "/a on one"),
    Premises("b" * 32, "/b on two"),
    Premises("c" * 32, "/c on three"),
)


class Site:
    """The grid and its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.grid = MemoryGrid()
        finish(self.grid.open())

    def at(self, place: Premises) -> Tenancy:
        return Tenancy(self.grid, place, PATIENCE, self._wait)

    def _wait(self, seconds: float) -> Deferred[None]:
        waiting: Deferred[None] = Deferred()
        self.clock.call_later(seconds, lambda: waiting.callback(None))
        return waiting

    def begin(self, coroutine: Coroutine[Any, Any, Any]) -> list[object]:
        """What it came to, when it has."""
        came: list[object] = []
        Deferred.fromCoroutine(coroutine).addCallbacks(came.append, lambda failure: came.append(failure.value))
        return came

    @property
    def asked(self) -> dict[bytes, bytes]:
        return {key: value for key, value in self.grid._values[CacheName.META].items() if key.startswith(b"asks/")}


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_node_that_is_there_stays_and_the_newcomer_is_told_where_it_runs(site: Site) -> None:
    """It had taken no boot, so that nothing of the node was fenced."""
    node = site.at(HERE)
    finish(node.begin(3))
    came = site.begin(site.at(THERE).ask(3))
    assert not came
    assert finish(node.answer(3)) == "/b on two"
    assert finish(node.answer(3)) is None, "said twice"
    site.clock.advance(1.0)
    (refused,) = came
    assert isinstance(refused, NoNumber) and "/a on one" in str(refused)
    assert not site.asked
    # And again, whoever comes.
    came = site.begin(site.at(ELSEWHERE).ask(3))
    assert finish(node.answer(3)) == "/c on three"
    site.clock.advance(1.0)
    assert isinstance(came[0], NoNumber)


def test_of_a_node_that_is_gone_the_place_is_free_after_a_while(site: Site) -> None:
    finish(site.at(HERE).begin(3))
    came = site.begin(site.at(THERE).ask(3))
    site.clock.advance(PATIENCE - 1.5)
    assert not came
    site.clock.advance(2.0)
    assert came == [None] and not site.asked
    finish(site.at(THERE).begin(3))
    # Who runs there now is asked next, and not who did.
    came = site.begin(site.at(HERE).ask(3))
    assert finish(site.at(THERE).answer(3)) == "/a on one"
    site.clock.advance(1.0)
    assert isinstance(came[0], NoNumber)


@pytest.mark.parametrize("how", ["first", "same directory", "stopped", "another number"])
def test_nobody_waits_where_nobody_can_be(site: Site, how: str) -> None:
    """A node that was killed is back at once, and one that has stopped can begin anywhere."""
    node = site.at(HERE)
    if how != "first":
        finish(node.begin(3))
    if how == "stopped":
        finish(node.leave(3))
    came = site.begin(site.at(HERE if how == "same directory" else THERE).ask(4 if how == "another number" else 3))
    assert came == [None] and not site.asked


def test_a_node_that_stops_late_leaves_the_entry_of_the_next_one_alone(site: Site) -> None:
    finish(site.at(HERE).begin(3))
    finish(site.at(THERE).begin(3))
    finish(site.at(HERE).leave(3))
    came = site.begin(site.at(ELSEWHERE).ask(3))
    site.clock.advance(1.0)
    assert not came, "it did not ask"


def test_what_a_later_version_has_written_stops_nobody(site: Site) -> None:
    for key in (b"runs/003", b"asks/003"):
        assert finish(site.grid.compare_and_set(CacheName.META, key, None, b"\x2f\x01{}"))
    assert finish(site.at(HERE).answer(3)) is None
    assert site.begin(site.at(THERE).ask(3)) == [None]


def test_who_is_refused_has_changed_nothing_but_the_number(site: Site) -> None:
    """No boot was given out, by which the others would know a new life."""
    finish(join(site.grid, "node-1", site.at(HERE).ask))
    finish(site.at(HERE).begin(1))
    before = dict(site.grid._values[CacheName.META])
    came = site.begin(join(site.grid, "node-1", site.at(THERE).ask))
    finish(site.at(HERE).answer(1))
    site.clock.advance(1.0)
    assert isinstance(came[0], NoNumber)
    assert site.grid._values[CacheName.META] == before


def test_a_directory_keeps_its_id_and_a_copy_has_another(tmp_path: Path) -> None:
    one = tmp_path / "one"
    first = data_id(one)
    assert data_id(one) == first
    shutil.copytree(one, tmp_path / "two")
    assert data_id(tmp_path / "two") != first != data_id(tmp_path / "three")
    one.rename(tmp_path / "moved")
    assert data_id(tmp_path / "moved") == first


@pytest.mark.parametrize("spoilt", [b"", b"\xff\xfe", b"short\n"])
def test_an_id_that_was_spoilt_is_made_again(tmp_path: Path, spoilt: bytes) -> None:
    """A node that has lost its power in the midst of its first start begins all the same."""
    (tmp_path / "ID").write_bytes(spoilt)
    made = data_id(tmp_path)
    assert len(made.partition("-")[0]) == 32 and data_id(tmp_path) == made
