"""How a connection ends: flushed, in bounded time, once, and leaving nothing behind."""

from __future__ import annotations

import gc
import weakref

from iot_mqtt.pipeline import (
    Batch,
    CloseReason,
    Context,
    IdleStage,
    InputClosed,
    Stage,
)
from tests.doubles.channel import EmbeddedChannel

KICKED = CloseReason("kicked")


class CloseOnRead(Stage):
    """Closes in the middle of a read and notes whether ``inactive`` came while it was still in there."""

    def __init__(self) -> None:
        self.inside = False
        self.surprised = False

    def read(self, ctx: Context, batch: Batch) -> None:
        self.inside = True
        ctx.write([b"bye"])
        ctx.close(KICKED)
        self.inside = False

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
        self.surprised = self.inside
        ctx.fire_inactive(reason)


def test_close_sends_what_was_written() -> None:
    """Also what was not flushed."""
    embedded = EmbeddedChannel()
    embedded.channel.write([b"DISCONNECT"])
    embedded.close(KICKED)
    assert embedded.take() == b"DISCONNECT"
    assert embedded.link.finished
    assert embedded.reason == KICKED


def test_inactive_never_comes_from_within_close() -> None:
    """A stage that closes is not taken apart under its own feet."""
    stage = CloseOnRead()
    embedded = EmbeddedChannel([("closer", stage)])
    embedded.feed(b"1")
    assert embedded.reason == KICKED
    assert not stage.surprised


def test_close_waits_for_a_slow_reader_then_ends_in_order() -> None:
    """The outbox is drained first."""
    embedded = EmbeddedChannel(linger=3)
    embedded.link.capacity = 0
    embedded.channel.write([b"last words"])
    embedded.close(KICKED)
    embedded.advance(1)
    assert not embedded.closed
    embedded.link.drain()
    assert embedded.take() == b"last words"
    assert embedded.link.finished
    assert not embedded.link.aborted


def test_close_does_not_wait_for_ever() -> None:
    """After the linger time it is aborted; the first reason stays."""
    embedded = EmbeddedChannel(linger=3)
    embedded.link.capacity = 0
    embedded.channel.write([b"last words"])
    embedded.close(KICKED)
    embedded.advance(3.5)
    assert embedded.link.aborted
    assert embedded.reason == KICKED
    assert embedded.channel.outbox.pending == 0


def test_nothing_is_read_or_written_after_close() -> None:
    """A closed channel is closed, whatever the peer still sends."""
    embedded = EmbeddedChannel()
    embedded.link.capacity = 0
    embedded.channel.write([b"x"])
    embedded.close()
    embedded.feed(b"late")
    embedded.write(b"late")
    assert embedded.items == []
    embedded.link.drain()
    assert embedded.take() == b"x"


def test_the_first_reason_counts() -> None:
    """Later ones are consequences."""
    embedded = EmbeddedChannel()
    embedded.link.capacity = 0
    embedded.channel.write([b"x"])
    embedded.close(KICKED)
    embedded.close(CloseReason("other"))
    embedded.peer_closes()
    assert embedded.reason == KICKED


def test_a_peer_that_ends_its_input_still_gets_what_waits_for_it() -> None:
    """Half-close: the stages are told, the outbox is drained, then the connection ends."""
    embedded = EmbeddedChannel()
    embedded.link.capacity = 0
    embedded.write(b"answer")
    embedded.peer_ends_input()
    assert embedded.events == [InputClosed()]
    assert not embedded.closed
    embedded.link.drain()
    assert embedded.take() == b"answer"
    assert embedded.reason is not None
    assert embedded.reason.name == "peer_closed"


def test_reading_stops_and_starts_again() -> None:
    """The link is told of changes only."""
    embedded = EmbeddedChannel()
    embedded.channel.set_reading(False)
    assert not embedded.link.reading
    embedded.channel.set_reading(True)
    assert embedded.link.reading


def test_closing_starts_reading_again() -> None:
    """Otherwise the peer's own close would go unnoticed."""
    embedded = EmbeddedChannel()
    embedded.channel.set_reading(False)
    embedded.link.capacity = 0
    embedded.channel.write([b"x"])
    embedded.close()
    assert embedded.link.reading


class Starter:
    """Stands for a transport."""

    def __call__(self, received: bytes) -> None: ...


def test_an_ended_channel_is_freed_without_the_collector() -> None:
    """No cycle: at twenty thousand connections a second the collector would have its hands full."""
    gc.disable()
    try:
        stage = CloseOnRead()
        embedded = EmbeddedChannel([("idle", IdleStage(5)), ("c", stage)])
        # A compiled channel takes no weak references; what it has does.
        embedded.channel.start_tls = held = Starter()
        channel, seen = weakref.ref(held), weakref.ref(stage)
        del held
        embedded.feed(b"1")
        assert len(embedded.wheel) == 0
        del embedded.channel, stage  # the embedded channel itself is a cycle with its link
        assert seen() is None
        assert channel() is None
    finally:
        gc.enable()


def test_peer_and_local_are_host_and_port() -> None:
    """IPv6 hosts in brackets."""
    embedded = EmbeddedChannel()
    embedded.channel._peer = ("2001:db8::1", 4711)
    assert embedded.channel.peer == "[2001:db8::1]:4711"
    assert embedded.channel.local == "192.0.2.2:1883"
    assert embedded.channel.listener == "embedded"
