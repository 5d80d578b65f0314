"""Idle connections: nothing was heard for a while.

Above a codec, what is heard is whole packets, which is what MQTT's keep-alive means [MQTT-3.1.2-24]: a client that
sends one byte of an endless packet now and then is idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from iot_mqtt.pipeline.stage import Batch, Context, Stage
from iot_mqtt.pipeline.wheel import Timeout, TimingWheel

__all__ = ["IdleEvent", "IdleStage", "IdleWatch"]


class Listener(Protocol):
    """Who hears, or does not."""

    #: The wheel's tick when something was heard last.
    heard: int

    @property
    def patience(self) -> float:
        """Seconds without anything that it puts up with."""
        ...

    def fell_silent(self) -> None:
        """Nothing was heard for the time that is watched."""
        ...


class IdleWatch(Timeout):
    """Tells a listener when its patience is over, and again after each further period of silence.

    Whoever hears only stores the wheel's tick. The watch looks at it when it is due and waits for what is left, so a
    busy connection costs one call per period.
    """

    __slots__ = ("_listener",)

    def __init__(self, listener: Listener, wheel: TimingWheel) -> None:
        self._listener: Listener | None = listener
        listener.heard = wheel.tick_now()
        wheel.put(self, listener.patience)

    def cancel(self) -> None:
        super().cancel()
        self._listener = None

    def fire(self) -> None:
        wheel, listener = self.wheel, self._listener
        if wheel is None or listener is None:
            return
        patience = listener.patience
        left = patience - wheel.seconds_since(listener.heard)
        wheel.put(self, left if left > 0 else patience)
        if left <= 0:
            listener.fell_silent()


@dataclass(frozen=True, slots=True)
class IdleEvent:
    """Fired towards the tail, and again after each further period of silence."""


_IDLE = IdleEvent()


class IdleStage(Stage):
    """Fires ``IdleEvent`` when nothing was read for so many seconds; 0: never."""

    __slots__ = ("heard", "patience", "_ctx", "_watch", "_wheel")

    def __init__(self, seconds: float = 0) -> None:
        self.patience = seconds
        self.heard = 0
        self._watch: IdleWatch | None = None

    def added(self, ctx: Context) -> None:
        self._ctx = ctx
        self._wheel: TimingWheel = ctx.channel.wheel
        self.change(self.patience)

    def removed(self, ctx: Context) -> None:
        self.change(0)

    def read(self, ctx: Context, batch: Batch) -> None:
        self.heard = self._wheel.tick
        ctx.fire_read(batch)

    def change(self, seconds: float) -> None:
        """Another period from now on."""
        self.patience = seconds
        if self._watch is not None:
            self._watch.cancel()
        self._watch = IdleWatch(self, self._wheel) if seconds > 0 else None

    def fell_silent(self) -> None:
        """The watch calls this."""
        self._ctx.fire_event(_IDLE)
