"""Calls beside messages: when one is answered at once, when it waits, and lists that are made in slices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock as TwistedClock

from iot_mqtt.admin import turns
from iot_mqtt.admin.connections import Doorkeeper
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.everywhere import Everywhere
from iot_mqtt.admin.json_text import as_json, list_of
from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.admin.turns import BURST, ITEMS, LOOK, SHARE, Waiting
from tests.unit.admin.adminkit import Browser, FakeView, make_browser, parse

#: Seconds that a turn takes by itself.
TURN = 1e-6


class Loop(TwistedClock):
    """A reactor, and what its thread has worked."""

    def __init__(self) -> None:
        super().__init__()
        self.messages = 0
        self.worked = 0.0

    def monotonic(self) -> float:
        return float(self.seconds())

    def work(self, seconds: float) -> None:
        self.worked += seconds

    def callLater(self, delay: float, callable: Any, *args: Any, **kw: Any) -> Any:
        """What is asked for in a turn is not done in it."""
        return super().callLater(max(delay, TURN / 2), callable, *args, **kw)

    def turn(self) -> None:
        """One look at the timers."""
        self.advance(TURN)

    def traffic(self) -> None:
        """A lot of messages have come in the time between two looks."""
        self.messages += 1000
        self.advance(LOOK)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def waiting(loop: Loop) -> Waiting:
    clock: Any = loop
    return Waiting(loop, clock, lambda: loop.messages, lambda: loop.worked)


def test_without_messages_nobody_waits_longer_than_for_the_next_turn(loop: Loop, waiting: Waiting) -> None:
    """Whatever calls have taken; but one turn of the reactor has no more of them than another."""
    loop.advance(LOOK)
    assert waiting.open
    waiting.spent(10.0)
    assert not waiting.open
    done: list[int] = []
    waiting.next().addCallback(lambda _: done.append(1))
    assert not waiting.open
    assert not done
    loop.turn()
    assert done
    assert waiting.open


def test_beside_messages_calls_have_their_share(loop: Loop, waiting: Waiting) -> None:
    """What is used up comes back with time, and not faster for many who wait."""
    loop.traffic()
    assert waiting.open
    waiting.spent(BURST + 0.01)
    assert not waiting.open
    done: list[float] = []

    def answer(_: None) -> None:
        loop.work(0.01)
        done.append(loop.seconds())

    began = loop.seconds()
    for _ in range(20):
        waiting.next().addCallback(answer)
    loop.turn()
    assert not done
    for _ in range(2000):
        loop.messages += 10
        loop.advance(0.001)
    took = done[-1] - began
    assert len(done) == 20
    assert 20 * 0.01 / SHARE * 0.8 < took < 20 * 0.01 / SHARE * 1.2


def test_short_slices_go_together_and_long_ones_do_not(loop: Loop, waiting: Waiting) -> None:
    """Between two long ones the reactor serves its sockets."""
    done: list[int] = []

    def answer(_: None, seconds: float) -> None:
        loop.work(seconds)
        done.append(1)

    for seconds in (BURST / 10, BURST / 10, BURST, BURST):
        waiting.next().addCallback(answer, seconds)
    loop.turn()
    assert len(done) == 3
    loop.turn()
    assert len(done) == 4


def test_short_steps_do_not_wait_behind_all_slices(loop: Loop, waiting: Waiting) -> None:
    """Both queues take turns, and neither has to be empty first."""
    done: list[str] = []

    def step(_: None, name: str) -> None:
        loop.work(BURST)
        done.append(name)

    for number in range(3):
        waiting.next().addCallback(step, f"slice {number}")
    for number in range(2):
        waiting.rest().addCallback(step, f"short {number}")
    for _ in range(5):
        loop.turn()
    assert done in (
        ["slice 0", "short 0", "slice 1", "short 1", "slice 2"],
        ["short 0", "slice 0", "short 1", "slice 1", "slice 2"],
    )


def test_who_does_not_wait_any_longer_has_no_place(loop: Loop, waiting: Waiting) -> None:
    """The next one comes at once."""
    done: list[int] = []
    first, second = waiting.next(), waiting.next().addCallback(lambda _: done.append(2))
    first.addErrback(lambda failure: failure.trap(CancelledError))
    first.addCallback(lambda _: done.append(1)).cancel()
    loop.turn()
    assert done == [1, 2]
    assert second.called


def test_a_turn_that_was_waited_for_is_paid_for_once(loop: Loop, waiting: Waiting) -> None:
    """Whoever has it may say what he has spent, too."""
    loop.traffic()
    waiting.spent(2 * BURST)

    def answer(_: None) -> None:
        loop.work(0.01)
        waiting.spent(0.01)

    waiting.next().addCallback(answer)
    loop.messages += 1000
    loop.advance(LOOK)
    loop.messages += 1000
    loop.advance(0.01 / SHARE)
    assert waiting.open


def test_a_turn_is_had_to_its_end_where_nobody_else_waits(loop: Loop, waiting: Waiting) -> None:
    """A long body is not read in a hundred turns; where others wait it is their turn."""
    seen: list[bool] = []

    def step(_: None) -> None:
        seen.append(waiting.open)
        loop.work(BURST)
        seen.append(waiting.open)

    waiting.rest().addCallback(step)
    loop.turn()
    assert seen == [True, False]
    waiting.rest().addCallback(step)
    waiting.rest()
    loop.turn()
    assert seen == [True, False, False, False]


def test_who_waits_is_bounded(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told to come again."""
    monkeypatch.setattr(turns, "MOST", 2)
    waiting.next()
    waiting.next()
    with pytest.raises(ApiError) as caught:
        waiting.next()
    assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "1"})


def site_of(view: FakeView, waiting: Waiting) -> Browser:
    doorkeeper = Doorkeeper(AdminSettings(), turns=waiting)
    return make_browser(view, doorkeeper=doorkeeper, everywhere=Everywhere("n1", turns=waiting))


def test_a_long_list_is_made_in_slices(loop: Loop, waiting: Waiting) -> None:
    """Each in a turn of its own; another call comes between, and the list is whole."""
    view = FakeView()
    names = [f"c{number:04}" for number in range(3 * ITEMS)]
    for name in names:
        view.connect(name)
    browser = site_of(view, waiting)
    listed = browser.send("GET", "/api/v1/clients?limit=1000")
    other = browser.send("GET", "/api/v1/clients/c0001")
    assert (listed.written, other.written) == (b"", b"")
    turns_taken = 0
    while not listed.written:
        loop.turn()
        turns_taken += 1
        assert turns_taken < 10
    first, second = parse(other.written), parse(listed.written)
    assert first is not None
    assert first.json["client_id"] == "c0001"
    assert second is not None
    assert [one["client_id"] for one in second.json["items"]] == names
    assert (second.json["after"], second.json["missing"]) == (None, [])
    assert int(second.headers["content-length"]) == len(second.body)


def test_a_call_waits_when_calls_have_used_up_their_share(loop: Loop, waiting: Waiting) -> None:
    """It is answered later, a change and a refusal likewise."""
    view = FakeView()
    view.connect("c")
    browser = site_of(view, waiting)
    loop.traffic()
    assert browser.get("/api/v1/clients/c").status == 200
    waiting.spent(1.0)
    sent = [browser.send(*asked) for asked in (("GET", "/api/v1/clients/c"), ("DELETE", "/api/v1/clients/nobody"))]
    assert [one.written for one in sent] == [b"", b""]
    # The first call has taken time of the real processor, too.
    loop.messages += 2000
    loop.advance(2.0 / SHARE)
    found = [parse(one.written) for one in sent]
    assert [one and one.status for one in found] == [200, 404]


def test_whoever_is_gone_before_his_turn_costs_nobody_anything(loop: Loop, waiting: Waiting) -> None:
    """Nothing is written to him, and the next one is answered."""
    view = FakeView()
    for number in range(2 * ITEMS):
        view.connect(f"c{number:04}")
    browser = site_of(view, waiting)
    gone, stays = (browser.send("GET", "/api/v1/clients?limit=1000") for _ in range(2))
    gone.lose()
    for _ in range(5):
        loop.turn()
    assert gone.written == b""
    answer = parse(stays.written)
    assert answer is not None
    assert len(answer.json["items"]) == 2 * ITEMS


@pytest.mark.parametrize("value", ["é", "\ud800", 2**80, -(2**70), 1.5, True, None, ("a", 1), {"a": (1, 2)}, {3: "x"}])
def test_every_value_becomes_json(value: object) -> None:
    """Also what the fast way refuses; half a pair of surrogates is a question mark, as it always was."""
    expected = "?" if value == "\ud800" else json.loads(json.dumps(value))
    assert json.loads(as_json({"value": value})) == {"value": expected}
    assert json.loads(list_of([as_json({"value": value})], after=None).text) == {
        "items": [{"value": expected}],
        "after": None,
    }
