"""``/api/v1/events`` over HTTP: it goes on, ends with the right to it, and costs nobody else anything."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field

import pytest
from twisted.internet.task import Clock

from iot_mqtt.admin.callers import Caller, Role, RootToken
from iot_mqtt.admin.connections import Doorkeeper
from iot_mqtt.admin.errors import ApiError
from iot_mqtt.admin.event_resources import EventResources
from iot_mqtt.admin.settings import AdminSettings
from iot_mqtt.admin.site import Gate, make_site
from iot_mqtt.admin.streams import AT_ONCE, Audience, Stream, event_bytes
from tests.unit.admin.adminkit import TOKEN, Answer, Browser, Connection, FakeMetrics, FakeView, parse


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


LIMITS = AdminSettings(max_connections=12, max_connections_per_address=6)


class Crowd:
    """A port with little room, and several who call it."""

    def __init__(self) -> None:
        self.source = Source()
        doorkeeper = Doorkeeper(LIMITS)
        further = (EventResources(self.source),)
        gate = Gate(Named())
        self.site = make_site(
            FakeView(), FakeMetrics(), TOKEN, reactor=Clock(), further=further, gate=gate, doorkeeper=doorkeeper
        )

    def ask(self, path: str, host: str, name: str = "ann") -> tuple[Connection, Answer]:
        connection = Connection(self.site, host)
        connection.receive(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {name}\r\n\r\n".encode())
        answer = parse(connection.written)
        assert answer is not None
        return connection, answer


class Named:
    """Everybody is who he says."""

    def known(self, authorization: bytes) -> Caller | None:
        return Caller(authorization.decode(), Role.VIEWER)


def test_streams_of_an_address_leave_room_for_its_calls() -> None:
    """Half of its connections may listen; another stream is told to come again, and those that there are stay."""
    crowd = Crowd()
    first, _ = crowd.ask("/api/v1/events", "10.0.0.1")
    assert [crowd.ask("/api/v1/events", "10.0.0.1", f"n{one}")[1].status for one in range(3)] == [200, 200, 503]
    for _ in range(10):
        assert crowd.ask("/health", "10.0.0.1")[1].status == 200
    assert crowd.ask("/api/v1/events", "10.0.0.2")[1].status == 200
    assert [stream.ended for stream in crowd.source.streams] == [False] * 4
    first.lose()
    assert crowd.ask("/api/v1/events", "10.0.0.1")[1].status == 200


def test_streams_leave_room_for_calls_of_all_addresses() -> None:
    """Half of the connections that there may be."""
    crowd = Crowd()
    found = [crowd.ask("/api/v1/events", f"10.0.0.{one // 2}", f"n{one}")[1] for one in range(7)]
    assert [one.status for one in found] == [200] * 6 + [503]
    assert (found[-1].json["error"], found[-1].headers["retry-after"]) == ("too_many_streams", "10")


def test_one_caller_does_not_have_all_streams() -> None:
    """From wherever he calls."""
    audience = Audience(1000, 1000)
    kept = [audience.let_in(f"10.0.0.{number}", "ann", Stream) for number in range(AT_ONCE // 2)]
    with pytest.raises(ApiError, match="ann has 32 streams"):
        audience.let_in("10.0.1.1", "ann", Stream)
    assert isinstance(audience.let_in("10.0.1.1", "bob", Stream), Stream)
    kept[0].end()
    assert isinstance(audience.let_in("10.0.1.1", "ann", Stream), Stream)
