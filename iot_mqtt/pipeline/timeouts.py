"""The connect time-out: a connection that has not said who it is in time is closed."""

from __future__ import annotations

from iot_mqtt.pipeline import reasons
from iot_mqtt.pipeline.context import Context
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.stage import Stage
from iot_mqtt.pipeline.wheel import Timeout

__all__ = ["ConnectTimeoutStage"]


class ConnectTimeoutStage(Stage):
    """Closes the channel unless ``stop`` is called, or the stage removed, within ``seconds`` of being added.

    ``stop`` is the cheaper of the two: the stage overrides no event that travels, so leaving it where it is costs
    nothing.
    """

    __slots__ = ("reason", "seconds", "_timeout")

    def __init__(self, seconds: float, reason: CloseReason = reasons.CONNECT_TIMEOUT) -> None:
        self.seconds = seconds
        self.reason = reason
        self._timeout: Timeout | None = None

    def added(self, ctx: Context) -> None:
        channel, reason = ctx.channel, self.reason
        self._timeout = channel.wheel.schedule(self.seconds, lambda: channel.close(reason))

    def removed(self, ctx: Context) -> None:
        self.stop()

    def stop(self) -> None:
        """What was waited for came."""
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
