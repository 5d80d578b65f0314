"""A node's connection to the gateway of a simulated server: the node's transport, and what the gateway does with it.

::

    grid.ignite.connection ─ write ─▶ way, with its delay ─▶ backlog ─▶ one request at a time ─▶ Servers
                           ◀ dataReceived ── way ◀── frames ◀───────────────┘    READ: beside it

A way may be shut: nothing arrives any more, and nobody is told. Frames are whole as they are written.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet import error
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.grid.ignite.connection import Connection, Once
from iot_mqtt.grid.ignite.frames import VERSION, Op, Status
from iot_mqtt.grid.ignite.settings import Address
from tests.doubles.gateway_body import Body, frame, text
from tests.simulation.ignite.requests import Requests
from tests.simulation.messaging import NodeClock, SimulatedMessaging
from tests.simulation.speed import Speed

if TYPE_CHECKING:
    from tests.simulation.ignite.servers import Server, Servers

LONGEST = 16 << 20
#: Bytes that a server offers.
OFFERED = 1 << 30


class Way:
    """From one life of a node to the servers; ``end`` is how its messages come and go."""

    def __init__(self, servers: Servers, clock: NodeClock, end: SimulatedMessaging | None, carry: Carry | None) -> None:
        self.servers = servers
        self.clock = clock
        self.end = end
        self.carry = carry
        self.speed = Speed()
        self.links: list[Link] = []
        #: The connection that messages to the node come by.
        self.listener: Link | None = None
        self._shut = False

    @property
    def shut(self) -> bool:
        """Nothing gets through."""
        return self._shut

    @shut.setter
    def shut(self, shut: bool) -> None:
        self._shut = shut
        if not shut:
            for link in list(self.links):
                link.flush()

    def delay(self) -> float:
        return self.servers.rng.uniform(self.speed.least, self.speed.most)

    def reach(self, address: Address, timeout: float) -> Endpoint:
        return Endpoint(self, self.servers.servers[address.port], timeout)

    def hang_up(self) -> None:
        """The node's process is gone: so are its connections, when what it has sent is there."""
        for link in list(self.links):
            link.node_gone()


#: Passes a message of a node on to whoever listens.
Carry = Callable[[SimulatedMessaging, str, bytes], None]


class Endpoint:
    """One gateway's address."""

    def __init__(self, way: Way, server: Server, timeout: float) -> None:
        self._way = way
        self._server = server
        self._timeout = timeout

    def connect(self, factory: Once) -> Deferred[Any]:
        way, server = self._way, self._server
        attempt: Deferred[Any] = Deferred()
        # A process that stands still is connected to all the same: its kernel does that.
        lost = way.shut

        def over() -> None:
            if attempt.called:
                return
            if lost:
                attempt.errback(error.TimeoutError())
            elif not server.running:
                attempt.errback(error.ConnectionRefusedError())
            else:
                connection = factory.buildProtocol(None)
                connection.makeConnection(Link(way, server, connection))  # type: ignore[no-untyped-call]
                attempt.callback(connection)

        way.clock.call_later(self._timeout if lost else way.delay(), over)
        return attempt


class Link:
    """One connection."""

    def __init__(self, way: Way, server: Server, client: Connection) -> None:
        self.way = way
        self.server = server
        self.identity: tuple[int, int, int] | None = None
        self.welcomed = False
        self.closed = False
        self.running = False
        self._client: Connection | None = client
        self._requests = Requests(self)
        self._sent: deque[bytes] = deque()
        self._coming = False
        self._backlog: deque[bytes] = deque()
        self._answers: list[bytes] = []
        self._going = False
        self._idle: list[Callable[[], None]] = []
        self._topology: tuple[int, int] | None = None
        way.links.append(self)
        server.links.append(self)

    # The node's transport.

    def write(self, data: bytes) -> None:
        assert len(data) == 4 + int.from_bytes(data[:4], "big"), "a frame is written whole"
        self._sent.append(data)
        self._come()

    def loseConnection(self) -> None:
        self.abortConnection()

    def abortConnection(self) -> None:
        """What is on its way is gone with it."""
        client, self._client = self._client, None
        if client is None:
            return
        if self.way.shut:
            self._sent.clear()
        self.way.clock.call_later(0.0, lambda: client.connectionLost(Failure(error.ConnectionAborted())))
        self.node_gone()

    def setTcpNoDelay(self, enabled: bool) -> None: ...

    def setTcpKeepAlive(self, enabled: bool) -> None: ...

    def registerProducer(self, producer: Connection, streaming: bool) -> None: ...

    def getPeer(self) -> object:
        return self.server.address

    # The way.

    def _come(self) -> None:
        if self._sent and not self._coming:
            self._coming = True
            self.way.servers.clock.call_later(self.way.delay(), self._came)

    def _came(self) -> None:
        self._coming = False
        if self.way.shut:
            return
        frames, self._sent = self._sent, deque()
        for one in frames:
            self.server.clock.arrive(lambda data=one: self._take(data))  # type: ignore[misc]

    def _go(self) -> None:
        if self._answers and not self._going:
            self._going = True
            self.way.servers.clock.call_later(self.way.delay(), self._gone)

    def _gone(self) -> None:
        self._going = False
        if self.way.shut:
            return
        answers, self._answers = self._answers, []
        data = b"".join(answers)
        self.way.clock.arrive(lambda: self._received(data))

    def _received(self, data: bytes) -> None:
        if self._client is not None:
            self._client.dataReceived(data)

    def flush(self) -> None:
        """The way is open again."""
        self._come()
        self._go()
        if self.closed:
            self._tell_lost()

    def node_gone(self) -> None:
        """The gateway hears of it, behind what it has been sent."""
        if self in self.way.links:
            self.way.links.remove(self)
        if not self.way.shut:
            # Else nobody tells the server.
            self.way.servers.clock.call_later(self.way.delay() * 2, lambda: self.server.clock.arrive(self.close))

    # The gateway.

    def send(self, data: bytes) -> None:
        if not self.closed:
            self._answers.append(data)
            self._go()

    def close(self) -> None:
        """Begins nothing more; what was begun goes on."""
        if self.closed:
            return
        self.closed = True
        self._backlog.clear()
        if self in self.server.links:
            self.server.links.remove(self)
        end = self.way.end
        if end is not None and self.way.listener is self:
            self.way.listener = None
            end.topics.clear()
            end.connection += 1
        if not self.way.shut:
            self._tell_lost()
        if self.running and self.server.member:
            self.server.closing.append(self)
        else:
            self.idle()

    def _tell_lost(self) -> None:
        if self in self.way.links:
            self.way.links.remove(self)
        self.way.servers.clock.call_later(self.way.delay() * 2, lambda: self.way.clock.arrive(self._lost))

    def _lost(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.connectionLost(Failure(error.ConnectionDone()))

    def when_idle(self, call: Callable[[], None]) -> None:
        """What was begun is finished."""
        if self.running and self.server.member:
            self._idle.append(call)
        else:
            call()

    def idle(self) -> None:
        """A request has ended: on with the next one."""
        self.running = False
        if self in self.server.closing:
            self.server.closing.remove(self)
        waiting, self._idle = self._idle, []
        for call in waiting:
            call()
        self._next()

    def _take(self, data: bytes) -> None:
        if self.closed:
            return
        op = data[4]
        if op == Op.SEND:
            body = Body(data, 5)
            topic, payload = body.text(), body.value()
            if self.server.cut_off or not self.server.member:
                return
            if self.way.end is not None and self.way.carry is not None and payload is not None:
                self.way.carry(self.way.end, topic, payload)
            elif payload is not None:
                self._requests.pass_on(topic, payload)
        elif op == Op.READ:
            self._requests.read(Body(data, 5))
        else:
            self._backlog.append(data)
            self._next()

    def _next(self) -> None:
        if self._backlog and not self.running and not self.closed:
            self.running = True
            data = self._backlog.popleft()
            op, body = data[4], Body(data, 5)
            if op == Op.HELLO:
                self._requests.hello(body)
            else:
                self._requests.begin(Op(op), body)

    def welcome(self) -> None:
        self.welcomed = True
        self.send(frame(Op.WELCOME, bytes((VERSION,)) + bytes(16) + struct.pack(">I", LONGEST)))
        self._topology = None
        self.topology()
        self.room()

    def refuse(self, status: Status, reason: str) -> None:
        self.send(frame(Op.REFUSED, bytes((status,)) + text(reason)))
        self.way.servers.clock.call_later(self.way.delay() * 2, self.close)

    def topology(self) -> None:
        servers = self.way.servers
        present = len(servers.members), servers.placement.missing
        if self.welcomed and present != self._topology:
            self._topology = present
            self.send(frame(Op.TOPOLOGY, struct.pack(">QHI", servers.version, *present)))

    def room(self) -> None:
        if self.welcomed:
            used = OFFERED if self.way.servers.full else 0
            self.send(frame(Op.ROOM, struct.pack(">QQQ", used, OFFERED, OFFERED * len(self.way.servers.members))))
