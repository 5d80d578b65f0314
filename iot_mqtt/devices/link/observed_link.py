"""A gateway's connection, as captures and traces see it."""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.devices.link.capturing import Captures, Tap, TapStage
from iot_mqtt.devices.link.watching import Watcher, WatchStage
from iot_mqtt.pipeline import Context
from iot_mqtt.sdk import Event


class ObservedLink:
    """``CapturedLink`` of one connection. ``ctx``: of the stage that hears the codec's events."""

    __slots__ = ("codec", "gateway", "observed", "_ctx", "_captures", "_tap", "_watcher")

    def __init__(self, codec: str, ctx: Context, captures: Captures) -> None:
        #: As the listener says.
        self.codec = codec
        #: Empty before the login.
        self.gateway = ""
        #: Whether ``events`` has to be called.
        self.observed = False
        self._ctx = ctx
        self._captures = captures
        self._tap: Tap | None = None
        self._watcher: Watcher | None = None

    @property
    def peer(self) -> str:
        """The address at the other end."""
        return self._ctx.channel.peer

    def tap(self, tap: Tap) -> bool:
        """See ``CapturedLink``."""
        pipeline = self._ctx.pipeline
        if self._tap is not None:
            if self._tap.running:
                return False
            pipeline.remove("tap")
        self._tap = tap
        self.observed = True
        pipeline.add_before("frames", "tap", TapStage(tap))
        return True

    def watch(self, watcher: Watcher | None) -> None:
        """See ``WatchedLink``."""
        if watcher is self._watcher:
            return
        pipeline = self._ctx.pipeline
        if self._watcher is not None:
            pipeline.remove("watch")
        self._watcher = watcher
        self.observed = watcher is not None or self._tap is not None
        if watcher is not None:
            pipeline.add_before(self._ctx.name, "watch", WatchStage(self, watcher))

    def events(self, events: Sequence[Event]) -> None:
        """What the codec made of frames."""
        if self._tap is not None:
            self._tap.events(events)
        if self._watcher is not None:
            self._watcher.events(self, events)

    def opened(self) -> None:
        """The connection has a codec."""
        self._captures.opened(self)

    def logged_in(self) -> None:
        """Its gateway was let in."""
        self._captures.named(self)

    def closed(self) -> None:
        """Nobody asks for it any more."""
        self._captures.closed(self)
        if self._tap is not None:
            self._tap.closed("" if self._ctx.channel.close_reason is None else "closed")
