"""The outbox is bounded, tells the truth about what waits, and writes once per flush."""

from __future__ import annotations

import pytest

from iot_mqtt.pipeline import Context, Debts, OutboxSettings, Stage
from iot_mqtt.pipeline.outbox import LARGE, Outbox, Part
from tests.doubles.channel import EmbeddedChannel

LIMITS = OutboxSettings(high_water=1000, low_water=250, hard_limit=4000)


def stalled(*, capacity: int = 0) -> EmbeddedChannel:
    """A channel whose peer does not read."""
    embedded = EmbeddedChannel(outbox=LIMITS)
    embedded.link.capacity = capacity
    return embedded


def test_a_flush_is_one_push_however_many_parts() -> None:
    """Idea 5 of the design: one write per connection per turn."""
    embedded = EmbeddedChannel()
    embedded.channel.write([b"a", b"b"])
    embedded.channel.write([b"c"])
    assert embedded.link.sent == []
    embedded.channel.flush()
    assert embedded.link.sent == [b"abc"]
    assert embedded.channel.outbox.pending == 0
    assert embedded.channel.bytes_sent == 3


@pytest.mark.parametrize("backlog", [False, True])
def test_large_parts_are_not_copied(backlog: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only small ones between them are joined."""
    embedded = EmbeddedChannel()
    pushed: list[Part] = []
    push = embedded.link.push

    def noted(data: Part) -> int:
        pushed.append(data)
        return push(data)

    monkeypatch.setattr(embedded.link, "push", noted)
    one, two = b"1" * LARGE, b"2" * LARGE
    if backlog:
        embedded.link.capacity = 0
        embedded.write(b"-")
        pushed.clear()
    embedded.write(b"a", b"b", one, two, b"c", b"d")
    if backlog:
        embedded.link.drain()
    assert [bytes(data) for data in pushed] == [b"-ab" if backlog else b"ab", one, two, b"cd"]
    assert pushed[1] is one and pushed[2] is two


def test_a_link_that_breaks_between_two_parts_gets_no_more() -> None:
    """And nobody is told anything but that."""
    embedded = EmbeddedChannel(outbox=LIMITS)
    embedded.link.broken = True
    embedded.write(b"1" * LARGE, b"2" * LARGE)
    assert embedded.channel.closing
    assert embedded.channel.outbox.empty and embedded.channel.outbox.pending == 0


def test_a_link_that_breaks_in_a_flush_ends_it_without_a_fault() -> None:
    """Asked without a pipeline around it, which would catch what is raised."""
    embedded = EmbeddedChannel(outbox=LIMITS)
    embedded.link.broken = True
    outbox = embedded.channel.outbox
    outbox.add([b"1" * LARGE, b"2" * LARGE])
    outbox.flush()
    assert outbox.empty and outbox.pending == 0


def test_what_the_link_does_not_take_stays_pending() -> None:
    """And is sent in order when the link takes bytes again."""
    embedded = stalled(capacity=2)
    embedded.write(b"abc", b"def")
    embedded.write(b"ghi")
    assert embedded.channel.outbox.pending == 7
    embedded.link.drain(3)
    assert embedded.channel.outbox.pending == 4
    embedded.link.drain()
    assert embedded.take() == b"abcdefghi"
    assert embedded.channel.outbox.pending == 0
    assert embedded.channel.bytes_sent == 9


def test_a_blocked_link_is_not_pushed_again_before_it_resumes() -> None:
    """Otherwise bytes would overtake each other, and every flush would be a system call for nothing."""
    embedded = stalled()
    embedded.write(b"a")
    embedded.link.capacity = 100
    embedded.write(b"b")
    assert embedded.take() == b""
    embedded.link.drain()
    assert embedded.take() == b"ab"


def test_writability_changes_at_the_high_and_the_low_mark_only() -> None:
    """No flutter in between."""
    embedded = stalled()
    embedded.write(b"x" * 1000)
    assert embedded.channel.writable
    embedded.write(b"x")
    assert not embedded.channel.writable
    embedded.link.drain(700)
    assert not embedded.channel.writable
    embedded.link.drain(51)
    assert embedded.channel.writable
    embedded.write(b"x" * 700)
    assert embedded.channel.writable
    assert embedded.writability == [False, True]


def test_more_than_the_high_mark_in_one_turn_is_sent_before_anyone_is_told_to_stop() -> None:
    """A reader that reads is never unwritable just because the turn's flush has not come yet."""
    embedded = EmbeddedChannel(outbox=LIMITS)
    for _ in range(10):
        embedded.channel.write([b"x" * 600])
    assert embedded.writability == []
    assert embedded.channel.outbox.pending <= 1000


def test_a_peer_that_never_reads_is_bounded_and_closed_as_a_last_resort() -> None:
    """The hard limit, with its name as the reason; memory is given back at once."""
    embedded = stalled()
    written = 0
    while not embedded.channel.closing:
        embedded.write(b"x" * 100)
        written += 100
        # The one that went beyond the high mark is not counted for so much.
        assert written <= 4200
    assert embedded.reason is not None
    assert embedded.reason.name == "outbox_limit"
    assert embedded.link.aborted
    assert embedded.channel.outbox.pending == 0


def test_one_large_write_to_a_writable_channel_is_not_held_against_the_peer() -> None:
    """It had no chance to read yet."""
    embedded = stalled()
    embedded.write(b"x" * 5000)
    assert not embedded.channel.closing
    # Nor are the answers that follow, such as to a ping: so many more as between the marks.
    embedded.write(b"x" * 3000)
    assert not embedded.channel.closing
    embedded.write(b"x")
    assert embedded.channel.closing


def test_what_was_written_while_it_was_writable_is_forgotten_when_it_is_again() -> None:
    """The next time it has the same room."""
    embedded = stalled()
    for _ in range(3):
        embedded.write(b"x" * 5000)
        embedded.write(b"x" * 2000)
        assert not embedded.channel.writable
        embedded.link.drain(6900)
        assert embedded.channel.writable
        embedded.link.drain(100)
    embedded.write(b"x" * 1001)
    embedded.write(b"x" * 3000)
    assert not embedded.channel.closing
    embedded.write(b"x")
    assert embedded.channel.closing


def test_another_limit_counts_for_what_is_written_from_then_on() -> None:
    """An application is found out when it connects."""
    embedded = stalled()
    embedded.write(b"x" * 5000)
    embedded.channel.outbox.bound(OutboxSettings(high_water=1000, low_water=250, hard_limit=9000))
    embedded.write(b"x" * 8000)
    assert not embedded.channel.closing
    embedded.write(b"x")
    assert embedded.channel.closing


def test_a_stage_that_refills_when_writable_does_not_recurse() -> None:
    """Being told of writability it may write above the mark again, thousands of times."""

    class Refill(Stage):
        left = 5000

        def writability_changed(self, ctx: Context, writable: bool) -> None:
            if not writable:
                embedded.link.capacity = None
                ctx.channel.outbox.resume()
            elif self.left:
                self.left -= 1
                embedded.link.capacity = 0
                ctx.write([b"x" * 1001])
                ctx.flush()

    stage = Refill()
    embedded = EmbeddedChannel([("refill", stage)], outbox=LIMITS)
    embedded.link.capacity = 0
    embedded.write(b"x" * 1001)
    assert stage.left == 0
    assert embedded.errors == []
    assert embedded.channel.writable


def test_who_is_told_to_go_on_is_told_to_stop_at_once() -> None:
    """It writes as long as it may: more than the high mark is written by one write, and not by all that it has. Who
    stands behind it hears of both in their order.
    """

    class Pour(Stage):
        may = False

        def writability_changed(self, ctx: Context, writable: bool) -> None:
            self.may = writable
            for _ in range(100):
                if self.may:
                    ctx.send([b"x" * 600])
            ctx.fire_writability(writable)

    embedded = EmbeddedChannel([("pour", Pour())], outbox=LIMITS)
    embedded.link.capacity = 0
    embedded.write(b"x" * 1200)
    embedded.link.drain(1000)
    assert not embedded.channel.writable
    assert embedded.channel.outbox.pending == 200 + 2 * 600
    assert embedded.writability[-1] is False
    embedded.write(b"answer")
    assert not embedded.channel.closing


def test_a_broken_link_ends_the_channel_from_the_reactor_not_from_within_flush() -> None:
    """``inactive`` in the middle of somebody's write would pull the rug from under them."""
    embedded = EmbeddedChannel()
    embedded.link.broken = True
    embedded.channel.write([b"x"])
    embedded.channel.flush()
    assert embedded.channel.active
    embedded.settle()
    assert not embedded.channel.active
    assert embedded.reason is not None
    assert embedded.reason.name == "peer_reset"


def test_empty_parts_are_no_write() -> None:
    """Nothing is pushed for nothing."""
    embedded = EmbeddedChannel()
    embedded.write(b"")
    assert embedded.link.sent == []


def test_a_backlog_is_sent_in_turns_of_bounded_size() -> None:
    """A fast reader with a long backlog does not hold up the reactor."""
    embedded = EmbeddedChannel(outbox=OutboxSettings(high_water=1 << 20, hard_limit=1 << 26))
    embedded.link.capacity = 0
    for _ in range(128):
        embedded.write(b"x" * (1 << 16))
    embedded.link.capacity = None
    embedded.channel.outbox.resume()
    sent = len(embedded.take())
    assert 0 < sent < 8 << 20
    assert embedded.channel.outbox.blocked
    embedded.link.drain()
    assert sent + len(embedded.take()) == 8 << 20


def test_limits_out_of_order_are_refused() -> None:
    """A low mark above the high one would never be reported."""
    with pytest.raises(ValueError, match="order"):
        OutboxSettings(high_water=1, low_water=2)


class Sees(Stage):
    """Looks at what is written and passes it on."""

    def write(self, ctx: Context, batch: list[bytes]) -> None:
        ctx.write([part.upper() for part in batch])


class KeepsFlushes(Stage):
    """Passes no flush on."""

    def flush(self, ctx: Context) -> None: ...


@pytest.mark.parametrize("capacity", [None, 0, 2, 1000, 2500])
def test_send_is_write_and_flush(capacity: int | None) -> None:
    """Whatever the link takes, and whatever waits already."""
    states = []
    for in_one in (False, True):
        embedded = EmbeddedChannel(outbox=LIMITS)
        embedded.link.capacity = capacity
        channel, tail = embedded.channel, embedded.pipeline
        for batch in ([b"a"], [b"b" * 1200, b"c"], [b"d" * 900], [b"e" * 2500]):
            if in_one:
                tail.send(batch)
            else:
                tail.write(batch)
                tail.flush()
            outbox = channel.outbox
            states.append((in_one, b"".join(embedded.link.sent), outbox.pending, outbox.sent, channel.writable))
        embedded.link.drain()
        states.append((in_one, embedded.take(), channel.outbox.pending, channel.outbox.sent, channel.writable))
    half = len(states) // 2
    assert [state[1:] for state in states[:half]] == [state[1:] for state in states[half:]]


def test_send_passes_stages_that_want_to_know() -> None:
    """Of writes, and of flushes."""
    embedded = EmbeddedChannel([("sees", Sees())])
    embedded.pipeline.send([b"a"])
    assert embedded.take() == b"A"
    embedded.pipeline.add_after("catcher", "keeps", KeepsFlushes())
    embedded.pipeline.send([b"b"])
    assert embedded.take() == b""


def test_what_is_sent_over_a_broken_link_or_after_the_end_goes_nowhere() -> None:
    """As what is written."""
    embedded = EmbeddedChannel()
    embedded.link.broken = True
    embedded.pipeline.send([b"a"])
    assert embedded.channel.closing
    embedded.pipeline.send([b"b"])
    embedded.settle()
    tail = embedded.pipeline
    tail.send([b"c"])
    assert embedded.reason is not None
    assert embedded.reason.name == "peer_reset"
    assert embedded.link.sent == []


# --- all outboxes together ----------------------------------------------------------------------------------


def _indebted(debts: Debts, count: int, *, capacity: int = 0) -> list[EmbeddedChannel]:
    """Channels whose peers do not read, and which are counted together."""
    found = []
    for _ in range(count):
        embedded = EmbeddedChannel(outbox=LIMITS)
        embedded.channel.outbox = Outbox(embedded.channel, LIMITS, debts)
        embedded.channel.outbox.link = embedded.link
        embedded.link.capacity = capacity
        found.append(embedded)
    return found


def test_those_for_whom_most_waits_are_cut_off() -> None:
    """Each is within its own bounds; all together are not. A tenth below the limit is enough."""
    debts = Debts(10_000)
    large, small = _indebted(debts, 4), _indebted(debts, 5)
    for embedded in small:
        embedded.write(b"s" * 500)
    for embedded in large:
        embedded.write(b"l" * 1800)
    assert debts.held == 9_700
    small[0].write(b"s" * 400)
    ended = [one.channel.close_reason for one in large]
    assert [one and one.name for one in ended] == ["outbox_total", None, None, None]
    assert not any(one.closed for one in small)
    assert debts.held == 8_300


def test_whoever_reads_owes_nothing() -> None:
    """However much is written; and what a peer has taken, or lost with its connection, is owed no more."""
    debts = Debts(10_000)
    reader, slow, gone = _indebted(debts, 3, capacity=100_000)
    for _ in range(50):
        reader.write(b"x" * 1000)
    assert debts.held == 0
    slow.link.capacity = gone.link.capacity = 10
    slow.write(b"x" * 900)
    slow.write(b"x" * 300)
    gone.write(b"x" * 900)
    assert debts.held == 1190 + 890
    slow.link.drain()
    assert (debts.held, slow.channel.writable) == (890, True)
    gone.peer_closes()
    assert (debts.held, len(debts._debtors)) == (0, 0)


def test_the_one_that_writes_may_be_the_one_that_is_cut_off() -> None:
    """In the middle of it; nothing of it is written any more, and nobody else pays."""
    debts = Debts(2_000)
    one, other = _indebted(debts, 2)
    other.write(b"x" * 300)
    for _ in range(4):
        one.write(*[b"y" * 450] * 2)
    assert one.reason is not None and one.reason.name == "outbox_total"
    assert (debts.held, other.closed) == (300, False)
