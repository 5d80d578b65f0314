"""Rates, shared fairly: what may pass now, and whose turn it is when there is not enough for all.

A gate has a rate, and a level that rises with it up to the burst. While nobody waits, whoever comes takes what is
there. Once somebody has to wait there is a line, and what comes in is divided among it, round after round::

    level ─▶ passes                                 nobody waits
    rate ─▶ round ─▶ the same for each flow in line ─▶ those in credit pass, and stand behind again if they have more

Whoever is in credit may pass one message more than that, or a batch that is served whole, however large: it is his
debt, and nobody else's. So a heavy
sender waits for its own share, and a light one for a round at most. Time is passed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from iot_mqtt.ports.clock import Clock, Timer

#: Seconds between two rounds, if there is somebody who can be let through; the longest that one waits for another.
STEP: Final = 0.05
LONGEST_STEP: Final = 1.0
#: Seconds of a rate that a round divides at most, after a stall.
STALL: Final = 1.0


class Waits(Protocol):
    """Who stands in line."""

    #: What each gate has given it (> 0) or is owed by it (< 0).
    credits: dict[Gate, float]

    def released(self, gate: Gate) -> None:
        """It is in credit, and not in line any more."""
        ...


class Gate:
    """One rate of one thing: messages or bytes, a second."""

    __slots__ = ("burst", "flows", "kind", "rate", "_clock", "_due", "_level", "_line", "_seen", "_timer")

    def __init__(self, kind: str, rate: float, burst: float, clock: Clock) -> None:
        #: What it is called in counters.
        self.kind = kind
        self.rate = rate
        self.burst = burst
        #: How many use it.
        self.flows = 0
        self._clock = clock
        self._level = burst
        self._seen = clock.monotonic()
        self._line: dict[Waits, None] = {}
        self._timer: Timer | None = None
        self._due = 0.0

    @property
    def is_full(self) -> bool:
        """As if nobody had ever come."""
        self._rise()
        return not self._line and self._level >= self.burst

    def room(self, flow: Waits) -> float:
        """How much of a flow may pass now: as long as it is more than nothing, one message of any size, or
        what is served whole.
        """
        credit = flow.credits.get(self, 0.0)
        if self._line:
            return credit
        self._rise()
        if credit < 0.0:
            paid = min(self._level, -credit)
            self._level -= paid
            credit += paid
            self._note(flow, credit)
        return credit + self._level

    def charge(self, flow: Waits, amount: float) -> None:
        """So much of a flow has passed; less than nothing: it has not, after all."""
        credit = flow.credits.get(self, 0.0) - amount
        if credit < 0.0 and not self._line:
            paid = min(self._level, -credit)
            self._level -= paid
            credit += paid
        self._note(flow, credit)

    def join(self, flow: Waits) -> None:
        """It has more, and stands in line."""
        self._line[flow] = None
        seconds = self._seconds(flow)
        if self._timer is None or self._clock.monotonic() + seconds < self._due:
            self._wait(seconds)

    def leave(self, flow: Waits) -> None:
        """It comes no more. What is left of its credit is for others; its debt is the gate's, where nobody else is."""
        self._line.pop(flow, None)
        credit = flow.credits.pop(self, 0.0)
        if credit > 0.0 or self.flows <= 1:
            self._level = max(-self.burst, min(self.burst, self._level + credit))

    def settle(self, flow: Waits) -> None:
        """It has nothing more for now: what it did not use is for others."""
        if flow not in self._line and flow.credits.get(self, 0.0) > 0.0:
            self._level += flow.credits.pop(self)

    def _note(self, flow: Waits, credit: float) -> None:
        if credit:
            flow.credits[self] = credit
        else:
            flow.credits.pop(self, None)

    def _rise(self) -> None:
        now = self._clock.monotonic()
        self._level = min(self.burst, self._level + (now - self._seen) * self.rate)
        self._seen = now

    # While there is a line.

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = self._clock.monotonic() + seconds
        self._timer = self._clock.call_later(seconds, self._round)

    def _round(self) -> None:
        """Divide what has come in since the last one."""
        self._timer = None
        now = self._clock.monotonic()
        amount = self._level + min(now - self._seen, STALL) * self.rate
        self._seen, self._level = now, amount
        if self._line and amount > 0.0:
            self._level = 0.0
            self._divide(amount / len(self._line))
        if self._line and self._timer is None:
            self._wait(min(map(self._seconds, self._line)))

    def _divide(self, share: float) -> None:
        ready = []
        for flow in self._line:
            credit = flow.credits.get(self, 0.0) + share
            self._note(flow, credit)
            if credit > 0.0:
                ready.append(flow)
        for flow in ready:
            self._line.pop(flow, None)
        for flow in ready:
            flow.released(self)

    def _seconds(self, flow: Waits) -> float:
        """Until it will be in credit, if as many stay in line."""
        owed = -flow.credits.get(self, 0.0) * len(self._line) - self._level
        return min(LONGEST_STEP, max(STEP, owed / self.rate))


class Gates:
    """Those of a node by what they are for. One that nobody uses stays until it is full again, so that nobody gets a
    burst by coming anew.
    """

    __slots__ = ("_clock", "_gates", "_idle")

    #: That nobody uses.
    MOST_IDLE: Final = 100_000

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gates: dict[tuple[str, ...], Gate] = {}
        self._idle: dict[tuple[str, ...], None] = {}

    def __len__(self) -> int:
        return len(self._gates)

    def use(self, key: tuple[str, ...], rate: float, burst: float) -> Gate:
        """The gate of this name, which somebody uses from now on; its rate is this one now."""
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = Gate(key[0], rate, burst, self._clock)
        self._idle.pop(key, None)
        gate.rate, gate.burst = rate, burst
        gate.flows += 1
        return gate

    def let_go(self, key: tuple[str, ...]) -> None:
        """Somebody uses it no more."""
        gate = self._gates[key]
        gate.flows -= 1
        if not gate.flows:
            self._idle[key] = None
        for old in list(self._forgettable()):
            del self._idle[old], self._gates[old]

    def _forgettable(self) -> Iterator[tuple[str, ...]]:
        """Of those that nobody has used for longest, the ones that need not be remembered."""
        spare = len(self._idle) - self.MOST_IDLE
        for number, key in enumerate(self._idle):
            if number >= spare and not self._gates[key].is_full:
                return
            yield key
