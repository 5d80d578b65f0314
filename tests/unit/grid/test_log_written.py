"""What was written last is read from memory: as much as there is room for, and nothing that was dropped."""

from __future__ import annotations

import pytest

from iot_mqtt.grid.log import LogSettings, PageCache
from iot_mqtt.grid.memory import MemoryGrid
from tests.contract.driving import Pump
from tests.contract.logkit import Life, fill, told, wanted


def life_of(limit: int, settings: LogSettings | None = None) -> Life:
    """A log whose cache takes so many bytes."""
    pump, grid = Pump(), MemoryGrid()
    pump.run(grid.open())
    return Life(grid, pump, settings or LogSettings(), cache=PageCache(limit))


def test_what_was_written_last_is_not_read_back() -> None:
    """It is what was appended, in its order; another life reads it from the grid, and finds the same."""
    life = life_of(1 << 24)
    sent = fill(life, turns=300)
    assert told(life.everything("#")) == wanted(sent, "#")
    assert life.log.figures.pages_read == 0
    later = life.next(LogSettings())
    assert told(later.everything("#")) == wanted(sent, "#")
    assert later.log.figures.pages_read > 0


@pytest.mark.parametrize("limit", [0, 5_000, 100_000])
def test_what_does_not_fit_is_read_from_the_grid(limit: int) -> None:
    """The newest turns are kept; all of it is found, whatever is asked for."""
    life = life_of(limit)
    sent = fill(life, turns=300)
    for filter in ("#", "m/7/v", "+/7/+"):
        assert told(life.everything(filter)) == wanted(sent, filter)
    assert life.log.figures.pages_read > 0
    read = life.log.figures.pages_read
    last = life.append("last/one", text="it")
    life.commit()
    assert [payload for _, payload in told(life.everything("last/one", position=last.position))] == [b"it"]
    assert life.log.figures.pages_read == read + (not limit)


def test_what_was_dropped_is_not_in_memory() -> None:
    """Neither by its topic nor by its place."""
    life = life_of(1 << 24, LogSettings(generation_seconds=100))
    run = life.append("a/b", text="old")
    life.commit()
    life.clock.now += 101
    life.append("a/b", text="new")
    life.commit()
    old, _ = life.log.generations()
    life.pump.run(life.log.drop(old.id))
    assert [payload for _, payload in told(life.everything("a/b"))] == [b"new"]
    assert life.fetch(run.reference) == [None]
