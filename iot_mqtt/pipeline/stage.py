"""Stages: what a pipeline is made of.

A connection's pipeline is an ordered list of named stages between the transport (the head) and nowhere (the
tail)::

                 inbound: active read read_complete event ...
        head  ─────▶  [ tls ]  [ websocket ]  [ mqtt ]  [ broker ]  ─────▶  tail
              ◀─────                                                ◀─────
                 outbound: write flush close set_reading

A stage overrides the methods of the events it cares about and passes them on through its context; events it
does not override never reach it and cost it nothing, because the table of who sees what is computed once per
sequence of stage classes (``iot_mqtt.pipeline.table``). Stages keep their state in their own slots: one instance
per connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from iot_mqtt.pipeline.context import Context
    from iot_mqtt.pipeline.reasons import CloseReason

__all__ = ["INBOUND", "OUTBOUND", "Batch", "Stage"]

#: What travels in one read or write. The element type is a matter between two neighbouring stages: bytes next
#: to the head, codec items above a codec; hence ``Any``.
Batch: TypeAlias = list[Any]

INBOUND = ("active", "inactive", "read", "read_complete", "writability_changed", "event", "failed")
OUTBOUND = ("write", "flush", "close", "set_reading")


class Stage:
    """A stage that passes everything on.

    All methods run in the reactor's thread and must not block. An exception that leaves one of them is
    delivered to the same stage's ``failed``.
    """

    __slots__ = ()

    # inbound

    def active(self, ctx: Context) -> None:
        """The connection is there."""
        ctx.fire_active()

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
        """The connection is gone; the last event of a pipeline."""
        ctx.fire_inactive(reason)

    def read(self, ctx: Context, batch: Batch) -> None:
        """Things arrived. The list now belongs to this stage."""
        ctx.fire_read(batch)

    def read_complete(self, ctx: Context) -> None:
        """All that one receive brought has been read: the moment to flush."""
        ctx.fire_read_complete()

    def writability_changed(self, ctx: Context, writable: bool) -> None:
        """The outbox crossed its high water mark (False) or fell below the low one (True)."""
        ctx.fire_writability(writable)

    def event(self, ctx: Context, event: object) -> None:
        """Anything else that a stage has to tell the stages above it."""
        ctx.fire_event(event)

    def failed(self, ctx: Context, error: BaseException) -> None:
        """An error of this stage or of one below; the tail logs it and closes."""
        ctx.fire_failed(error)

    # outbound

    def write(self, ctx: Context, batch: Batch) -> None:
        """Send these, at the next flush. The list still belongs to the caller."""
        ctx.write(batch)

    def flush(self, ctx: Context) -> None:
        """Hand what was written to the transport."""
        ctx.flush()

    def close(self, ctx: Context, reason: CloseReason) -> None:
        """Flush, then close."""
        ctx.close(reason)

    def set_reading(self, ctx: Context, on: bool) -> None:
        """Take or stop taking bytes from the peer."""
        ctx.set_reading(on)

    # life

    def added(self, ctx: Context) -> None:
        """This stage is part of the pipeline now; the connection may or may not be active yet."""

    def removed(self, ctx: Context) -> None:
        """This stage is part of the pipeline no longer: it was removed, or the connection ended."""
