"""The reactor as a clock: what it calls, and that it calls nothing once it has ended."""

from __future__ import annotations

from twisted.internet.task import Clock as Reactor

from iot_mqtt.pipeline import ReactorClock


def test_a_clock_that_has_ended_calls_nothing() -> None:
    """Neither what waits, also in the same pass of the reactor, nor what is asked for later."""
    reactor = Reactor()
    clock = ReactorClock(reactor)
    called: list[str] = []
    clock.call_later(1.0, lambda: called.append("before"))
    clock.call_later(2.0, clock.end)
    clock.call_later(2.0, lambda: called.append("together"))
    clock.call_later(3.0, lambda: called.append("waits"))
    reactor.advance(2.0)
    late = clock.call_later(0.0, lambda: called.append("later"))
    late.cancel()
    clock.call_later(0.0, lambda: called.append("later"))
    clock.end()
    reactor.advance(5.0)
    assert called == ["before"]
    assert reactor.getDelayedCalls() == []


def test_a_cancelled_call_is_not_made() -> None:
    """Again is nothing, and so is after it was made."""
    reactor = Reactor()
    clock = ReactorClock(reactor)
    called: list[str] = []
    timer = clock.call_later(1.0, lambda: called.append("cancelled"))
    timer.cancel()
    timer.cancel()
    made = clock.call_later(1.0, lambda: called.append("made"))
    reactor.advance(1.0)
    made.cancel()
    assert called == ["made"]


def test_what_calls_again_and_again_ends_with_its_clock() -> None:
    """As whoever tries again what cannot work any more."""
    reactor = Reactor()
    clock = ReactorClock(reactor)
    called: list[float] = []

    def again() -> None:
        called.append(reactor.seconds())
        clock.call_later(1.0, again)
        if len(called) == 2:
            clock.end()

    again()
    reactor.advance(1.0)
    reactor.pump([1.0] * 5)
    assert called == [0.0, 1.0]
    assert reactor.getDelayedCalls() == []
