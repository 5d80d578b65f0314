"""Frames of a declared protocol as a stage: bytes below, frames above.

::

    read    [bytes, ...]   ──▶  [frame, ...], then failed(FrameRefused) if something was no frame
    write   [bytes, ...]   ──▶  the same; they never come here
"""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.framing import FrameError, Framer, FrameReason
from iot_mqtt.pipeline.stage import Batch, Context, Stage

__all__ = ["FrameRefused", "FramesStage"]


class FrameRefused(Exception):
    """The peer's fault: it sent what is no frame. Nothing more is read from it.

    ``reason`` is safe as a metric label; ``detail`` is for a person.
    """

    def __init__(self, reason: FrameReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class FramesStage(Stage):
    """Owns the connection's framer, which counts what it throws away; ``on_skipped`` is told when it has."""

    __slots__ = ("framer", "_on_skipped", "_told")

    def __init__(self, framer: Framer, on_skipped: Callable[[], None] | None = None) -> None:
        self.framer = framer
        self._on_skipped = on_skipped
        self._told = 0

    def read(self, ctx: Context, batch: Batch) -> None:
        framer = self.framer
        items: Batch = framer.feed(batch[0] if len(batch) == 1 else b"".join(batch))
        if framer.skipped != self._told:
            self._told = framer.skipped
            if self._on_skipped is not None:
                self._on_skipped()
        if not items:
            return
        last = items[-1]
        if type(last) is FrameError:
            items.pop()
            if items:
                ctx.fire_read(items)
            ctx.fire_failed(FrameRefused(last.reason, last.detail))
        else:
            ctx.fire_read(items)
