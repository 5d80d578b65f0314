"""Copies of the grid, one at a time, for processes that may be killed at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.python.failure import Failure

from iot_mqtt.admin.backup_resources import Busy, CopyInfo
from iot_mqtt.app.node.grid_copies import OPENED, GridCopies
from iot_mqtt.grid.embedded import EmbeddedGrid
from iot_mqtt.grid.owner_file import OWNER
from iot_mqtt.pipeline import ManualClock
from tests.unit.app.threadkit import Reactor


class Grid:
    """Its copy is a directory with nothing in it."""

    async def copy(self, folder: Path) -> None:
        os.makedirs(folder)


class Site:
    """The copies of a node, with its clock and its threads by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.reactor = Reactor()
        self.copies = GridCopies(cast(EmbeddedGrid, Grid()), folder, self.reactor, self.clock)

    def make(self, reader: int | None) -> CopyInfo:
        """Raises ``Busy``."""
        found: list[Any] = []
        ensureDeferred(self.copies.make(reader)).addBoth(found.append)
        if self.reactor.pool.waiting:
            self.reactor.pool.go()
        (result,) = found
        if isinstance(result, Failure):
            result.raiseException()
        return cast(CopyInfo, result)

    @property
    def there(self) -> list[str]:
        return os.listdir(self.folder)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "copies")


@pytest.fixture
def gone() -> int:
    """The number of a process that was there."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_copy_is_kept_as_long_as_who_asked_for_it_is_there(site: Site) -> None:
    """However long that reads; then the next one takes its place."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as reader:
        first = site.make(reader.pid)
        site.clock.advance(10 * OPENED)
        with pytest.raises(Busy):
            site.make(os.getpid())
        reader.kill()
        reader.wait()
        second = site.make(os.getpid())
    assert site.there == [second.id] and second.id != first.id


def test_who_was_killed_keeps_nobody_waiting(site: Site, gone: int) -> None:
    """Not even if it was before the copy was there, or before it was opened."""
    site.make(gone)
    last = site.make(gone)
    assert site.there == [last.id]


def test_a_reader_of_another_user_is_there(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root makes backups of a node that may not send root's processes anything."""

    def refused(*_: int) -> None:
        raise PermissionError

    site.make(os.getpid())
    monkeypatch.setattr(os, "kill", refused)
    with pytest.raises(Busy):
        site.make(os.getpid())


@pytest.mark.parametrize("opener", [None, os.getpid])
def test_who_does_not_say_who_reads_has_some_time_to_open_it(site: Site, opener: Callable[[], int] | None) -> None:
    """And then as long as whoever has opened it is there."""
    made = site.make(None)
    site.clock.advance(OPENED - 1)
    with pytest.raises(Busy):
        site.make(None)
    if opener is not None:
        (Path(made.path) / OWNER).write_text(str(opener()))
    site.clock.advance(2)
    if opener is None:
        site.make(None)
    else:
        with pytest.raises(Busy):
            site.make(None)


@pytest.mark.parametrize("number", [1 << 40, 1 << 70])
def test_a_number_that_no_process_has_is_nobodys(site: Site, number: int) -> None:
    site.make(number)
    site.make(None)
