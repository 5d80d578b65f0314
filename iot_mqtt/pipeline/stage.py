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

A context is a stage's place in a pipeline, and its way to its neighbours: ``fire_*`` sends an inbound event to the next
stage towards the tail that overrides it; ``write``, ``flush``, ``close`` and ``set_reading`` go towards the head. This
is the hottest code of the pipeline, so every event is spelt out rather than looked up by name.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, cast

from mypy_extensions import mypyc_attr

from iot_mqtt.pipeline.channel import Channel
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.rows import DEAD_ROW, Ends, Row

__all__ = ["Batch", "Context", "Stage", "Stages"]

#: What travels in one read or write. The element type is a matter between two neighbouring stages: bytes next
#: to the head, codec items above a codec; hence ``Any``.
Batch: TypeAlias = list[Any]


@mypyc_attr(allow_interpreted_subclasses=True)
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


class Stages(Protocol):
    """A pipeline, as its stages may change it."""

    def get(self, name: str) -> Stage | None: ...

    def add_before(self, neighbour: str, name: str, stage: Stage) -> Context: ...

    def add_after(self, neighbour: str, name: str, stage: Stage) -> Context: ...

    def remove(self, name: str) -> Stage: ...


class Context(Ends):
    """Made by the pipeline; handed to every method of the stage."""

    __slots__ = ("channel", "name", "stage", "_contexts")

    def __init__(self, channel: Channel, name: str, stage: Stage, contexts: list[Context], row: Row) -> None:
        self.channel = channel
        self.name = name
        self.stage = stage
        self._contexts = contexts
        self.row = row

    @property
    def pipeline(self) -> Stages:
        """The pipeline, to change it."""
        return cast(Stages, self.channel.pipeline)

    def place(self, contexts: list[Context], row: Row) -> None:
        """Take a new place; only the pipeline calls this."""
        self._contexts = contexts
        self.row = row

    def retire(self) -> None:
        """The connection ended: whatever this context is still told to pass on goes nowhere."""
        self._contexts = _NOWHERE
        self.row = DEAD_ROW
        self.stage = _VOID  # the stage may hold its context; no cycle is to wait for the collector

    # inbound

    def fire_active(self) -> None:
        target = self._contexts[self.row.active]
        try:
            target.stage.active(target)
        except Exception as error:
            target.report(error)

    def fire_inactive(self, reason: CloseReason | None) -> None:
        target = self._contexts[self.row.inactive]
        try:
            target.stage.inactive(target, reason)
        except Exception as error:
            target.report(error)

    def fire_read(self, batch: Batch) -> None:
        target = self._contexts[self.row.read]
        try:
            target.stage.read(target, batch)
        except Exception as error:
            target.report(error)

    def fire_read_complete(self) -> None:
        target = self._contexts[self.row.read_complete]
        try:
            target.stage.read_complete(target)
        except Exception as error:
            target.report(error)

    def fire_writability(self, writable: bool) -> None:
        target = self._contexts[self.row.writability_changed]
        try:
            target.stage.writability_changed(target, writable)
        except Exception as error:
            target.report(error)

    def fire_event(self, event: object) -> None:
        target = self._contexts[self.row.event]
        try:
            target.stage.event(target, event)
        except Exception as error:
            target.report(error)

    def fire_failed(self, error: BaseException) -> None:
        target = self._contexts[self.row.failed]
        try:
            target.stage.failed(target, error)
        except Exception as another:
            target.channel.give_up(another)

    # outbound

    def write(self, batch: Batch) -> None:
        target = self._contexts[self.row.write]
        try:
            target.stage.write(target, batch)
        except Exception as error:
            target.report(error)

    def flush(self) -> None:
        target = self._contexts[self.row.flush]
        try:
            target.stage.flush(target)
        except Exception as error:
            target.report(error)

    def send(self, batch: Batch) -> None:
        """Write and flush: at once where no stage wants to know of either, which is every plain connection."""
        if not self.row.direct:
            self.write(batch)
            self.flush()
        elif not self.channel.closing:
            try:
                self.channel.outbox.send(batch)
            except Exception as error:
                self._contexts[0].report(error)

    def close(self, reason: CloseReason) -> None:
        target = self._contexts[self.row.close]
        try:
            target.stage.close(target, reason)
        except Exception as error:
            target.report(error)

    def set_reading(self, on: bool) -> None:
        target = self._contexts[self.row.set_reading]
        try:
            target.stage.set_reading(target, on)
        except Exception as error:
            target.report(error)

    # life

    def tell_added(self) -> None:
        """Run the stage's ``added``; only the pipeline calls this."""
        try:
            self.stage.added(self)
        except Exception as error:
            self.report(error)

    def tell_removed(self) -> None:
        """Run the stage's ``removed``; only the pipeline calls this."""
        try:
            self.stage.removed(self)
        except Exception as error:
            self.report(error)

    def report(self, error: BaseException) -> None:
        """Deliver an exception that left a method of this stage to its own ``failed``."""
        if self.stage is _VOID:  # it closed its own connection and then failed: still worth a line in the log
            self.channel.give_up(error)
            return
        try:
            self.stage.failed(self, error)
        except Exception as another:
            self.channel.give_up(another)

    def __repr__(self) -> str:
        return f"<Context {self.name} of {type(self.stage).__name__}>"


class _Void(Stage):
    """Swallows every event."""

    __slots__ = ()

    def active(self, ctx: Context) -> None: ...

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None: ...

    def read(self, ctx: Context, batch: Batch) -> None: ...

    def read_complete(self, ctx: Context) -> None: ...

    def writability_changed(self, ctx: Context, writable: bool) -> None: ...

    def event(self, ctx: Context, event: object) -> None: ...

    def failed(self, ctx: Context, error: BaseException) -> None: ...

    def write(self, ctx: Context, batch: Batch) -> None: ...

    def flush(self, ctx: Context) -> None: ...

    def close(self, ctx: Context, reason: CloseReason) -> None: ...

    def set_reading(self, ctx: Context, on: bool) -> None: ...


_VOID = _Void()
_NOWHERE: list[Context] = [Context(None, "nowhere", _VOID, [], DEAD_ROW)]  # type: ignore[arg-type]
