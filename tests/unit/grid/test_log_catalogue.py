"""The catalogue keeps every generation in memory, but the streams only of those in use."""

from __future__ import annotations

import random

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.grid.log import LogSettings, catalogue
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.ports.log import LogRun, Reading
from tests.contract.driving import Pump
from tests.contract.logkit import Life, told, wanted

SETTINGS = LogSettings(generation_seconds=20)
FILTERS = ["#", "m/7/v", "m/+/v", "x/#"]


@pytest.fixture
def life() -> Life:
    pump = Pump()
    grid = MemoryGrid()
    pump.run(grid.open())
    return Life(grid, pump, SETTINGS)


def written(life: Life) -> list[LogRun]:
    """A message a second, some of 40 topics, for a thousand seconds: fifty generations."""
    runs = []
    for second in range(1000):
        life.clock.now = 1_000_000.0 + second
        runs.append(life.append(f"m/{second * 7 % 40}/v", f"p{second % 3}"))
        life.commit()
    return runs


def loaded(life: Life) -> int:
    return sum(len(generation.in_order) for generation in life.log._catalogue.generations.values())


def test_old_streams_are_read_when_they_are_wanted_and_forgotten(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reader still gets everything, and tools and references too."""
    monkeypatch.setattr(catalogue, "MAX_LOADED", 50)
    runs = written(life)
    pages = life.log.figures.pages_written
    for _ in range(2):
        life = life.next(SETTINGS)
        # The last two blocks are about twenty generations, and in use.
        in_use = loaded(life)
        assert len(life.log.generations()) == 50
        assert 0 < in_use < 600
        for filter in FILTERS * 2:
            assert told(life.everything(filter)) == wanted(told(runs), filter)
        for run in random.Random(1).sample(runs, 60):
            [found] = life.fetch(run.reference)
            assert found is not None
            assert told([found]) == told([run])
        assert sum(stream.pages for stream in life.streams()) == pages
        assert sum(one.streams for one in life.log.generations()) == len(life.streams())
        assert life.list(life.log.verify()) == []
        assert loaded(life) <= in_use + 50 + 20


def test_a_start_reads_no_old_streams(life: Life) -> None:
    """However many there are."""
    written(life)
    life = life.next(SETTINGS)
    generations = list(life.log._catalogue.generations.values())
    assert [generation.loaded for generation in generations[:20]] == [False] * 20
    assert all(generation.info().streams == 20 for generation in generations[:20])
    assert generations[-1].loaded


def test_readers_of_one_old_generation_load_it_once(life: Life) -> None:
    """Both get what it has."""
    runs = written(life)
    life = life.next(SETTINGS)
    waiting: list[Deferred[None]] = []
    life.between.reads = waiting
    found: list[Reading] = []
    for _ in range(2):
        life.pump.start(life.log.read(["#"], 0, 30, 1 << 20)).addCallback(found.append)
    assert len(waiting) == 2
    while waiting:
        waiting.pop(0).callback(None)
    life.between.reads = None
    assert [told(reading.runs) for reading in found] == [told(runs[:30])] * 2
    assert len([stream for stream in life.streams() if stream.generation == 1]) == 20
