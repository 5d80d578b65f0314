"""``/api/v1/events`` over HTTP: it goes on, ends with the right to it, and costs nobody else anything."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field

from twisted.internet.task import Clock

from iot_mqtt.admin.callers import Role, RootToken
from iot_mqtt.admin.event_resources import EventResources
from iot_mqtt.admin.site import Gate, make_site
from iot_mqtt.admin.streams import Stream, event_bytes
from tests.unit.admin.adminkit import TOKEN, Browser, FakeMetrics, FakeView, parse


@dataclass
class Source:
    """Makes streams, and remembers what was asked for."""

    asked: list[tuple[frozenset[str], str | None, str | None]] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    over: list[None] = field(default_factory=list)

    def listen(self, kinds: frozenset[str], node: str | None, place: str | None) -> Stream:
        if place == "rubbish":
            raise ValueError("no place of ours")
        self.asked.append((kinds, node, place))
        self.streams.append(Stream(lambda: self.over.append(None)))
        return self.streams[-1]


class Revocable(RootToken):
    """A token that may be withdrawn."""

    withdrawn = False

    def known(self, authorization: bytes):  # type: ignore[no-untyped-def]
        return None if self.withdrawn else super().known(authorization)


class World:
    """A site with one source of events, and a token that may be withdrawn."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.source = Source()
        self.callers = Revocable(TOKEN)
        further = (EventResources(self.source),)
        gate = Gate(self.callers)
        site = make_site(FakeView(), FakeMetrics(), TOKEN, reactor=self.clock, further=further, gate=gate)
        self.browser = Browser(site)


def test_events_come_as_they_happen() -> None:
    world = World()
    connection = world.browser.send("GET", "/api/v1/events?kind=client.connected", headers={"Last-Event-ID": "n1=a.1"})
    answer = parse(connection.written)
    assert answer is not None
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert world.source.asked == [(frozenset({"client.connected"}), None, "n1=a.1")]
    world.source.streams[0].put(event_bytes("client.connected", {"client": "c"}, "n1=a.2"))
    assert b'id: n1=a.2\nevent: client.connected\ndata: {"client":"c"}\n\n' in connection.written
    world.clock.pump([1.0] * 10)
    assert b": alive" in connection.written
    connection.lose()
    assert world.source.over == [None]
    assert not world.clock.getDelayedCalls()


def test_a_stream_that_is_over_is_freed_without_the_collector() -> None:
    """With what waits for its listener: what is old is collected rarely, and everybody waits then."""
    world = World()
    gc.disable()
    try:
        connection = world.browser.send("GET", "/api/v1/events")
        there = weakref.ref(world.source.streams.pop())
        connection.lose()
        del connection
        assert there() is None
    finally:
        gc.enable()


def test_it_ends_with_the_right_to_it() -> None:
    world = World()
    connection = world.browser.send("GET", "/api/v1/events")
    world.clock.advance(1)
    assert not world.source.over
    world.callers.withdrawn = True
    world.clock.advance(1)
    assert world.source.over == [None]
    assert connection.written.endswith(b"0\r\n\r\n")


def test_head_and_rubbish_leave_nothing_open() -> None:
    world = World()
    head = parse(world.browser.send("HEAD", "/api/v1/events").written)
    assert head is not None
    assert (head.status, head.body) == (200, b"")
    assert world.source.over == [None]
    for path in ("events?kind=nothing", "events?last_event_id=rubbish", "events?what=ever"):
        assert world.browser.get(f"/api/v1/{path}").status == 400
    world.browser.token = None
    assert world.browser.get("/api/v1/events").status == 401
    assert len(world.source.streams) == 1


def test_viewers_may_listen() -> None:
    (route,) = EventResources(Source()).routes
    assert route.role is Role.VIEWER
