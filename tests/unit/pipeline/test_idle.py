"""Idle connections and connections that never say who they are."""

from __future__ import annotations

import pytest

from iot_mqtt.pipeline import Batch, ConnectTimeouts, Context, IdleEvent, IdleStage, Stage
from tests.doubles.channel import EmbeddedChannel


def count(embedded: EmbeddedChannel) -> int:
    """The idle events so far."""
    return sum(isinstance(event, IdleEvent) for event in embedded.events)


def test_only_what_is_read_counts() -> None:
    """Eleven seconds in which something is only read, and in which something is only written."""
    for act, expected in (("feed", 0), ("write", 1)):
        embedded = EmbeddedChannel([("idle", IdleStage(10))])
        for _ in range(11):
            embedded.advance(1)
            getattr(embedded, act)(b"x")
        assert count(embedded) == expected


def test_silence_is_told_again_after_each_period() -> None:
    """A stage that only counts may wait for the third."""
    embedded = EmbeddedChannel([("idle", IdleStage(5))])
    embedded.advance(16)
    assert count(embedded) == 3


def test_idle_is_never_told_early() -> None:
    """The period begins with the last read, wherever in a tick that was."""
    embedded = EmbeddedChannel([("idle", IdleStage(5))])
    embedded.advance(4.99)
    embedded.feed(b"x")
    embedded.advance(4.99)
    assert count(embedded) == 0
    embedded.advance(0.8)
    assert count(embedded) == 1


@pytest.mark.parametrize("stalls", [[0.6], [1.2], [3], [30], [4, 2, 30, 0.6, 3]])
@pytest.mark.parametrize("first", ["timer", "bytes"])
def test_what_came_while_the_process_stood_still_counts(stalls: list[float], first: str) -> None:
    """Whether the reactor comes to the clock first, or to the sockets; and the silence after it is noticed in time."""
    embedded = EmbeddedChannel([("idle", IdleStage(5))])
    clock = embedded.clock
    for stall in stalls:
        embedded.advance(0.9)
        clock._set(clock.monotonic() + stall)
        if first == "timer":
            # Behind the wheel's timer, which is due for long.
            clock.call_later(0, lambda: embedded.feed(b"x"))
        else:
            embedded.feed(b"x")
        embedded.advance(0)
    assert count(embedded) == 0
    embedded.advance(4.99)
    assert count(embedded) == 0
    embedded.advance(0.8)
    assert count(embedded) == 1


def test_who_was_silent_while_the_process_stood_still_is_idle() -> None:
    """Nothing waited in its socket."""
    embedded = EmbeddedChannel([("idle", IdleStage(5))])
    embedded.advance(3)
    embedded.clock._set(embedded.clock.monotonic() + 30)
    embedded.advance(0.1)
    assert count(embedded) == 1


def test_the_period_can_change_while_running() -> None:
    """A login says how often a gateway is heard."""
    stage = IdleStage()
    embedded = EmbeddedChannel([("idle", stage)])
    embedded.advance(100)
    stage.change(15)
    embedded.advance(14)
    assert count(embedded) == 0
    embedded.advance(2)
    assert count(embedded) == 1
    stage.change(0)
    embedded.advance(100)
    assert count(embedded) == 1


def test_what_does_not_get_past_the_codec_does_not_count() -> None:
    """Above a codec only whole packets keep a connection alive: one byte at a time does not."""

    class Swallow(Stage):
        def read(self, ctx: Context, batch: Batch) -> None: ...

    embedded = EmbeddedChannel([("codec", Swallow()), ("idle", IdleStage(5))])
    for _ in range(6):
        embedded.advance(1)
        embedded.feed(b"x")
    assert count(embedded) == 1


def test_a_removed_idle_stage_keeps_no_timeout() -> None:
    """Nor does a connection that ended."""
    embedded = EmbeddedChannel([("idle", IdleStage(5))])
    assert len(embedded.wheel) == 1
    embedded.pipeline.remove("idle")
    assert len(embedded.wheel) == 0


def test_a_connection_that_says_nothing_is_closed() -> None:
    """Half a CONNECT is nothing too."""
    embedded = EmbeddedChannel()
    ConnectTimeouts(embedded.wheel, 10).expect(embedded.channel)
    embedded.feed(b"\x10\x20")
    embedded.advance(9.9)
    assert not embedded.closed
    embedded.advance(0.5)
    assert embedded.reason is not None
    assert embedded.reason.name == "connect_timeout"


def test_a_connection_that_introduced_itself_is_not_closed() -> None:
    """And nothing is kept of it."""
    embedded = EmbeddedChannel()
    timeouts = ConnectTimeouts(embedded.wheel, 10)
    timeouts.expect(embedded.channel)
    timeouts.forget(embedded.channel)
    assert len(timeouts) == 0
    embedded.advance(20)
    assert not embedded.closed
    assert len(embedded.wheel) == 0


def test_each_connection_has_its_own_time() -> None:
    """One timeout looks after all of them: never early, and a tick late at most."""
    first = EmbeddedChannel()
    timeouts = ConnectTimeouts(first.wheel, 10)
    every = [first]
    timeouts.expect(first.channel)
    for _ in range(9):
        first.advance(1.1)
        every.append(EmbeddedChannel(clock=first.clock, wheel=first.wheel))
        timeouts.expect(every[-1].channel)
    timeouts.forget(every[3].channel)
    for number in range(10):
        first.advance(10 + 1.1 * number - (first.clock.monotonic() - 1000) - 0.01)
        assert not every[number].closed
        first.advance(0.26)
        assert every[number].closed == (number != 3)
    assert len(timeouts) == 0
