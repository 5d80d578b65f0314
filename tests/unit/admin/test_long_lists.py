"""No call of the API holds the event loop for as long as there are sessions: counted in lines of code, not in time.

Every GET is asked of a node with thousands of sessions. Lines are counted between two places at which a call gives way
to others (``breathe`` of the views, ``Turns.next``); the longest such piece has a bound that does not grow with them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Caller, Role
from iot_mqtt.admin.dropped_resources import DroppedResources
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.everywhere import Everywhere
from iot_mqtt.admin.figures_resources import FiguresResources
from iot_mqtt.admin.resources import Resources
from iot_mqtt.admin.routes import Resource, Route
from iot_mqtt.admin.turns import AtOnce
from iot_mqtt.app.node.figures import NodeFigures
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.counters import Drop
from tests.unit.broker.harness import Node, run

SESSIONS = 3_000
#: Lines of one piece. A slice of a page is 40 items, each with some lines for each of its fields.
BOUND = 8_000

#: A sum of one moment: one pass of compiled code over all sessions, which the node makes for its metrics, too.
SUMS = frozenset({"status", "nodes", "identity", "identity/cluster"})
#: However many sessions there are, a week has so many values.
BOUNDED = frozenset({"history"})
#: Compiled: what a reading of the log costs is bounded by what is read.
ELSEWHERE = ("/grid/log/", "/native/")


class Lines(AtOnce):
    """Counts lines that are run; whoever waits for a turn begins a new piece."""

    def __init__(self) -> None:
        self.longest = self._count = 0

    def next(self) -> Deferred[None]:
        """Others would have their turn now."""
        self.longest, self._count = max(self.longest, self._count), 0
        return succeed(None)

    def of(self, work: Callable[[], Any]) -> int:
        """The longest piece of it."""
        self.longest = self._count = 0
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            work()
        finally:
            sys.settrace(before)
        self.next()
        return self.longest

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        if any(one in frame.f_code.co_filename for one in ELSEWHERE):
            return None
        self._count += event == "line"
        return self._trace


LINES = Lines()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Resources:
    """What a node answers that has many sessions, all of them with a subscription, a message and a trouble."""
    node = Node(breathe=LINES.next)
    for number in range(SESSIONS):
        client = node.connect(f"c{number:05}", clean=False, expiry=3600)
        client.subscribe(f"of/{number % 7}/{number}", qos=1)
        if number % 2:
            client.lose()
    publisher = node.connect("publisher")
    for number in range(SESSIONS):
        publisher.publish(f"of/{number % 7}/{number}", b"1", qos=1, retain=True)
        node.counters.recent.note(f"c{number:05}", Drop.EXPIRED, f"of/{number}")
    figures = NodeFigures(tmp_path_factory.mktemp("figures") / "history.bin", clustered=False)
    run(figures.begin(node.broker, node.view, node.grid, 0, LINES.next))
    node.view.ready = True
    further: list[Resource] = [FiguresResources(figures), DroppedResources(lambda: node.view)]
    everywhere = Everywhere("n1", turns=LINES)
    return Resources(node.view, node.clock.wall, further=further, everywhere=everywhere)


def asked(route: Route) -> Iterator[Call]:
    """Calls of a route: the largest page, and what is looked for and is not there."""
    path = dict.fromkeys(route.variables, "c00001") | {"topic": "of/1/1", "generation": "0"}
    caller = Caller("ann", Role.ADMIN)
    largest = {"limit": "1000"} if "limit" in route.query else {}
    yield Call(path, largest, caller=caller)
    unlikely = {
        "contains": "nobody",
        "filter": "nobody/+/#",
        "user": "nobody",
        "topic": "no/body",
        "state": "reading",
        "client": "nobody",
        "address": "10.9.9.9",
        "connected": "false",
    }
    for name in unlikely.keys() & set(route.query):
        yield Call(path, {**largest, name: unlikely[name]}, caller=caller)


def test_no_call_holds_the_loop_for_all_sessions(table: Resources) -> None:
    """Whatever is looked for, and however much of it is shown."""
    long: dict[str, int] = {}
    for route in table.table:
        if route.method != "GET" or route.streamed or route.path in SUMS | BOUNDED:
            continue
        for call in asked(route):
            longest = LINES.of(partial(answer, route, call))
            if longest > BOUND:
                long[f"{route.path} {dict(call.query)}"] = longest
    assert not long


def test_the_count_sees_a_call_that_holds_it() -> None:
    """What would be found: one that looks at everything, with some lines for each; and not one that gives way."""

    def over_all(step: Callable[[int], object]) -> None:
        for number in range(SESSIONS):
            found = number + 1
            kept = found + 1
            step(kept)

    assert LINES.of(lambda: over_all(lambda _: None)) > BOUND
    assert LINES.of(lambda: over_all(lambda _: LINES.next())) < BOUND / 100


def answer(route: Route, call: Call) -> None:
    """Make the whole answer; that there is no such thing is one, too."""
    with suppress(ApiError, MqttError):
        found = route.handler(call)
        if isinstance(found, Coroutine):
            run(found)
