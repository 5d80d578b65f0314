"""A whole pipeline in memory, for tests: bytes in, bytes out, time by hand.

::

    embedded = EmbeddedChannel([("mqtt", MqttCodecStage()), ("last", stage)])
    embedded.feed(b"...")                 # as if received
    embedded.read("anything", "else")     # fired from the head as it is, for stages above a codec
    assert embedded.take() == b"..."      # what reached the wire
    embedded.advance(10)                  # seconds

What no stage kept is found in ``items``, ``events``, ``errors`` and ``writability``.
"""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.pipeline import reasons
from iot_mqtt.pipeline.channel import Channel, ChannelSettings
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.pipeline.layout import Layout, StageFactory
from iot_mqtt.pipeline.outbox import Link, Part
from iot_mqtt.pipeline.pipeline import Pipeline
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.settings import OutboxSettings
from iot_mqtt.pipeline.stage import Batch, Context, Stage
from iot_mqtt.pipeline.wheel import TimingWheel

__all__ = ["EmbeddedChannel"]


class EmbeddedChannel:
    """A channel over a link in memory. ``stages`` is a list of (name, stage), or a layout."""

    def __init__(
        self,
        stages: Sequence[tuple[str, Stage]] | Layout = (),
        *,
        clock: ManualClock | None = None,
        wheel: TimingWheel | None = None,
        outbox: OutboxSettings | None = None,
        peer: str = "192.0.2.1:50000",
        listener: str = "embedded",
        linger: float = 3.0,
        active: bool = True,
    ) -> None:
        self.clock = clock or ManualClock()
        self.wheel = wheel or TimingWheel(self.clock)
        settings = ChannelSettings(listener, self.wheel, "192.0.2.2:1883", outbox or OutboxSettings(), linger)
        self.channel = Channel(settings, peer)
        self.link = MemoryLink(self)
        self._catcher = _Catcher()
        self.items = self._catcher.items
        self.events = self._catcher.events
        self.errors = self._catcher.errors
        #: Every change, in order.
        self.writability = self._catcher.writability
        layout = stages if isinstance(stages, Layout) else Layout([(name, _factory(stage)) for name, stage in stages])
        (layout + Layout([("catcher", _factory(self._catcher))])).build(self.channel)
        if active:
            self.begin()

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline under test (the last stage, ``catcher``, belongs to the embedded channel)."""
        assert isinstance(self.channel.pipeline, Pipeline)
        return self.channel.pipeline

    @property
    def closed(self) -> bool:
        """The link was finished or aborted."""
        return self.link.finished or self.link.aborted

    @property
    def reason(self) -> CloseReason | None:
        """Why it ended, once ``inactive`` has travelled."""
        return self._catcher.reason

    def begin(self) -> None:
        """Connect."""
        self.channel.begin(self.link)
        self.settle()

    def feed(self, *pieces: bytes) -> None:
        """Receive each piece on its own."""
        for piece in pieces:
            self.channel.received(piece)
        self.settle()

    def read(self, *items: object) -> None:
        """Fire one read of these things from the head."""
        self.pipeline.fire_read(list(items))
        self.pipeline.fire_read_complete()
        self.settle()

    def write(self, *items: object) -> None:
        """Write and flush from the tail."""
        self.channel.write(list(items))
        self.channel.flush()
        self.settle()

    def close(self, reason: CloseReason = reasons.CLOSED) -> None:
        """Close from the tail."""
        self.channel.close(reason)
        self.settle()

    def peer_closes(self) -> None:
        """The peer ends the connection."""
        self.channel.lost(reasons.PEER_CLOSED)
        self.settle()

    def peer_ends_input(self) -> None:
        """The peer closes its sending side only."""
        self.channel.input_closed()
        self.settle()

    def take(self) -> bytes:
        """Everything sent since the last call."""
        sent = b"".join(self.link.sent)
        self.link.sent.clear()
        return sent

    def settle(self) -> None:
        """Make the calls that are due now."""
        self.clock.advance(0)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)


class MemoryLink(Link):
    """Takes everything until ``capacity`` is set: then only so many bytes until ``drain``."""

    def __init__(self, embedded: EmbeddedChannel) -> None:
        self._embedded = embedded
        #: One entry per push.
        self.sent: list[bytes] = []
        self.capacity: int | None = None
        self.broken = False
        self.reading = True
        self.finished = False
        self.aborted = False

    def push(self, data: Part) -> int:
        if self.broken:
            return -1
        taken = len(data) if self.capacity is None else min(len(data), self.capacity)
        if self.capacity is not None:
            self.capacity -= taken
        if taken:
            self.sent.append(bytes(data[:taken]))
        return taken

    def drain(self, capacity: int | None = None) -> None:
        """Take so many bytes more, or everything from now on."""
        self.capacity = capacity
        outbox = self._embedded.channel.outbox
        outbox.resume()
        while capacity is None and outbox.blocked:
            outbox.resume()
        self._embedded.settle()

    def set_reading(self, on: bool) -> None:
        self.reading = on

    def finish(self) -> None:
        self.finished = True
        self._embedded.clock.call_later(0, lambda: self._embedded.channel.lost(reasons.CLOSED))

    def abort(self) -> None:
        self.aborted = True
        self._embedded.clock.call_later(0, lambda: self._embedded.channel.lost(reasons.ABORTED))


class _Catcher(Stage):
    """Keeps what reaches the tail."""

    __slots__ = ("errors", "events", "items", "reason", "writability")

    def __init__(self) -> None:
        self.items: Batch = []
        self.events: list[object] = []
        self.errors: list[BaseException] = []
        self.writability: list[bool] = []
        self.reason: CloseReason | None = None

    def read(self, ctx: Context, batch: Batch) -> None:
        self.items += batch

    def event(self, ctx: Context, event: object) -> None:
        self.events.append(event)

    def failed(self, ctx: Context, error: BaseException) -> None:
        self.errors.append(error)
        ctx.fire_failed(error)

    def writability_changed(self, ctx: Context, writable: bool) -> None:
        self.writability.append(writable)

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
        self.reason = reason


def _factory(stage: Stage) -> StageFactory:
    """A factory of the one stage it is given."""
    return lambda: stage
