"""How late the event loop is: a timer that measures by how much it was missed."""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.ports.clock import Clock, Timer, until_beat
from iot_mqtt.ports.counters import Histogram

#: Upper bounds in seconds; what is later falls into +Inf.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class LoopLag(Histogram):
    """A histogram of the loop's lateness, sampled every ``interval`` seconds from ``start`` to ``stop``."""

    def __init__(self, clock: Clock, interval: float = 0.25) -> None:
        super().__init__(BUCKETS)
        #: The latest sample, for those who shed load by it.
        self.latest = 0.0
        #: Told of each sample, with the time.
        self.watchers: tuple[Callable[[float, float], None], ...] = ()
        self._clock = clock
        self._interval = interval
        self._due = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        now = self._clock.monotonic()
        pause = until_beat(now, self._interval)
        self._due = now + pause
        self._timer = self._clock.call_later(pause, self._sample)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def observe(self, seconds: float, count: int = 1) -> None:
        """Count a lateness."""
        super().observe(seconds, count)
        self.latest = seconds

    def _sample(self) -> None:
        now = self._clock.monotonic()
        self.observe(max(0.0, now - self._due))
        for watch in self.watchers:
            watch(self.latest, now)
        self.start()
