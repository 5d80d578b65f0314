"""The end of a turn of the reactor: when everything that one turn wrote is sent, once per connection.

A message for a busy subscriber may come from each of two hundred publishers in one turn; flushing at the end of the
turn instead of after each read makes one system call of two hundred.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from iot_mqtt.pipeline.channel import Channel

__all__ = ["Turn"]

_log = Logger()


class Turn:
    """Gathers channels to flush and calls to make, and does it when the turn ends.

    ``schedule`` is given ``run`` to call at the end of the present turn: ``TurnReactor.call_at_turn_end``, or
    ``lambda call: reactor.callLater(0, call)``, which costs another round of the reactor.
    """

    __slots__ = ("_calls", "_channels", "_schedule", "_scheduled")

    def __init__(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._schedule = schedule
        self._channels: dict[Channel, None] = {}  # a set that keeps the order
        self._calls: list[Callable[[], None]] = []
        self._scheduled = False

    def flush(self, channel: Channel) -> None:
        """Flush the channel at the end of the turn, however often this is called."""
        self._channels[channel] = None
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self.run)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call this once at the end of the turn, before the channels are flushed."""
        self._calls.append(call)
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self.run)

    def run(self) -> None:
        """Make the calls, then flush; what these write or ask for is still part of this turn."""
        while self._calls or self._channels:
            calls, self._calls = self._calls, []
            for call in calls:
                try:
                    call()
                except Exception:  # noqa: BLE001 - one failing call must not stop the others
                    _log.failure("a call at the end of a turn failed")
            channels, self._channels = self._channels, {}
            for channel in channels:
                channel.flush()
        self._scheduled = False
