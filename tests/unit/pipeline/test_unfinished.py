"""Packets that have begun and are not complete: a bound for all connections together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iot_mqtt.codec import PublishRun
from iot_mqtt.codec.decoder import PIECE
from iot_mqtt.pipeline import MqttCodecStage, Unfinished
from tests.doubles.channel import EmbeddedChannel

CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a"
SMALL = b"\x30\x05\x00\x01tab"
#: A packet of 100,000 bytes: its beginning, and how many are behind that.
LARGE, REST = b"\x30\x9c\x8d\x06\x00\x01t" + b"x" * 20_000, 79_993


def made(unfinished: Unfinished, count: int) -> list[EmbeddedChannel]:
    """Connections that have logged in and count there."""
    every = []
    for _ in range(count):
        embedded = EmbeddedChannel([("mqtt", MqttCodecStage())])
        embedded.channel.settings = replace(embedded.channel.settings, unfinished=unfinished)
        embedded.feed(CONNECT)
        every.append(embedded)
    return every


def test_beyond_the_bound_the_packet_that_began_first_is_given_up() -> None:
    """An honest one is complete in a moment."""
    unfinished = Unfinished(70_000)
    first, second, third, fourth = every = made(unfinished, 4)
    for embedded in (first, second, third):
        embedded.feed(LARGE)
    assert unfinished.held == 3 * len(LARGE)
    first.feed(b"x" * REST)
    assert unfinished.held == 2 * len(LARGE)
    first.feed(LARGE)
    fourth.feed(LARGE)
    assert [embedded.closed for embedded in every] == [False, True, False, False]
    reason = second.channel.close_reason
    assert reason is not None and reason.name == "unfinished_total"
    assert unfinished.held == 3 * len(LARGE)


def test_more_of_a_packet_makes_it_no_younger() -> None:
    """A byte now and then does not keep it alive."""
    unfinished = Unfinished(50_000)
    slow, other = made(unfinished, 2)
    slow.feed(LARGE)
    other.feed(LARGE)
    slow.feed(b"x")
    slow.feed(b"x" * 10_000)
    assert [slow.closed, other.closed, unfinished.held] == [True, False, len(LARGE)]


def test_whoever_sends_many_large_packets_is_no_older_than_the_last() -> None:
    """Also where each read ends in the next one."""
    unfinished = Unfinished(60_000)
    busy, waiting = made(unfinished, 2)
    busy.feed(LARGE)
    waiting.feed(LARGE)
    busy.feed(b"x" * REST + LARGE)
    assert unfinished.held == 2 * len(LARGE)
    busy.feed(b"x" * 20_000)
    assert [busy.closed, waiting.closed] == [False, True]
    assert sum(item.count for item in busy.items if isinstance(item, PublishRun)) == 1


@pytest.mark.parametrize("end", ["complete", "gone", "aborted", "wrong"])
def test_what_is_over_counts_no_more(end: str) -> None:
    """However it ends."""
    unfinished = Unfinished(1_000_000)
    (embedded,) = made(unfinished, 1)
    embedded.feed(LARGE)
    assert unfinished.held == len(LARGE)
    if end == "complete":
        embedded.feed(b"x" * REST + SMALL[:3])
    elif end == "gone":
        embedded.peer_closes()
    elif end == "aborted":
        embedded.channel.abort()
        embedded.clock.advance(0)
    else:
        embedded.feed(b"x" * REST + b"\x00\x00")
        assert embedded.closed
    assert (unfinished.held, len(unfinished._of)) == (0, 0)


def test_small_packets_are_not_looked_at() -> None:
    """They cost no more than what a connection costs."""
    unfinished = Unfinished(10)
    (embedded,) = made(unfinished, 1)
    for size in (2, 5):
        embedded.feed(SMALL[:size])
        embedded.feed(SMALL[size:])
    almost = b"\x30\x80\x7f\x00\x01t"
    assert PIECE > 127 * 128 + 3
    embedded.feed(almost + b"x" * 16_000)
    assert (embedded.closed, unfinished.held) == (False, 0)


def test_one_that_is_larger_than_the_bound_is_given_up_itself() -> None:
    """Once more of it has come."""
    unfinished = Unfinished(25_000)
    (embedded,) = made(unfinished, 1)
    embedded.feed(SMALL + LARGE)
    assert not embedded.closed
    embedded.feed(b"x" * 5_000)
    assert (embedded.closed, unfinished.held) == (True, 0)
