"""Stages see the events they override, in order, also while the pipeline changes under them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from twisted.logger import globalLogPublisher

from iot_mqtt.errors import Malformed
from iot_mqtt.pipeline import Batch, CloseReason, Context, Layout, Stage
from iot_mqtt.pipeline.ends import Ends
from iot_mqtt.pipeline.rows import INBOUND, OUTBOUND
from iot_mqtt.pipeline.table import table_of
from tests.doubles.channel import EmbeddedChannel


class Recorder(Stage):
    """Notes every event under its name and passes it on."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def active(self, ctx: Context) -> None:
        self.log.append(f"{self.name} active")
        ctx.fire_active()

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
        self.log.append(f"{self.name} inactive")
        ctx.fire_inactive(reason)

    def read(self, ctx: Context, batch: Batch) -> None:
        self.log.append(f"{self.name} read")
        ctx.fire_read(batch)

    def read_complete(self, ctx: Context) -> None:
        self.log.append(f"{self.name} read_complete")
        ctx.fire_read_complete()

    def event(self, ctx: Context, event: object) -> None:
        self.log.append(f"{self.name} event")
        ctx.fire_event(event)

    def write(self, ctx: Context, batch: Batch) -> None:
        self.log.append(f"{self.name} write")
        ctx.write(batch)

    def flush(self, ctx: Context) -> None:
        self.log.append(f"{self.name} flush")
        ctx.flush()

    def close(self, ctx: Context, reason: CloseReason) -> None:
        self.log.append(f"{self.name} close")
        ctx.close(reason)

    def set_reading(self, ctx: Context, on: bool) -> None:
        self.log.append(f"{self.name} set_reading")
        ctx.set_reading(on)

    def added(self, ctx: Context) -> None:
        self.log.append(f"{self.name} added")

    def removed(self, ctx: Context) -> None:
        self.log.append(f"{self.name} removed")


class OnRead(Stage):
    """Does something when a read passes, then passes it on."""

    def __init__(self, do: Callable[[Context], None]) -> None:
        self.do = do

    def read(self, ctx: Context, batch: Batch) -> None:
        self.do(ctx)
        ctx.fire_read(batch)


class Tag(Stage):
    """Adds its mark to what is read and what is written."""

    def __init__(self, mark: bytes) -> None:
        self.mark = mark

    def read(self, ctx: Context, batch: Batch) -> None:
        ctx.fire_read([each + self.mark for each in batch])

    def write(self, ctx: Context, batch: Batch) -> None:
        ctx.write([each + self.mark for each in batch])


class ReadOnly(Stage):
    """Overrides one event."""

    def read(self, ctx: Context, batch: Batch) -> None:
        ctx.fire_read(batch)


class WriteOnly(Stage):
    """Overrides one event."""

    def write(self, ctx: Context, batch: Batch) -> None:
        ctx.write(batch)


def test_inbound_events_go_from_head_to_tail_and_outbound_ones_back() -> None:
    """The order of the list is the order of reads; writes go the other way."""
    embedded = EmbeddedChannel([("a", Tag(b"a")), ("b", Tag(b"b")), ("c", Tag(b"c"))])
    embedded.feed(b"in-")
    embedded.write(b"out-")
    assert embedded.items == [b"in-abc"]
    assert embedded.take() == b"out-cba"


def test_every_event_of_a_connection_reaches_a_stage_once() -> None:
    """One life, event by event."""
    log: list[str] = []
    embedded = EmbeddedChannel([("x", Recorder("x", log))])
    embedded.feed(b"1")
    embedded.write(b"2")
    embedded.channel.set_reading(False)
    embedded.close()
    assert log == [
        "x added", "x active", "x read", "x read_complete", "x write", "x flush", "x set_reading",
        "x close", "x inactive", "x removed",
    ]  # fmt: skip


def test_read_complete_is_fired_only_where_a_stage_wants_it() -> None:
    """Not even to the tail; and a stage that comes later is heard."""
    log: list[str] = []
    embedded = EmbeddedChannel([("r", ReadOnly())])
    assert not embedded.pipeline.row.completes
    embedded.pipeline.add_before("r", "x", Recorder("x", log))
    embedded.feed(b"1")
    assert log[-2:] == ["x read", "x read_complete"]
    embedded.pipeline.remove("x")
    assert not embedded.pipeline.row.completes


def test_the_table_skips_stages_that_do_not_override_an_event() -> None:
    """The row of a position names the next stage that cares, or the end."""
    table = table_of((Ends, WriteOnly, ReadOnly, Stage, ReadOnly, Ends))
    assert table.rows[0].read == 2
    assert table.rows[2].read == 4
    assert table.rows[4].read == 5
    assert table.rows[5].write == 1
    assert table.rows[1].write == 0
    assert table.rows[0].active == 5


def test_the_table_of_a_sequence_of_classes_is_computed_once() -> None:
    """Two connections of one form share their table."""
    classes = (Ends, ReadOnly, Ends)
    assert table_of(classes) is table_of((Ends, ReadOnly, Ends))


def test_what_fails_at_the_head_is_told_to_the_stages() -> None:
    """From the head on, as what comes in."""

    class Told(Stage):
        def failed(self, ctx: Context, error: BaseException) -> None:
            told.append(error)

    told: list[BaseException] = []
    embedded = EmbeddedChannel([("told", Told())])
    embedded.pipeline.write([object()])
    embedded.pipeline.send([object(), object()])
    assert [type(error) for error in told] == [TypeError, TypeError]


@pytest.mark.parametrize("event", [*INBOUND, *OUTBOUND])
def test_the_two_ends_take_every_event_of_their_direction(event: str) -> None:
    """Otherwise an event would come to rest on a method that passes it on to nobody."""
    assert getattr(Ends, event) is not getattr(Stage, event)


def test_a_stage_added_behind_sees_the_event_that_is_travelling() -> None:
    """What travels goes on by the new order."""
    embedded = EmbeddedChannel([("adder", OnRead(lambda ctx: void(ctx.pipeline.add_after("adder", "b", Tag(b"b")))))])
    embedded.feed(b"1")
    assert embedded.items == [b"1b"]


def test_a_stage_added_before_sees_only_later_events() -> None:
    """The event has passed that place."""
    done: list[int] = []

    def once(ctx: Context) -> None:
        if not done:
            done.append(1)
            ctx.pipeline.add_before("adder", "a", Tag(b"a"))

    embedded = EmbeddedChannel([("adder", OnRead(once))])
    embedded.feed(b"1", b"2")
    assert embedded.items == [b"1", b"2a"]


def test_a_removed_neighbour_does_not_see_the_event_that_is_travelling() -> None:
    """Removal counts at once."""
    embedded = EmbeddedChannel([("remover", OnRead(lambda ctx: void(ctx.pipeline.remove("b")))), ("b", Tag(b"b"))])
    embedded.feed(b"1")
    assert embedded.items == [b"1"]


def test_a_stage_that_removed_itself_still_passes_on() -> None:
    """In both directions, to what stood around it."""

    def leave(ctx: Context) -> None:
        ctx.pipeline.remove("leaver")
        ctx.write([b"bye-"])
        ctx.flush()

    embedded = EmbeddedChannel([("a", Tag(b"a")), ("leaver", OnRead(leave)), ("b", Tag(b"b"))])
    embedded.feed(b"1")
    assert embedded.items == [b"1ab"]
    assert embedded.take() == b"bye-a"
    assert embedded.pipeline.names == ("a", "b", "catcher")


def test_a_stage_that_put_two_in_its_place_passes_on_to_the_first() -> None:
    """Add behind, remove, fire."""

    def split(ctx: Context) -> None:
        ctx.pipeline.add_after("s", "b", Tag(b"b"))
        ctx.pipeline.add_after("s", "a", Tag(b"a"))
        ctx.pipeline.remove("s")

    embedded = EmbeddedChannel([("s", OnRead(split)), ("c", Tag(b"c"))])
    embedded.feed(b"1")
    assert embedded.items == [b"1abc"]


def test_stages_are_put_beside_others() -> None:
    """Head and tail keep their places."""
    embedded = EmbeddedChannel([("m", Tag(b"m"))])
    embedded.pipeline.add_before("m", "f", Tag(b"f"))
    embedded.pipeline.add_before("catcher", "l", Tag(b"l"))
    embedded.feed(b"")
    embedded.pipeline.add_after("catcher", "z", Stage())
    assert embedded.items == [b"fml"]
    assert embedded.pipeline.names == ("f", "m", "l", "catcher", "z")


def test_names_are_unique_and_known() -> None:
    """A second stage of a name, and a name that is not there, are refused."""
    embedded = EmbeddedChannel([("a", Stage())])
    with pytest.raises(ValueError, match="already"):
        embedded.pipeline.add_after("a", "a", Stage())
    with pytest.raises(KeyError):
        embedded.pipeline.remove("b")
    with pytest.raises(KeyError):
        embedded.pipeline.remove("head")
    with pytest.raises(ValueError, match="differ"):
        Layout([("a", Stage), ("a", Stage)])


def test_a_stage_added_later_is_told_when_it_is_removed() -> None:
    """By name, or by the end of the connection."""
    log: list[str] = []
    embedded = EmbeddedChannel()
    embedded.pipeline.add_before("catcher", "x", Recorder("x", log))
    embedded.pipeline.add_before("x", "y", Recorder("y", log))
    embedded.pipeline.remove("x")
    embedded.peer_closes()
    assert log == ["x added", "y added", "x removed", "y inactive", "y removed"]


class Breaks(Stage):
    """Raises in one method; notes what ``failed`` is told."""

    def __init__(self, method: str, error: Exception) -> None:
        self.method = method
        self.error = error
        self.told: list[BaseException] = []

    def _maybe(self, method: str) -> None:
        if method == self.method:
            raise self.error

    def active(self, ctx: Context) -> None:
        self._maybe("active")

    def read(self, ctx: Context, batch: Batch) -> None:
        self._maybe("read")

    def write(self, ctx: Context, batch: Batch) -> None:
        self._maybe("write")

    def flush(self, ctx: Context) -> None:
        self._maybe("flush")

    def close(self, ctx: Context, reason: CloseReason) -> None:
        self._maybe("close")
        ctx.close(reason)

    def failed(self, ctx: Context, error: BaseException) -> None:
        self.told.append(error)
        ctx.fire_failed(error)


@pytest.mark.parametrize("method", ["active", "read", "write", "flush"])
def test_an_exception_reaches_the_stage_itself_then_those_above(method: str) -> None:
    """Not those below; and not whoever called ``channel.write``: that may be another connection."""
    below = Breaks("", Exception())
    stage = Breaks(method, Malformed("broken"))

    class Below(Stage):
        def failed(self, ctx: Context, error: BaseException) -> None:
            below.told.append(error)
            ctx.fire_failed(error)

    embedded = EmbeddedChannel([("below", Below()), ("stage", stage)])
    embedded.feed(b"1")
    embedded.write(b"2")
    assert stage.told[0] is stage.error
    assert embedded.errors[0] is stage.error
    assert below.told == []


def test_a_fault_of_the_peer_that_nobody_handled_closes_the_connection() -> None:
    """With the error's words as the reason, and no traceback: the log is not the peer's to fill."""
    embedded = EmbeddedChannel([("stage", Breaks("read", Malformed("no such thing")))])
    with logged_failures() as failures:
        embedded.feed(b"1")
    assert failures == []
    assert embedded.reason == CloseReason("protocol_error", "no such thing", Malformed("").reason)


def test_a_fault_of_ours_that_nobody_handled_closes_the_connection() -> None:
    """And the log has its traceback."""
    embedded = EmbeddedChannel([("stage", Breaks("read", ZeroDivisionError("oops")))])
    with logged_failures() as failures:
        embedded.feed(b"1")
    assert [type(failure.value) for failure in failures] == [ZeroDivisionError]
    assert embedded.reason is not None
    assert embedded.reason.name == "failed"
    assert "oops" in embedded.reason.detail


def test_a_stage_that_cannot_even_close_is_aborted() -> None:
    """No endless round of failing and closing."""
    embedded = EmbeddedChannel([("stage", Breaks("close", ZeroDivisionError("close")))])
    embedded.close()
    assert embedded.link.aborted
    assert embedded.reason is not None
    assert embedded.reason.name == "failed"


def test_a_stage_that_fails_when_it_is_added_ends_the_connection() -> None:
    """Before it was ever active; it is not left hanging."""

    class Unwilling(Stage):
        def added(self, ctx: Context) -> None:
            raise ZeroDivisionError

    embedded = EmbeddedChannel([("unwilling", Unwilling())])
    assert embedded.closed
    assert not embedded.channel.active


def test_an_exception_in_failed_aborts() -> None:
    """The last line of defence."""

    class Worse(Breaks):
        def failed(self, ctx: Context, error: BaseException) -> None:
            raise RuntimeError("worse")

    embedded = EmbeddedChannel([("stage", Worse("read", ValueError("bad")))])
    embedded.feed(b"1")
    assert embedded.closed
    assert embedded.reason is not None
    assert "worse" in embedded.reason.detail


def test_events_fired_after_the_end_go_nowhere() -> None:
    """A stage may hold its context for longer than the connection lasts."""
    held: list[Context] = []
    embedded = EmbeddedChannel([("holder", OnRead(held.append)), ("t", Tag(b"t"))])
    embedded.feed(b"1")
    embedded.peer_closes()
    held[0].fire_read([b"2"])
    held[0].write([b"3"])
    held[0].flush()
    held[0].close(CloseReason("again"))
    embedded.channel.write([b"4"])
    embedded.channel.flush()
    assert embedded.items == [b"1t"]
    assert embedded.take() == b""
    assert embedded.pipeline.names == ()
    with pytest.raises(LookupError):
        embedded.pipeline.add_before("s", "late", Stage())


@contextmanager
def logged_failures() -> Iterator[list[Any]]:
    """Failures logged meanwhile."""
    failures: list[Any] = []

    def observe(event: Any) -> None:
        if "log_failure" in event:
            failures.append(event["log_failure"])

    globalLogPublisher.addObserver(cast(Any, observe))
    try:
        yield failures
    finally:
        globalLogPublisher.removeObserver(cast(Any, observe))


def void(value: Any) -> None:
    """A lambda's value, thrown away."""
