"""The connect time-out: a connection that has not said who it is in time is closed."""

from __future__ import annotations

from itertools import takewhile

from iot_mqtt.pipeline import reasons
from iot_mqtt.pipeline.channel import Channel
from iot_mqtt.pipeline.half_open import HalfOpen
from iot_mqtt.pipeline.wheel import Timeout, TimingWheel

__all__ = ["ConnectTimeouts"]


class ConnectTimeouts:
    """Closes channels that were not forgotten within ``seconds`` of being expected.

    All wait equally long, so they lie in the order in which they are due, and one timeout looks after the first: a
    client that is known at once costs a place in a dictionary. ``half_open`` bounds how many there are.
    """

    __slots__ = ("half_open", "seconds", "_timeout", "_waiting", "_wheel")

    def __init__(self, wheel: TimingWheel, seconds: float, half_open: HalfOpen | None = None) -> None:
        self.seconds = seconds
        self.half_open = half_open
        self._wheel = wheel
        self._timeout: Timeout | None = None
        #: When each began to wait.
        self._waiting: dict[Channel, float] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self, channel: Channel) -> None:
        """It has to say who it is from now on."""
        self._waiting[channel] = self._wheel.clock.monotonic()
        if self._timeout is None:
            self._timeout = self._wheel.schedule(self.seconds, self._close_overdue)
        if self.half_open is not None:
            self.half_open.add(channel)

    def forget(self, channel: Channel) -> None:
        """It has, or is gone."""
        self._waiting.pop(channel, None)
        if self.half_open is not None:
            self.half_open.remove(channel)

    def _close_overdue(self) -> None:
        self._timeout = None
        began = self._wheel.clock.monotonic() - self.seconds
        for channel in [channel for channel, _ in takewhile(lambda item: item[1] <= began, self._waiting.items())]:
            self.forget(channel)
            channel.close(reasons.CONNECT_TIMEOUT)
        for since in self._waiting.values():
            self._timeout = self._wheel.schedule(since - began, self._close_overdue)
            break
