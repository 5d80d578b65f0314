"""Idle connections: nothing read, nothing written, or neither, for a while.

What counts is what passes this stage. Next to the head that is bytes; above a codec it is whole packets, which is
what MQTT's keep-alive means [MQTT-3.1.2-24]: a client that sends one byte of an endless packet now and then is idle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from iot_mqtt.pipeline.context import Context
from iot_mqtt.pipeline.stage import Batch, Stage
from iot_mqtt.pipeline.wheel import Timeout, TimingWheel

__all__ = ["Idle", "IdleEvent", "IdleStage"]


class Idle(StrEnum):
    """What has not happened."""

    READER = "reader"
    WRITER = "writer"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class IdleEvent:
    """Fired towards the tail, and again after each further period of silence."""

    kind: Idle


_EVENTS = {kind: IdleEvent(kind) for kind in Idle}


class IdleStage(Stage):
    """Fires ``IdleEvent`` after so many seconds without reads, writes, or both; 0 turns a kind off.

    A read or write only stores the wheel's tick. One timeout per kind looks at it when it is due and waits for what
    is left, so a busy connection costs one call per period.
    """

    __slots__ = ("all", "reader", "writer", "_ctx", "_last_read", "_last_write", "_timeouts", "_wheel")

    def __init__(self, reader: float = 0, writer: float = 0, all: float = 0) -> None:
        self.reader = reader
        self.writer = writer
        self.all = all
        self._timeouts: dict[Idle, Timeout] = {}
        self._last_read = self._last_write = 0

    def added(self, ctx: Context) -> None:
        self._ctx = ctx
        self._wheel: TimingWheel = ctx.channel.wheel
        self._start()

    def removed(self, ctx: Context) -> None:
        self._stop()

    def read(self, ctx: Context, batch: Batch) -> None:
        self._last_read = self._wheel.tick
        ctx.fire_read(batch)

    def write(self, ctx: Context, batch: Batch) -> None:
        self._last_write = self._wheel.tick
        ctx.write(batch)

    def change(self, reader: float = 0, writer: float = 0, all: float = 0) -> None:
        """Other periods from now on, for instance the keep-alive that CONNECT asked for."""
        self._stop()
        self.reader, self.writer, self.all = reader, writer, all
        self._start()

    def _start(self) -> None:
        now = self._wheel.tick_now()
        self._last_read = self._last_write = now
        # Spelt out: every CONNECT comes through here.
        if self.reader > 0:
            self._wait(Idle.READER, self.reader, self.reader)
        if self.writer > 0:
            self._wait(Idle.WRITER, self.writer, self.writer)
        if self.all > 0:
            self._wait(Idle.ALL, self.all, self.all)

    def _stop(self) -> None:
        if self._timeouts:
            for timeout in self._timeouts.values():
                timeout.cancel()
            self._timeouts.clear()

    def _wait(self, kind: Idle, seconds: float, left: float) -> None:
        self._timeouts[kind] = self._wheel.schedule(left, self._check(kind, seconds))

    def _check(self, kind: Idle, seconds: float) -> Callable[[], None]:
        def check() -> None:
            silent = self._wheel.seconds_since(self._last(kind))
            if silent < seconds:
                self._wait(kind, seconds, seconds - silent)
            else:
                self._wait(kind, seconds, seconds)
                self._ctx.fire_event(_EVENTS[kind])

        return check

    def _last(self, kind: Idle) -> int:
        if kind is Idle.READER:
            return self._last_read
        return self._last_write if kind is Idle.WRITER else max(self._last_read, self._last_write)
