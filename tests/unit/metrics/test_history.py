"""What a node knows of its past: rings in one file, filled every ten seconds, read in steps."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from iot_mqtt.metrics.history.history import MAX_POINTS, History, Wrong
from iot_mqtt.metrics.history.rings import HEADER, RINGS, Ring, RingFile
from iot_mqtt.metrics.history.series import ALL, Facts, Sampler, Series
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.counters import Counters, quantile
from tests.seeds import seeds_of
from tests.unit.metrics.metricskit import Facts as Info
from tests.unit.metrics.metricskit import RoomFacts

NOW = 1_700_000_000.0 // 600 * 600
SMALL = (Ring(10, 6), Ring(60, 5), Ring(120, 4))
TWO = (Series("mean", "x"), Series("max", "x", "max"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.bin"


def filled(path: Path, samples: int, begin: float = NOW) -> RingFile:
    """Sample number n has the values n and -n."""
    file = RingFile(path, TWO, SMALL)
    for number in range(samples):
        file.add(begin + 10 * number + 0.3, (number, -number))
    return file


def test_samples_are_there_by_their_time(path: Path) -> None:
    file = filled(path, 4)
    assert file.read(SMALL[0], int(NOW), int(NOW) + 60, 10) == {int(NOW) + 10 * n: (n, -n) for n in range(4)}


def test_longer_steps_are_made_of_shorter_ones(path: Path) -> None:
    """Means and maxima, also of a step that is not over."""
    file = filled(path, 9)
    assert file.read(SMALL[1], int(NOW), int(NOW) + 120, 60) == {int(NOW): (2.5, 0), int(NOW) + 60: (7, -6)}
    assert file.read(SMALL[2], int(NOW), int(NOW) + 120, 120) == {int(NOW): (4.75, 0)}
    assert file.read(SMALL[0], int(NOW), int(NOW) + 90, 30)[int(NOW) + 60] == (7, -6)


def test_the_oldest_gives_way(path: Path) -> None:
    """The file does not grow, and a slot of a round before is empty."""
    file = filled(path, 6)
    size = path.stat().st_size
    for number in range(6, 50):
        file.add(NOW + 10 * number, (number, -number))
    assert path.stat().st_size == size
    found = file.read(SMALL[0], int(NOW), int(NOW) + 1000, 10)
    assert found == {}
    end = int(NOW) + 500
    assert list(file.read(SMALL[0], end - 60, end, 10)) == list(range(end - 60, end, 10))


@pytest.mark.parametrize("seed", seeds_of("history rings", 5))
def test_any_times_at_all(seed: int, path: Path) -> None:
    """What is read is what was written last at its place, whatever the clock did meanwhile."""
    dice = random.Random(seed)
    file = RingFile(path, TWO, SMALL)
    model: dict[int, tuple[int, tuple[float, float]]] = {}
    at = NOW
    for number in range(200):
        at += dice.choice([10, 10, 10, 3, 70, 400, -30])
        begin = int(at // 10) * 10
        file.add(at, (number, number))
        model[begin // 10 % 6] = begin, (number, number)
    for _ in range(50):
        first = int(at // 10) * 10 + dice.randrange(-12, 6) * 10
        last = first + dice.randrange(1, 7) * 10
        expected = {begin: values for begin, values in sorted(model.values()) if first <= begin < last}
        assert file.read(SMALL[0], first, last, 10) == expected


def test_it_goes_on_after_a_kill(path: Path) -> None:
    """Nothing has to be closed; the step that was not over is gone on with."""
    filled(path, 3)
    file = RingFile(path, TWO, SMALL)
    file.add(NOW + 30, (3, -3))
    assert file.read(SMALL[1], int(NOW), int(NOW) + 60, 60) == {int(NOW): (1.5, 0)}


def test_a_slot_that_was_half_written_is_empty(path: Path) -> None:
    """And only that one."""
    filled(path, 3).close()
    with path.open("r+b") as raw:
        raw.seek(HEADER + int(NOW) // 10 % 6 * (8 + 16 + 4) + 9)
        raw.write(b"\xff")
    assert list(RingFile(path, TWO, SMALL).read(SMALL[0], int(NOW), int(NOW) + 60, 10)) == [
        int(NOW) + 10,
        int(NOW) + 20,
    ]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(os.urandom(10_000)),
        lambda path: os.truncate(path, 100),
        lambda path: os.truncate(path, path.stat().st_size - 30),
    ],
    ids=["empty", "noise", "short", "cut"],
)
def test_a_damaged_file_is_begun_anew_or_gone_on_with(path: Path, spoil: Callable[[Path], object]) -> None:
    """It never keeps the node from anything."""
    filled(path, 6).close()
    spoil(path)
    file = RingFile(path, TWO, SMALL)
    file.add(NOW + 60, (6, 6))
    assert file.read(SMALL[0], int(NOW) + 60, int(NOW) + 70, 10) == {int(NOW) + 60: (6, 6)}


def test_other_series_begin_anew(path: Path) -> None:
    filled(path, 6).close()
    file = RingFile(path, (*TWO, Series("third", "x")), SMALL)
    assert file.read(SMALL[0], int(NOW), int(NOW) + 60, 10) == {}


class Kept:
    """A history by a clock that a test turns."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock(1000.0, NOW)
        self.counters = Counters()
        self.history = History(path, self.clock, self.facts)

    def facts(self) -> Facts:
        return Facts(self.counters, Info(), RoomFacts(), None, 0.25)

    def run(self, samples: int, messages: int = 50) -> None:
        for _ in range(samples):
            self.clock.advance(10.0)
            self.counters.messages_received += messages
            self.history.sample()


def test_rates_are_per_second_and_levels_as_they_are(path: Path) -> None:
    kept = Kept(path)
    kept.history.sample()
    kept.run(6)
    found = kept.history.read(["messages_received", "clients", "loop_lag"], NOW, NOW + 60)
    assert (found.begin, found.step) == (NOW, 10)
    assert [one.values for one in found.series] == [[5.0] * 6, [2.0] * 6, [0.25] * 6]
    assert [(one.unit, one.over_nodes) for one in found.series] == [
        ("messages/s", "sum"),
        ("clients", "sum"),
        ("seconds", "max"),
    ]


def test_acknowledgements_by_how_long_they_waited(path: Path) -> None:
    """Of those since the sample before alone; where nobody waited, nobody waited long."""
    kept = Kept(path)
    kept.counters.acknowledgement_wait.observe(4.0, 1000)
    kept.history.sample()
    kept.counters.acknowledgement_wait.observe(0.0009, 98)
    kept.counters.acknowledgement_wait.observe(0.2, 2)
    kept.run(2)
    found = kept.history.read(["acknowledgement_p50", "acknowledgement_p99"], NOW, NOW + 20)
    half, most = ([round(value or 0, 4) for value in one.values] for one in found.series)
    # A bucket is evenly filled: 50 of 98 between 0.5 and 1 ms, one of two between 100 and 250 ms.
    assert half == [0.0008, 0]
    assert most == [0.175, 0]
    assert [(one.unit, one.over_nodes) for one in found.series] == [("seconds", "max")] * 2


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([0, 0, 0], 0.5, 0.0),
        ([4, 0, 0], 0.5, 0.5),
        ([0, 4, 0], 1.0, 2.0),
        ([1, 0, 9], 0.99, 2.0),
        ([1, 1, 0], 0.75, 1.5),
    ],
)
def test_a_share_of_a_histogram(counts: list[int], share: float, expected: float) -> None:
    """What is beyond the last bound took as long as that, as far as anybody knows."""
    assert quantile(share, (1.0, 2.0), counts) == expected


def test_nothing_is_known_of_the_time_before(path: Path) -> None:
    """Nulls, and the last hour by default."""
    kept = Kept(path)
    kept.history.sample()
    kept.run(2)
    found = kept.history.read([])
    assert [one.name for one in found.series] == [one.name for one in ALL]
    assert found.step == 10
    assert len(found.series[0].values) == 360
    assert found.series[0].values == [None] * 358 + [5.0] * 2


def test_the_longer_ago_the_longer_the_steps(path: Path) -> None:
    kept = Kept(path)
    now = NOW
    assert kept.history.read(["cpu"], now - 3600, now).step == 10
    assert kept.history.read(["cpu"], now - 3611, now).step == 60
    assert kept.history.read(["cpu"], now - 86400, now).step == 60
    assert kept.history.read(["cpu"], now - 7 * 86400, now).step == 600
    found = kept.history.read(["cpu"], 0, now)
    assert (found.step, found.begin, len(found.series[0].values)) == (600, now - 7 * 86400, 1008)


@pytest.mark.parametrize("late", [0.4, 9.9])
def test_the_last_hour_is_there_by_ten_seconds_also_when_the_question_takes_a_while(path: Path, late: float) -> None:
    """Whoever asks has looked at the clock before: its hour began an hour and a bit ago."""
    kept = Kept(path)
    kept.history.sample()
    kept.run(400)
    end = kept.clock.wall() - late
    found = kept.history.read(["messages_received"], end - 3600, end, 10)
    values = found.series[0].values
    assert found.step == 10 and len(values) in (360, 361)
    assert None not in values[1:-1]


@pytest.mark.parametrize(
    ("names", "begin", "end", "step"),
    [
        (["nonsense"], None, None, None),
        (["cpu"], NOW + 5, NOW + 10, None),
        (["cpu"], NOW - 10, NOW - 20, None),
        (["cpu"], NOW - 100, NOW, 15),
        (["cpu"], NOW - 7200, NOW, 10),
        (["cpu"], NOW - 100, NOW, 1),
    ],
)
def test_what_cannot_be_answered(
    path: Path, names: list[str], begin: float | None, end: float | None, step: int | None
) -> None:
    with pytest.raises(Wrong):
        Kept(path).history.read(names, begin, end, step)


def test_answers_are_bounded() -> None:
    """No question can ask for more points than this."""
    assert all(ring.slots <= MAX_POINTS for ring in RINGS)


def test_a_disk_that_takes_nothing_is_no_trouble(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so once."""
    kept = Kept(tmp_path / "nowhere" / "history.bin")
    kept.history.sample()
    kept.run(5)
    assert len([one for one in caplog.records if "cannot be kept" in one.getMessage()]) == 1


def test_a_counter_that_begins_anew_is_no_negative_rate() -> None:
    sampler, counters = Sampler(), Counters()
    facts = Facts(counters, Info(), RoomFacts(), None, 0.0)
    counters.messages_received = 100
    assert sampler.sample(facts, 1.0) is None
    counters.messages_received = 0
    found = sampler.sample(facts, 2.0)
    assert found is not None
    assert min(found) >= 0
    assert len(found) == len(ALL)
