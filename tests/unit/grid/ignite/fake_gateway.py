"""Gateways in memory that speak the real frames, and a reader of the values they keep: a verified fake.

``tests/contract`` runs the same suites against it and against real servers. Time is a ``ManualClock``, bytes
move when the pump is asked to, and a test may cut, hold back, refuse and stall what it likes.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet import error
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from iot_mqtt.grid.ignite import Address, IgniteGrid, IgniteSettings
from iot_mqtt.grid.ignite.connection import Connection, Once
from iot_mqtt.grid.ignite.frames import VERSION, Op, Status
from iot_mqtt.grid.ignite.thread import name_of
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.grid import CacheName
from tests.contract.driving import Pump
from tests.doubles.gateway_body import Body, frame, text

LONGEST = 16 << 20


class FakeServers:
    """A cluster of them, which shares everything."""

    def __init__(self, count: int = 2, token: str = "secret") -> None:
        self.token = token
        self.caches: dict[str, dict[bytes, bytes]] = {name_of(cache): {} for cache in CacheName}
        self.fences: dict[int, int] = {}
        self.links: list[Link] = []
        self.gateways = [Address("gateway", number) for number in range(count)]
        self.down: set[Address] = set()
        self.hellos: list[tuple[int, int, int]] = []
        #: Frames seen, by op.
        self.seen: list[Op] = []
        #: Requests that get no answer until released, their effect included.
        self.stalled = False
        #: The answer is lost: the request takes effect and the connection breaks.
        self.lose_answers = 0
        #: Likewise, and it has no effect.
        self.lose_requests = 0
        #: So many entries of commits are written, then the server dies in the middle. None: it lives.
        self.entries_left: int | None = None
        #: So many requests that write are answered "not ready".
        self.not_ready = 0
        #: So many single ones of the compare-and-sets of a request likewise.
        self.not_ready_swaps = 0
        #: So many pages likewise.
        self.no_pages = 0
        #: An answer is full at so many entries.
        self.page_entries = 1 << 16
        #: Pages whose answers are kept back, until a test sends them in an order of its own.
        self.keep_pages = False
        self.kept: list[tuple[Link, bytes]] = []
        #: Partitions that have fewer copies than they should.
        self.missing = 0
        self.longest = LONGEST
        #: Bytes that are used, offered by the fullest, offered by all.
        self.room = (0, 0, 0)
        #: What they say they speak.
        self.version = VERSION
        #: Whether each commit might use the room that is kept for going on.
        self.needed: list[bool] = []
        #: Commits that might not are answered "not ready".
        self.full = False
        self.refuse: tuple[Status, str] | None = None

    def reach(self, address: Address, timeout: float) -> FakeEndpoint:
        return FakeEndpoint(self, address)

    def run(self) -> bool:
        """Move what waits; False if nothing did."""
        moved = False
        for link in list(self.links):
            moved = link.move() or moved
        return moved

    def cut(self) -> None:
        """Break every connection."""
        for link in list(self.links):
            link.close()


class FakeEndpoint:
    """One gateway's address."""

    def __init__(self, servers: FakeServers, address: Address) -> None:
        self.servers = servers
        self.address = address

    def connect(self, factory: Once) -> Deferred[Any]:
        if self.address in self.servers.down:
            return fail(error.ConnectionRefusedError())
        connection = factory.buildProtocol(None)
        link = Link(self.servers, self.address, connection)
        self.servers.links.append(link)
        connection.makeConnection(link)  # type: ignore[no-untyped-call]
        return succeed(connection)


class Link:
    """A connection: its client's transport, and the gateway's side of it."""

    def __init__(self, servers: FakeServers, address: Address, client: Connection) -> None:
        self.servers = servers
        self.address = address
        self.client = client
        self.incoming = bytearray()
        self.outgoing: deque[bytes] = deque()
        self.identity: tuple[int, int, int] | None = None
        self.topics: set[str] = set()
        self.closing = False
        self.closed = False
        self.full = False

    # The client's transport.

    def write(self, data: bytes) -> None:
        self.incoming += data
        if self.full:
            self.client.pauseProducing()

    def loseConnection(self) -> None:
        self.closing = True

    def abortConnection(self) -> None:
        self.closing = True

    def setTcpNoDelay(self, enabled: bool) -> None: ...

    def setTcpKeepAlive(self, enabled: bool) -> None: ...

    def registerProducer(self, producer: Connection, streaming: bool) -> None: ...

    def getPeer(self) -> object:
        return self.address

    # The gateway.

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.servers.links.remove(self)
            self.client.connectionLost(Failure(error.ConnectionDone()))

    def move(self) -> bool:
        if self.closed:
            return False
        if self.closing:
            self.close()
            return True
        moved = self.take_one()
        while self.outgoing and not self.closed:
            self.client.dataReceived(self.outgoing.popleft())
            moved = True
        return moved

    def take_one(self) -> bool:
        if self.servers.stalled or self.full or len(self.incoming) < 4:
            return False
        size = int.from_bytes(self.incoming[:4], "big")
        assert 1 <= size <= self.servers.longest
        if len(self.incoming) < 4 + size:
            return False
        op, body = Op(self.incoming[4]), Body(bytes(self.incoming[5 : 4 + size]))
        del self.incoming[: 4 + size]
        self.servers.seen.append(op)
        self.handle(op, body)
        assert not body.left or self.closed
        return True

    def handle(self, op: Op, body: Body) -> None:
        servers = self.servers
        if op is Op.HELLO:
            self.hello(body)
            return
        assert self.identity is not None, "HELLO is the first frame"
        if op is Op.SEND:
            topic, payload = body.text(), body.value()
            assert payload is not None
            for link in servers.links:
                if topic in link.topics:
                    link.outgoing.append(frame(Op.DELIVER, text(topic) + struct.pack(">I", len(payload)) + payload))
            return
        if servers.lose_requests and op is not Op.PING:
            servers.lose_requests -= 1
            self.close()
            return
        id = body.number(4)
        if op is Op.READ:
            self.read(id, body)
            return
        writes = op in (Op.COMMIT, Op.SWAP, Op.REMOVE_PREFIX)
        if writes and servers.not_ready:
            servers.not_ready -= 1
            body.skip()
            self.done(id, Status.NOT_READY, "not now")
            return
        swaps = body.number(2) if op is Op.SWAP else 0
        results = bytes(self.swap(body) for _ in range(swaps))
        status = Status.DONE if swaps else self.effect(op, body)
        if self.closed:
            return
        if servers.lose_answers and op is not Op.PING:
            servers.lose_answers -= 1
            self.close()
            return
        if swaps:
            self.outgoing.append(frame(Op.SWAPPED, struct.pack(">IH", id, swaps) + results))
        else:
            self.done(id, status)

    def swap(self, body: Body) -> Status:
        cache, key, expected, new = self.servers.caches[body.text()], body.key(), body.value(), body.value()
        if self.servers.not_ready_swaps:
            self.servers.not_ready_swaps -= 1
            return Status.NOT_READY
        if cache.get(key) != expected:
            return Status.NOT_SWAPPED
        store(cache, key, new)
        return Status.DONE

    def effect(self, op: Op, body: Body) -> Status:
        servers = self.servers
        match op:
            case Op.COMMIT:
                needed = body.number(1) == 1
                servers.needed.append(needed)
                if servers.full and not needed:
                    body.skip()
                    return Status.NOT_READY
                for _ in range(body.number(2)):
                    cache, seen = servers.caches[body.text()], set()
                    for _ in range(body.number(4)):
                        key, value = body.key(), body.value()
                        assert key not in seen, "a key occurs once in a stretch"
                        seen.add(key)
                        if servers.entries_left is not None:
                            if not servers.entries_left:
                                self.close()
                                return Status.NOT_READY
                            servers.entries_left -= 1
                        store(cache, key, value)
            case Op.REMOVE_PREFIX:
                cache, prefix = servers.caches[body.text()], body.key()
                for key in [key for key in cache if key.startswith(prefix)]:
                    del cache[key]
            case Op.LISTEN:
                self.topics.add(body.text())
            case Op.FENCE:
                node, boot = body.number(2), body.number(8)
                servers.fences[node] = max(boot, servers.fences.get(node, -1))
                for link in list(servers.links):
                    if link.identity is not None and link.identity[0] == node and link.identity[1] <= boot:
                        link.close()
            case Op.PING:
                pass
            case _:
                raise AssertionError(op)
        return Status.DONE

    def read(self, id: int, body: Body) -> None:
        servers = self.servers
        room = servers.page_entries
        count = body.number(2)
        pages = b""
        for _ in range(count):
            entries, key, after, limit = servers.caches[body.text()], body.key(), body.value(), body.number(4)
            keys = (
                sorted(one for one in entries if one.startswith(key) and (after is None or one > after))
                if limit
                else [one for one in (key,) if one in entries]
            )
            found = keys[: min(limit or 1, room)]
            room -= len(found)
            pages += struct.pack(">BI", len(keys) > len(found), len(found))
            for one in found:
                pages += struct.pack(">H", len(one)) + one + struct.pack(">I", len(entries[one])) + entries[one]
        if servers.no_pages:
            servers.no_pages -= 1
            self.done(id, Status.NOT_READY, "partitions are changing servers")
            return
        answer = frame(Op.FOUND, struct.pack(">IH", id, count) + pages)
        if servers.keep_pages:
            servers.kept.append((self, answer))
        else:
            self.outgoing.append(answer)

    def hello(self, body: Body) -> None:
        servers = self.servers
        version, token = body.number(1), body.text()
        identity = node, boot, _ = body.number(2), body.number(8), body.number(4)
        servers.hellos.append(identity)
        if version != VERSION:
            self.refused(Status.UNKNOWN_VERSION, f"version {version}")
        elif token != servers.token:
            self.refused(Status.WRONG_TOKEN, "wrong token")
        elif servers.refuse is not None:
            self.refused(*servers.refuse)
        elif node and boot <= servers.fences.get(node, -1):
            self.refused(Status.FENCED, f"node {node} is fenced up to boot {servers.fences[node]}")
        else:
            for link in list(servers.links):
                if node and link.identity is not None and link.identity[0] == node and link.identity < identity:
                    link.close()
            self.identity = identity
            self.outgoing.append(
                frame(Op.WELCOME, bytes((servers.version,)) + bytes(16) + struct.pack(">I", servers.longest))
            )
            self.outgoing.append(frame(Op.TOPOLOGY, struct.pack(">QHI", 1, len(servers.gateways), servers.missing)))
            self.outgoing.append(frame(Op.ROOM, struct.pack(">QQQ", *servers.room)))

    def refused(self, status: Status, reason: str) -> None:
        self.outgoing.append(frame(Op.REFUSED, bytes((status,)) + text(reason)))
        self.closing = False

    def done(self, id: int, status: Status, detail: str = "") -> None:
        self.outgoing.append(frame(Op.DONE, struct.pack(">IB", id, status) + text(detail)))


def store(cache: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    if value is None:
        cache.pop(key, None)
    else:
        cache[key] = value


class FakeReader:
    """In the place of ``reader.Reader``."""

    connected = True
    trouble = None

    def __init__(self, servers: FakeServers) -> None:
        self.servers = servers

    def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def get_many(self, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        entries = self.servers.caches[name_of(cache)]
        return [entries.get(key) for key in keys]


class FakePump(Pump):
    """Moves bytes, and lets time pass when nothing moves."""

    def __init__(self, servers: FakeServers | None = None) -> None:
        super().__init__()
        self.servers = servers or FakeServers()
        self.clock = ManualClock()

    def settle(self) -> None:
        """Until nothing moves any more, without time passing."""
        self.clock.advance(0)
        while self.servers.run():
            self.clock.advance(0)

    def until(self, condition: Callable[[], bool]) -> None:
        end = self.clock.monotonic() + 600
        while not condition():
            self.clock.advance(0)
            if not self.servers.run():
                assert self.clock.monotonic() < end, "nothing happens any more"
                self.clock.advance(0.01)


def settings(servers: FakeServers, **others: Any) -> IgniteSettings:
    values = {"gateways": tuple(servers.gateways), "addresses": (Address("thin", 1),), "token": "secret", **others}
    values.setdefault("node_id", "n7")
    return IgniteSettings(**values)


def make(pump: FakePump, **others: Any) -> IgniteGrid:
    """A grid of fake servers, not yet open."""
    servers = pump.servers
    grid = IgniteGrid(settings(servers, **others), pump.cross, servers.reach, pump.clock)
    grid.reader = FakeReader(servers)  # type: ignore[assignment]
    return grid
