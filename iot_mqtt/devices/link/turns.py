"""What the frames of all gateways may take of a turn of the reactor, so that they keep nobody else waiting.

::

    frames ─▶ codec, intake, broker ─▶ the turn's share is used up ─▶ the others wait, and nothing more is read
                      ▲                                                        │
                      └──────── next turn: who has waited longest first ───────┘

A frame is taken whole. Behind so many bytes of frames it is looked how long they took.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from iot_mqtt.broker.turn_effort import TurnEffort

#: Microseconds of a turn.
SHARE: Final = 20_000
#: Bytes of frames that are taken with no look at the clock: some milliseconds.
AT_ONCE: Final = 8192


class Waits(Protocol):
    """A connection whose frames had to wait."""

    def go_on(self) -> None: ...


def _go_on(waits: Waits) -> None:
    waits.go_on()


class FrameTurns:
    """Of a node. ``monotonic``: seconds."""

    __slots__ = ("monotonic", "_turns")

    def __init__(self, monotonic: Callable[[], float], call_soon: Callable[[Callable[[], None]], None]) -> None:
        self.monotonic = monotonic
        self._turns: TurnEffort[Waits] = TurnEffort(SHARE, call_soon, _go_on)

    def must_wait(self, waits: Waits) -> bool:
        """Whether nothing is left of this turn: it goes on in another one."""
        return self._turns.must_wait(waits)

    def take(self, frames: list[bytes], decode: Callable[[list[bytes]], object]) -> list[bytes]:
        """Have as many decoded as there is room for in this turn, one piece at least; the others are returned."""
        effort = self._turns.effort
        while frames:
            piece = piece_of(frames)
            began = self.monotonic()
            decode(frames[:piece])
            effort.left -= int((self.monotonic() - began) * 1_000_000)
            frames = frames[piece:]
            if effort.left <= 0:
                break
        return frames

    def wait(self, waits: Waits) -> None:
        """It has had enough for now, and goes on behind all others that wait."""
        self._turns.wait(waits)


def piece_of(frames: list[bytes]) -> int:
    """How many of the first are taken at once."""
    size = 0
    for count, frame in enumerate(frames):
        size += len(frame)
        if size > AT_ONCE:
            return max(1, count)
    return len(frames)
