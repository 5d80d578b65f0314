"""One timer for everything that waits: keep-alive, connect time-outs, retries, lingering closes.

A reactor timer per connection costs a heap entry, a few microseconds and half a kilobyte; a timing wheel costs a
dictionary entry. Time is divided into ticks; what is due lies in the slot of its tick. A call comes up to one tick
late and never early.

After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987), scheme 6, with a dictionary in place of
the array, so that a call in a week and one in a second need no second wheel.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from twisted.logger import Logger

from iot_mqtt.ports.clock import Clock, Timer

__all__ = ["Timeout", "TimingWheel"]

_log = Logger()

#: Ticks that the wheel may be behind before it lets the reactor read first.
LATE = 1
#: Times when it was behind that it remembers.
MOST_STALLS = 256
#: Part of a tick that is taken for floating-point noise.
ROUNDING = 1e-6


class Timeout:
    """Something that is due; ``cancel`` costs the same however many there are. A subclass says in ``fire`` what is to
    happen, and may have itself put into the wheel again.
    """

    __slots__ = ("due", "wheel")

    def __init__(self) -> None:
        #: Its tick, and the wheel that it is in; None: it is over.
        self.due = 0
        self.wheel: TimingWheel | None = None

    @property
    def pending(self) -> bool:
        """True until it was called or cancelled."""
        return self.wheel is not None

    def cancel(self) -> None:
        """Forget it; does nothing when it was called or cancelled already."""
        wheel, self.wheel = self.wheel, None
        if wheel is not None:
            wheel.forget(self, self.due)

    def fire(self) -> None:
        """It is due; the wheel calls this, also for what another call of the same tick has just cancelled."""
        raise NotImplementedError


class _Call(Timeout):
    """A call that is due."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        super().cancel()
        self._call = None

    def fire(self) -> None:
        call, self.wheel, self._call = self._call, None, None
        if call is not None:
            call()


class TimingWheel:
    """Schedules calls on a clock with the resolution of a tick (seconds).

    ``tick`` counts ticks since the wheel was made and moves while anything is scheduled: a time stamp that
    costs an attribute access. While the process is held up it stands still; what was stamped then counts as of when
    that was noticed.
    """

    __slots__ = (
        "clock",
        "seconds_per_tick",
        "tick",
        "_count",
        "_gave_way",
        "_made",
        "_slots",
        "_stalls",
        "_start",
        "_timer",
    )

    def __init__(self, clock: Clock, seconds_per_tick: float = 0.25) -> None:
        self.clock = clock
        self.seconds_per_tick = seconds_per_tick
        self.tick = 0
        #: The tick up to which all calls have been made.
        self._made = 0
        #: Ticks that were the present for longer than they last, and what it was then.
        self._stalls: dict[int, int] = {}
        self._start = clock.monotonic()
        self._slots: dict[int, dict[Timeout, None]] = {}
        self._count = 0
        self._gave_way = False
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return self._count

    def schedule(self, delay: float, call: Callable[[], None]) -> Timeout:
        """Call ``call()`` in ``delay`` seconds or up to a tick later."""
        timeout = _Call(call)
        self.put(timeout, delay)
        return timeout

    def put(self, timeout: Timeout, delay: float) -> None:
        """Have ``timeout.fire()`` called in ``delay`` seconds or up to a tick later."""
        now = self.tick_now()
        ticks = (self.clock.monotonic() - self._start + delay) / self.seconds_per_tick
        due = ceil(ticks - ROUNDING)
        if due <= now:
            due = now + 1
        timeout.due, timeout.wheel = due, self
        slot = self._slots.get(due)
        if slot is None:
            slot = self._slots[due] = {}
        slot[timeout] = None
        self._count += 1
        if self._timer is None:
            self._wait()

    def tick_now(self) -> int:
        """The tick by the clock, also while nothing is scheduled."""
        if not self._count:  # otherwise the ticks up to now may still have calls to make
            self.tick = self._made = max(self.tick, self._now())
        return self.tick

    def seconds_since(self, tick: int) -> float:
        """At least so many seconds went by since something was stamped with this tick."""
        tick = self._stalls.get(tick, tick)
        return self.clock.monotonic() - self._start - (tick + 1) * self.seconds_per_tick

    def forget(self, timeout: Timeout, due: int) -> None:
        """Take a timeout out of its slot; ``Timeout.cancel`` calls this."""
        slot = self._slots.get(due)
        if slot is not None and slot.pop(timeout, self) is None:
            self._count -= 1
            if not slot:
                del self._slots[due]

    def stop(self) -> None:
        """Drop everything that is scheduled."""
        self._slots.clear()
        self._count = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        next_tick = self.tick + 1
        elapsed = self.clock.monotonic() - self._start
        self._timer = self.clock.call_later(max(next_tick * self.seconds_per_tick - elapsed, 0.0), self._turn)

    def _turn(self) -> None:
        self._timer = None
        self._fire_due()

    def _fire_due(self) -> None:
        now, before = self._now(), self.tick
        self.tick = max(before, now)
        if now - before > LATE:
            self._stalls[before] = now
            if len(self._stalls) > MOST_STALLS:
                del self._stalls[next(iter(self._stalls))]
            if not self._gave_way:
                # The process was held up. Bytes may wait in sockets that would have kept connections from being idle:
                # let the reactor read them before anything is declared overdue.
                self._gave_way = True
                self._timer = self.clock.call_later(0, self._turn)
                return
        self._gave_way = False
        while self._made < now and self._count:
            self._made += 1
            self._fire(self._slots.pop(self._made, None))
        self._made = max(self._made, now)
        if self._count and self._timer is None:
            self._wait()

    def _now(self) -> int:
        return int((self.clock.monotonic() - self._start) / self.seconds_per_tick + ROUNDING)

    def _fire(self, slot: dict[Timeout, None] | None) -> None:
        # Nothing is added to this slot or taken from it any more: it is out of the wheel, and new calls are due later.
        for timeout in slot or ():
            self._count -= 1
            try:
                timeout.fire()
            except Exception:  # noqa: BLE001 - one failing call must not stop the others
                _log.failure("a scheduled call failed")
