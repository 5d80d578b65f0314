"""Idle connections and connections that never say who they are."""

from __future__ import annotations

import pytest

from iot_mqtt.pipeline import Batch, ConnectTimeoutStage, Context, Idle, IdleEvent, IdleStage, Stage
from iot_mqtt.pipeline.embedded import EmbeddedChannel


def kinds(embedded: EmbeddedChannel) -> list[Idle]:
    """The idle events so far."""
    return [event.kind for event in embedded.events if isinstance(event, IdleEvent)]


@pytest.mark.parametrize(
    ("settings", "reads", "writes"),
    [
        ({"reader": 10}, [], [Idle.READER]),
        ({"writer": 10}, [Idle.WRITER], []),
        ({"all": 10}, [], []),
        ({"reader": 10, "writer": 10}, [Idle.WRITER], [Idle.READER]),
        ({}, [], []),
    ],
)
def test_each_kind_watches_its_direction(settings: dict[str, float], reads: list[Idle], writes: list[Idle]) -> None:
    """Eleven seconds in which something is only read, and in which something is only written."""
    for expected, act in ((reads, "feed"), (writes, "write")):
        embedded = EmbeddedChannel([("idle", IdleStage(**settings))])
        for _ in range(11):
            embedded.advance(1)
            getattr(embedded, act)(b"x")
        assert kinds(embedded) == expected


def test_silence_is_told_again_after_each_period() -> None:
    """A stage that only counts may wait for the third."""
    embedded = EmbeddedChannel([("idle", IdleStage(all=5))])
    embedded.advance(16)
    assert kinds(embedded) == [Idle.ALL] * 3


def test_idle_is_never_told_early() -> None:
    """The period begins with the last read, wherever in a tick that was."""
    embedded = EmbeddedChannel([("idle", IdleStage(reader=5))])
    embedded.advance(4.99)
    embedded.feed(b"x")
    embedded.advance(4.99)
    assert kinds(embedded) == []
    embedded.advance(0.8)
    assert kinds(embedded) == [Idle.READER]


def test_the_periods_can_change_while_running() -> None:
    """CONNECT says how long the keep-alive is."""
    stage = IdleStage()
    embedded = EmbeddedChannel([("idle", stage)])
    embedded.advance(100)
    stage.change(reader=15)
    embedded.advance(14)
    assert kinds(embedded) == []
    embedded.advance(2)
    assert kinds(embedded) == [Idle.READER]
    stage.change()
    embedded.advance(100)
    assert kinds(embedded) == [Idle.READER]


def test_what_does_not_get_past_the_codec_does_not_count() -> None:
    """Above a codec only whole packets keep a connection alive: one byte at a time does not."""

    class Swallow(Stage):
        def read(self, ctx: Context, batch: Batch) -> None: ...

    embedded = EmbeddedChannel([("codec", Swallow()), ("idle", IdleStage(reader=5))])
    for _ in range(6):
        embedded.advance(1)
        embedded.feed(b"x")
    assert kinds(embedded) == [Idle.READER]


def test_a_removed_idle_stage_keeps_no_timeout() -> None:
    """Nor does a connection that ended."""
    embedded = EmbeddedChannel([("idle", IdleStage(reader=5, writer=5, all=5))])
    assert len(embedded.wheel) == 3
    embedded.pipeline.remove("idle")
    assert len(embedded.wheel) == 0


def test_a_connection_that_says_nothing_is_closed() -> None:
    """Half a CONNECT is nothing too."""
    embedded = EmbeddedChannel([("timeout", ConnectTimeoutStage(10))])
    embedded.feed(b"\x10\x20")
    embedded.advance(9.9)
    assert not embedded.closed
    embedded.advance(0.5)
    assert embedded.reason is not None
    assert embedded.reason.name == "connect_timeout"


@pytest.mark.parametrize("how", ["stop", "remove"])
def test_a_connection_that_introduced_itself_is_not_closed(how: str) -> None:
    """Either way of telling the stage."""
    stage = ConnectTimeoutStage(10)
    embedded = EmbeddedChannel([("timeout", stage)])
    if how == "stop":
        stage.stop()
    else:
        embedded.pipeline.remove("timeout")
    assert len(embedded.wheel) == 0
    embedded.advance(20)
    assert not embedded.closed
