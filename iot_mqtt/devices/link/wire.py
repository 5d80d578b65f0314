"""A gateway's transport, as its link uses it: bytes that leave together, and whether anything is read."""

from __future__ import annotations

from iot_mqtt.pipeline import CloseReason, Context


class Wire:
    """Of one connection, between ``open`` and ``drop``."""

    __slots__ = ("_ctx", "_unflushed", "_reading")

    def __init__(self) -> None:
        self._ctx: Context | None = None
        self._unflushed = False
        #: What the transport was told last.
        self._reading = True

    def open(self, ctx: Context) -> None:
        """The connection is there."""
        self._ctx = ctx

    def write(self, data: bytes) -> None:
        """These bytes leave with the next ``flush``."""
        if self._ctx is not None:
            self._ctx.write([data])
            self._unflushed = True

    def flush(self) -> None:
        """Send what was written."""
        if self._unflushed and self._ctx is not None:
            self._unflushed = False
            self._ctx.flush()

    def set_reading(self, on: bool) -> None:
        """Read on, or read nothing more."""
        if on != self._reading and self._ctx is not None:
            self._reading = on
            self._ctx.set_reading(on)

    def close(self, reason: CloseReason) -> None:
        """Close behind what was written."""
        if self._ctx is not None:
            self.flush()
            self._ctx.close(reason)

    def drop(self) -> None:
        """The connection is gone: what is left of it does not hold its channel."""
        self._ctx = None
