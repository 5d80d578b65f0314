"""The history that a node keeps by itself: a sample every ten seconds, and answers about any time of the last week."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from iot_mqtt.errors import Unavailable
from iot_mqtt.metrics.history.rings import RINGS, RingFile
from iot_mqtt.metrics.history.series import ALL, Facts, Sampler
from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: Between two samples.
SAMPLE_SECONDS = float(RINGS[0].step)
#: Of one series in one answer.
MAX_POINTS = 2000


@dataclass(frozen=True, slots=True)
class SeriesInfo:
    """One series of an answer."""

    name: str
    unit: str
    #: How values of several nodes become one: "sum" or "max".
    over_nodes: str
    #: One for each step; null: nothing is known of that time.
    values: list[float | None]


@dataclass(frozen=True, slots=True)
class HistoryInfo:
    """What a node knows of a time. The value number ``n`` is of the time from ``begin + n * step`` on."""

    begin: int
    #: Seconds.
    step: int
    series: list[SeriesInfo]


class Wrong(ValueError):
    """What was asked cannot be answered, and never could."""


class History:
    """One node's. ``facts`` is asked at each sample."""

    def __init__(self, path: Path, clock: Clock, facts: Callable[[], Facts]) -> None:
        self._file = RingFile(path, ALL)
        self._clock = clock
        self._facts = facts
        self._sampler = Sampler()
        self._failing = False

    def sample(self) -> None:
        """Take one. Called every ``SAMPLE_SECONDS``; what cannot be written is lost, and the log says so once."""
        values = self._sampler.sample(self._facts(), self._clock.monotonic())
        if values is None:
            return
        try:
            # It is of the time that is over now.
            self._file.add(self._clock.wall() - SAMPLE_SECONDS / 2, values)
        except OSError as error:
            if not self._failing:
                log.error("the history of the node's figures cannot be kept: %s", error)
            self._failing = True
        else:
            self._failing = False

    def close(self) -> None:
        """Nothing more is written."""
        self._file.close()

    def read(
        self, names: Iterable[str], begin: float | None = None, end: float | None = None, step: int | None = None
    ) -> HistoryInfo:
        """Series by their names, none: all. Without ``begin`` it is the hour before ``end``, which is now; without
        ``step`` the one that fits. Raises ``Wrong``.
        """
        wanted = list(dict.fromkeys(names)) or [one.name for one in ALL]
        places = {one.name: place for place, one in enumerate(ALL)}
        for name in wanted:
            if name not in places:
                raise Wrong(f"there is no series {name!r}; known are: {', '.join(places)}")
        now = self._clock.wall()
        end = now if end is None else min(end, now)
        begin = end - RINGS[0].span if begin is None else max(begin, now - RINGS[-1].span)
        if begin > end:
            raise Wrong("from must be before to, and not in the future")
        ring = self._file.fitting(begin, now)
        step = ring.step if step is None else step
        if step < ring.step or step % ring.step:
            raise Wrong(f"what was so long ago is kept in steps of {ring.step} s; step must be a multiple of that")
        first = int(begin // step) * step
        count = max(1, math.ceil((end - first) / step))
        if count > MAX_POINTS:
            raise Wrong(f"these are more than {MAX_POINTS} points of each series; ask for less time or longer steps")
        try:
            rows = self._file.read(ring, first, first + count * step, step)
        except OSError as error:
            raise Unavailable(f"the history cannot be read: {error.strerror}") from error
        series = [
            SeriesInfo(
                name,
                ALL[places[name]].unit,
                ALL[places[name]].over_nodes,
                [rows[at][places[name]] if at in rows else None for at in range(first, first + count * step, step)],
            )
            for name in wanted
        ]
        return HistoryInfo(first, step, series)
