"""A device that begins to count again, and one that repeats itself: what is another reading, and what is the same.

The rows of the table are what devices do, second by second; what is kept may not depend on how the batches fall.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iot_spark.sinks import MOST_NAMES, OTHERS, added_named
from pyspark.sql import SparkSession

from tests.spark.records import NOON, reading, wrapped
from tests.spark.test_clean import Bench

Record = Mapping[str, Any]
#: What arrives in one second: number, values, and the device's time if it has one.
Said = tuple[float, int, dict[str, Any]]

ON = {"running": True}


def life(begin: float, numbers: Sequence[int], step: float = 1, **values: Any) -> Iterator[Said]:
    """One after the other, with the same values or with values that differ by life."""
    for index, number in enumerate(numbers):
        yield begin + index * step, number, dict(values or ON)


def clocked(said: Iterator[Said], offset: float = 0) -> Iterator[Said]:
    """By a device that has a clock."""
    for second, number, values in said:
        yield second, number, values | {"ts": NOON + round(1000 * (second - offset))}


def again(told: Sequence[Said], second: float) -> Iterator[Said]:
    """Word for word, when it is back."""
    for index, (_, number, values) in enumerate(told):
        yield second + index / 100, number, values


FIRST = [*life(0, range(1, 61))]
CLOCKED = [*clocked(life(0, range(1, 61)))]

#: What a device says, and how many of it are readings.
LIVES: dict[str, tuple[list[Said], int]] = {
    "nothing special": (FIRST, 60),
    "it starts again, with other values": ([*life(0, range(5), t=20.5), *life(6, range(5), t=20.6)], 10),
    "it starts again, with the same values": ([*FIRST, *life(70, range(1, 61))], 120),
    "it starts again and has a clock": ([*CLOCKED, *clocked(life(60.5, range(1, 61)))], 120),
    "it starts again twice within the hour": ([*FIRST, *life(100, range(1, 41)), *life(150, range(1, 61))], 160),
    "it starts again soon, and has a clock": ([*clocked(life(0, [1, 2])), *clocked(life(3, [1, 2, 3]))], 5),
    "it goes backwards: the counter wraps": ([*life(0, [*range(250, 256), *range(250)], 0.5)], 256),
    "the counter wraps within a minute, and again": ([*life(0, [number % 32 for number in range(90)])], 90),
    "the counter stands still, values differ": ([(second, 0, {"t": second}) for second in range(20)], 20),
    "it repeats what it said last": ([*FIRST, *again(FIRST[-3:], 60.5), *life(61, range(61, 70))], 69),
    "it repeats what it said last, after half an hour": (
        [*FIRST, *again(FIRST[-3:], 1860), *life(1861, range(61, 70))],
        69,
    ),
    "it repeats all of a burst": ([*life(0, range(20), 0.01), *again([*life(0, range(20))], 5)], 20),
    "it has a clock and repeats much, late": ([*CLOCKED, *again(CLOCKED, 1000), *again(CLOCKED[5:9], 1500)], 60),
    "it repeats in its second life": (
        [*FIRST, *life(70, range(1, 31)), *again([*life(97, [28, 29, 30])], 105), *life(106, [31, 32])],
        92,
    ),
    "out of order": ([*clocked(life(0, [3, 1, 2, 5, 4])), *again([*clocked(life(0, [3, 1, 2]))], 4)], 5),
    "late, from its own store": ([*clocked(life(0, range(1, 9)), offset=7200), *FIRST], 68),
    "two messages of one number": ([(0, 1, {"t": 1}), (0, 1, {"u": 1}), (0, 2, {"t": 1})], 3),
}


def records(said: Sequence[Said], device: str = "press", qos: int = 1) -> list[dict[str, Any]]:
    """As the broker takes them up from a client."""
    return [
        wrapped(
            {"seq": number, **values},
            id=f"0.{device}-{index}",
            client=device,
            topic=f"up/{device}/values",
            ts=NOON + round(1000 * second),
            ingest_ts=NOON + round(1000 * second),
            qos=qos,
        )
        for index, (second, number, values) in enumerate(said)
    ]


def test_a_life_of_a_device_is_told_from_a_repetition(spark: SparkSession, tmp_path: Path) -> None:
    """All devices at once: each has as many readings as it should, and what was dropped is counted by device.

    Cut into batches anywhere. The second has everything once more, as after a checkpoint that was lost: the same
    records are the same readings.
    """
    names = {name: f"device-{number}" for number, name in enumerate(LIVES)}
    every = [one for name, (said, _) in LIVES.items() for one in records(said, names[name])]
    every.sort(key=lambda one: one["ingest_ts"])
    bench = Bench(spark, tmp_path)
    seed = random.SystemRandom().randrange(1_000_000)
    cut = random.Random(seed).randrange(1, len(every))
    bench.take(0, *every[:cut])
    bench.take(1, *every[cut:], *every)
    found: dict[str, set[str]] = {}
    for row in bench.rows():
        found.setdefault(row.device, set()).add(row.id)
    assert {name: len(found[device]) for name, device in names.items()} == {
        name: expected for name, (_, expected) in LIVES.items()
    }, f"seed {seed}, cut at {cut}"
    dropped = {names[name]: 2 * len(said) - expected for name, (said, expected) in LIVES.items()}
    assert bench.sink.state.named["duplicate"] == dropped
    assert bench.sink.state.totals["duplicate"] == sum(dropped.values())
    bench.sink.close()


def test_nobody_repeats_at_qos_0_and_gateways_are_judged_alike(spark: SparkSession, tmp_path: Path) -> None:
    """The same burst twice is a script that was run twice; a frame that comes again is one."""
    twice = [*life(0, range(5), 0.01), *life(3, range(5), 0.01)]
    frames = [reading(seq, id=f"gw-1/press/{seq}", values=ON) for seq in range(5)]
    bench = Bench(spark, tmp_path)
    bench.take(
        0,
        *records(twice, qos=0),
        *frames,
        *({**one, "ingest_ts": NOON + 5000} for one in frames),
        *({**one, "ts": NOON + 9000, "ingest_ts": NOON + 9001} for one in frames),
    )
    assert sum(row.gateway != "gw-1" for row in bench.rows()) == 10
    assert sum(row.gateway == "gw-1" for row in bench.rows()) == 10
    assert bench.sink.state.named["duplicate"] == {"gw-1/press": 5}
    bench.sink.close()


def test_names_that_are_counted_are_bounded() -> None:
    """The largest keep their names, and nothing is lost of the sum."""
    counted: Mapping[str, Mapping[str, int]] = {}
    for number in range(3 * MOST_NAMES):
        counted = added_named(counted, {"duplicate": {f"device {number}": number + 1}})
    names = counted["duplicate"]
    assert len(names) == MOST_NAMES and sum(names.values()) == sum(range(3 * MOST_NAMES + 1))
    assert names[f"device {3 * MOST_NAMES - 1}"] == 3 * MOST_NAMES and names[OTHERS] > 0
