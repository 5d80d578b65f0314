"""Rows of runs, put into the log by both twins: what a log has that took them one by one."""

from __future__ import annotations

from random import Random
from struct import Struct
from typing import Any

import pytest

from iot_mqtt import native
from iot_mqtt.codec import PublishRun
from iot_mqtt.grid.log import LogSettings, writing
from iot_mqtt.grid.log.generation import Generation, Stream, TopicPlace
from iot_mqtt.grid.log.page import encode_page
from iot_mqtt.grid.log.structures import Learner
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.native import _pure_appending
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.values import NOBODY, Origin
from tests.contract.driving import Pump
from tests.contract.logkit import Life, run_of, told
from tests.seeds import seeds_of

#: Small enough for a generation, and a turn, to end in the middle of a row.
SETTINGS = LogSettings(generation_seconds=50, generation_bytes=20_000, shards=3)


def twins() -> list[Any]:
    """The pure one, and the compiled one where it is there."""
    classes: list[Any] = [_pure_appending.RowWriter]
    if native.HAVE_NATIVE:
        from iot_mqtt.native import _appending

        classes.append(_appending.RowWriter)
    return classes


def content(grid: MemoryGrid) -> dict[CacheName, list[tuple[bytes, bytes]]]:
    """All that a grid has."""
    pump = Pump()
    return {cache: list(pump.run(grid.page(cache, limit=1_000_000))) for cache in CacheName}


def lived(seed: int, twin: Any, monkeypatch: pytest.MonkeyPatch, *, rows: bool) -> tuple[Any, list[Any]]:
    """What a log has kept after some turns, and where it said that the runs are."""
    monkeypatch.setattr(writing, "RowWriter", twin)
    monkeypatch.setattr(writing, "TURN_BYTES", 3_000)
    rng, pump, grid = Random(seed), Pump(), MemoryGrid()
    pump.run(grid.open())
    life, said = Life(grid, pump, SETTINGS), []
    for _ in range(40):
        for _ in range(rng.randrange(3)):
            publisher, origin = rng.choice("abcdef"), rng.choice((NOBODY, NOBODY, NOBODY, Origin("somebody")))
            row = []
            for _ in range(rng.choice((1, 5, 60))):
                topic = b"t/%d/v" % rng.randrange(rng.choice((3, 40)))
                row.append(run_of(topic, ["x" * rng.randrange(90)] * rng.choice((1, 1, 3))))
            now = life.clock.now
            if rows:
                logged = life.log.append_row(row, publisher, now, origin)
            else:
                logged = [life.log.append(run, run.topic, publisher, now, origin) for run in row]
            said += [(one.reference, one.run, one.topic, one.publisher, one.arrived, one.origin) for one in logged]
        life.commit()
        life.clock.now += rng.choice((0, 1, 30))
    found = told(life.everything("#"))
    infos = [
        life.log.generations(),
        life.streams(),
        life.log.figures.messages_appended,
        life.log.figures.bytes_appended,
    ]
    return (content(grid), found, infos), said


@pytest.mark.parametrize("seed", seeds_of("rows of the log", 6))
def test_a_row_is_what_its_runs_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pages, places, counters and records, byte for byte."""
    expected = lived(seed, twins()[0], monkeypatch, rows=False)
    for twin in twins():
        assert lived(seed, twin, monkeypatch, rows=True) == expected


def test_a_page_of_one_is_a_page() -> None:
    """As the long way writes it, whoever published what."""
    run = run_of(b"t/\xc3\xbc", ["a", "bcd"])
    for twin in twins():
        writer = twin(LogRun, Reference, PublishRun, TopicPlace, Stream, Generation, nobody=NOBODY, version=16)
        generation = Generation(7, 0, "", 0.0, 0)
        stream = Stream(3, generation, 2, Learner().place(b"t/x"), 5)
        logged = LogRun(Reference(7, 3, (5 << 24) + 77, 2), run, run.topic, "gerät-7", 1234.5678)
        operations: list[Any] = []
        written = writer.stage({stream: [logged]}, b"end", CacheName.LOG, operations, encode_page, 9)
        page = encode_page([logged])
        assert operations == [(CacheName.LOG, stream.key + b"end", page)]
        assert written == ({2: Struct(">IIII").pack(7, 3, 2, len(page))}, 2, len(page))
        assert (stream.pages, stream.messages, stream.bytes) == (1, 2, len(page))
        assert (generation.messages, generation.bytes, generation.ticket) == (2, len(page), 9)


def test_what_is_of_another_class_is_refused() -> None:
    """Instead of being written to as if it were."""
    for twin in twins()[1:]:
        with pytest.raises((TypeError, AttributeError)):
            twin(object, Reference, PublishRun, TopicPlace, Stream, LogRun, nobody=NOBODY, version=16)
        writer = twin(LogRun, Reference, PublishRun, TopicPlace, Stream, Generation, nobody=NOBODY, version=16)
        run = run_of(b"t", ["a"])
        for runs, places in (([object()], {}), ([run], {b"t": object()})):
            with pytest.raises(TypeError):
                writer.append(runs, [], places, {}, 0, "p", 0.0, NOBODY, 1, 1, 1)
        with pytest.raises(TypeError):
            writer.stage({object(): []}, b"", CacheName.LOG, [], encode_page, 1)
