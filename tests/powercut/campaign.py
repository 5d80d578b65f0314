"""Records a load once, and starts what a power cut would have left at many points of it."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.powercut.checks import Promises, check_broker, check_grid
from tests.powercut.disk import TEARINGS, Disk, Tearing
from tests.powercut.journal import Kind, Step, build_recorder, read_journals
from tests.powercut.load import Books, RecordedBroker, run_load

MEMORY: Final = Path("/dev/shm")


class Point(NamedTuple):
    """The power goes behind that step."""

    step: int
    tearing: Tearing
    #: Whether a whole broker is to be started on it, and not only its grid.
    whole: bool


class Recording(NamedTuple):
    """What a broker did, and what its clients knew when."""

    name: str
    steps: Sequence[Step]
    books: Books


@dataclass
class Result:
    """Figures of a campaign."""

    points: Counter[str] = field(default_factory=Counter)
    brokers: int = 0
    promises: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        each = ", ".join(f"{count:,} {tearing}" for tearing, count in sorted(self.points.items()))
        return (
            f"{sum(self.points.values()):,} power cuts ({each}), {self.brokers:,} of them with a whole broker; "
            f"{self.promises:,} acknowledgements looked for, {len(self.faults)} faults"
        )


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory, where there is such a place: thousands of starts sync a lot, and what was synced by the
    broker that is watched is in its journal.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


def record(
    folder: Path, name: str, lives: Sequence[float], dice: Random, *, small: bool = False, coarse: bool = False
) -> Recording:
    """Run a load; its faults are those of the broker that nobody has cut off yet."""
    journals = folder / "journals"
    journals.mkdir(parents=True)
    broker = RecordedBroker(folder / "disk", build_recorder(folder), journals, small=small, coarse=coarse)
    books = run_load(broker, lives, dice)
    return Recording(name, list(read_journals(journals)), books)


def draw(recording: Recording, grids: int, brokers: int, dice: Random) -> list[Point]:
    """Points for grids anywhere; those for whole brokers half of the time where something else than the grid was
    written or named, which is rare.
    """
    steps = recording.steps
    points = [Point(dice.randrange(len(steps)), TEARINGS[number % 3], whole=False) for number in range(grids)]
    rare = _outside_of_the_grid(steps)
    for number in range(brokers):
        step = dice.choice(rare) if number % 2 else dice.randrange(len(steps))
        points.append(Point(step, TEARINGS[number // 2 % 3], whole=True))
    return sorted(points)


def _outside_of_the_grid(steps: Sequence[Step]) -> list[int]:
    paths: dict[tuple[int, int], bytes] = {}
    found = []
    for number, step in enumerate(steps):
        if step.kind is Kind.OPEN:
            paths[step.pid, step.file] = step.first
        named = step.kind in (Kind.OPEN, Kind.RENAME, Kind.UNLINK, Kind.LINK, Kind.MKDIR)
        path = step.first if named else paths.get((step.pid, step.file), b"")
        if path and b"/grid" not in path:
            found.append(number)
    return found


def cut(
    recording: Recording,
    points: Sequence[Point],
    folder: Path,
    dice: Random,
    *,
    lies: Callable[[bytes], bool] = lambda path: False,
) -> Result:
    """Cut the power at each of the points."""
    result, disk, done = Result(), Disk(lies), 0
    for point in points:
        for step in recording.steps[done : point.step + 1]:
            disk.apply(step)
        done = point.step + 1
        promises = Promises(recording.books, _next_moment(recording.steps, done))
        disk.leave(folder, point.tearing, dice)
        faults = check_broker(folder, promises) if point.whole else check_grid(folder / "data", promises)
        result.points[point.tearing] += 1
        result.brokers += point.whole
        result.promises += len(promises)
        where = f"{recording.name}, behind step {point.step} of {len(recording.steps)}, {point.tearing}"
        result.faults += [f"{where}: {fault}" for fault in faults]
    shutil.rmtree(folder, ignore_errors=True)
    return result


def _next_moment(steps: Sequence[Step], number: int) -> int:
    """Until when nothing else has happened on the disk: what was known before then is kept by the steps so far."""
    return steps[min(number, len(steps) - 1)].nanoseconds
