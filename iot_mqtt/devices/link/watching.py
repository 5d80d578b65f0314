"""Who looks at what goes over a link, frame by frame. A link that nobody looks at has no stage for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from iot_mqtt.pipeline import Batch, Context, Stage
from iot_mqtt.sdk import Event


class WatchedLink(Protocol):
    """A gateway's connection, as far as who looks knows it."""

    @property
    def gateway(self) -> str:
        """Empty before the login."""
        ...

    @property
    def peer(self) -> str: ...

    def watch(self, watcher: Watcher | None) -> None:
        """Look at it from now on, in place of whoever did; None: nobody does."""
        ...


class Watcher(Protocol):
    """Is called in the middle of a receive or a write, and raises nothing."""

    def frames(self, link: WatchedLink, direction: str, frames: Sequence[bytes]) -> None:
        """``direction``: "in" or "out"."""
        ...

    def events(self, link: WatchedLink, events: Sequence[Event]) -> None:
        """What the codec made of frames."""
        ...


class WatchStage(Stage):
    """Between the frames of a connection and its codec."""

    __slots__ = ("_link", "_watcher")

    def __init__(self, link: WatchedLink, watcher: Watcher) -> None:
        self._link = link
        self._watcher = watcher

    def read(self, ctx: Context, batch: Batch) -> None:
        self._watcher.frames(self._link, "in", batch)
        ctx.fire_read(batch)

    def write(self, ctx: Context, batch: Batch) -> None:
        self._watcher.frames(self._link, "out", batch)
        ctx.write(batch)
