"""The end of a turn: calls first, then each dirty channel once."""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.pipeline import Turn
from iot_mqtt.pipeline.embedded import EmbeddedChannel


def test_a_channel_is_flushed_once_however_often_it_was_asked_for() -> None:
    """And nothing before the end of the turn."""
    scheduled: list[Callable[[], None]] = []
    turn, embedded = Turn(scheduled.append), EmbeddedChannel()
    for part in (b"a", b"b", b"c"):
        embedded.channel.write([part])
        turn.flush(embedded.channel)
    assert embedded.link.sent == []
    assert len(scheduled) == 1
    scheduled[0]()
    assert embedded.link.sent == [b"abc"]


def test_calls_come_before_flushes_and_what_they_write_is_of_the_same_turn() -> None:
    """A commit that answers at once is sent at once."""
    scheduled: list[Callable[[], None]] = []
    turn, embedded = Turn(scheduled.append), EmbeddedChannel()

    def call() -> None:
        embedded.channel.write([b"ack"])
        turn.flush(embedded.channel)

    turn.at_end(call)
    scheduled[0]()
    assert embedded.link.sent == [b"ack"]
    assert len(scheduled) == 1


def test_a_call_that_fails_does_not_stop_the_flushes() -> None:
    """It is logged, and the next turn is scheduled as ever."""
    scheduled: list[Callable[[], None]] = []
    turn, embedded = Turn(scheduled.append), EmbeddedChannel()

    def fails() -> None:
        raise ZeroDivisionError

    turn.at_end(fails)
    embedded.channel.write([b"x"])
    turn.flush(embedded.channel)
    scheduled[0]()
    assert embedded.link.sent == [b"x"]
    turn.flush(embedded.channel)
    assert len(scheduled) == 2


def test_a_channel_that_ended_meanwhile_is_passed_over() -> None:
    """Its flush goes nowhere."""
    scheduled: list[Callable[[], None]] = []
    turn, embedded = Turn(scheduled.append), EmbeddedChannel()
    turn.flush(embedded.channel)
    embedded.peer_closes()
    scheduled[0]()
