"""What runs of the log have in common, found by both twins alike."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from iot_mqtt import native
from iot_mqtt.codec import Decoder, Publish, PublishRun, encode, row_reader
from iot_mqtt.codec.properties import Properties
from iot_mqtt.native import RowReader, _pure_rows
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.values import ProtocolVersion
from tests.seeds import seeds_of


def readers() -> list[RowReader]:
    """The pure one, and the compiled one where it is there."""
    classes: list[Any] = [_pure_rows.RowReader]
    if native.HAVE_NATIVE:
        from iot_mqtt.native import _rows

        classes.append(_rows.RowReader)
    return [row_reader(LogRun, one) for one in classes]


def logged(rng: Random) -> LogRun:
    """Mostly plain: a run of QoS 1 without properties."""
    odd = rng.random() < 0.05
    version = ProtocolVersion.V5 if rng.random() < (0.5 if odd else 0.01) else ProtocolVersion.V311
    carried = Properties(content_type="text") if odd and version is ProtocolVersion.V5 else Properties()
    topic, qos = b"t/%d" % rng.randrange(4), rng.choice((0, 1, 2)) if odd else 1
    retain, dup = odd and rng.random() < 0.3, qos > 0 and rng.random() < 0.2
    wire = b"".join(
        encode(Publish(topic, rng.randbytes(size), qos, retain, dup, at if qos else 0, carried), version)
        for at, size in enumerate(rng.choices((0, 5, 300), k=rng.choice((1, 1, 3))), 1)
    )
    (run,) = Decoder(version=version).feed(wire)
    assert isinstance(run, PublishRun)
    return LogRun(Reference(1, 2, 3, run.count), run, topic, "p", 0.0)


@pytest.mark.parametrize("seed", seeds_of("rows", 40))
def test_both_find_the_same(seed: int) -> None:
    """And what they find is true of the runs."""
    rng = Random(seed)
    runs = [logged(rng) for _ in range(rng.randrange(1, 40))]
    start, room, budget = rng.randrange(len(runs)), rng.choice((0, 5, 1000)), rng.choice((0, 100, 1 << 40))
    stop = rng.choice((len(runs), rng.randrange(start, len(runs) + 1)))
    found = readers()[0].survey(runs, start, stop, room, budget)
    for kind in (list, tuple):
        assert all(reader.survey(kind(runs), start, stop, room, budget) == found for reader in readers())
        assert len({reader.totals(kind(runs)) for reader in readers()}) == 1
    end, messages, longest, topics = found
    row = runs[start:end]
    assert messages == sum(run.run.count for run in row) <= room
    assert longest == max((run.run.longest for run in row), default=0)
    assert all(run.run.head in (0x32, 0x3A) and not run.run.raw_properties for run in row)
    assert list(topics) == list(dict.fromkeys(run.topic for run in row))
    assert all(runs[first].topic == topic for topic, first in topics.items())
    assert sum(len(run.run.wire) for run in row[:-1]) < max(budget, 1)


@pytest.mark.parametrize("seed", seeds_of("columns", 10))
def test_a_column_is_what_is_there_in_a_row(seed: int) -> None:
    """Behind what is not there any more, and before what is not there yet."""
    rng = Random(seed)
    runs = {(number, stream): [logged(rng)] * rng.choice((1, 2)) for number in range(30) for stream in "ab"}
    there = range(rng.randrange(32), rng.randrange(32))
    turns: dict[int, tuple[dict[Any, list[LogRun]], int]] = {
        number: ({stream: runs[number, stream] for stream in "ab" if rng.random() < 0.9}, 1)
        for number in there
        if number < 30
    }
    numbers = sorted(rng.sample(range(30), k=20))
    begin, end, found = readers()[0].column(turns, "a", numbers)
    assert all(reader.column(turns, "a", tuple(numbers)) == (begin, end, found) for reader in readers())
    has = [number in turns and "a" in turns[number][0] for number in numbers]
    assert begin == (has.index(True) if True in has else len(numbers))
    assert end == next((at for at in range(begin, len(has)) if not has[at]), len(has))
    assert found == [run for number in numbers[begin:end] for run in runs[number, "a"]]


@pytest.mark.parametrize("seed", seeds_of("outlines", 10))
def test_both_tell_the_same_of_runs(seed: int) -> None:
    """Their topics and sizes before they are in the log, and which of a turn have properties."""
    rng = Random(seed)
    turn = {stream: [logged(rng) for _ in range(rng.choice((1, 9)))] for stream in range(30)}
    runs = [found.run for row in turn.values() for found in row]
    for reader in readers():
        assert reader.outline(runs) == ([run.topic for run in runs], [run.count for run in runs])
        assert reader.sizes(tuple(runs)) == (sum(run.count for run in runs), sum(len(run.wire) for run in runs))
        assert reader.described(turn) == [run for run in runs if run.raw_properties]


def test_what_is_no_run_of_the_log_is_refused() -> None:
    """Instead of being read as one."""
    run = logged(Random(1))
    if native.HAVE_NATIVE:
        for wrong in ([run.run], [object()], [LogRun(run.reference, None, b"", "", 0.0)]):  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                readers()[-1].survey(wrong, 0, 1, 10, 10)
            with pytest.raises(TypeError):
                readers()[-1].totals(wrong)
            with pytest.raises(TypeError):
                readers()[-1].described({1: wrong})
        for ask in (readers()[-1].outline, readers()[-1].sizes):
            with pytest.raises(TypeError):
                ask([run])
