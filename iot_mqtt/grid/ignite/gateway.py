"""The way to the gateways: one connection at a time, to whichever of them answers, and the requests through it.

::

    start ─▶ connecting ─▶ HELLO ─▶ WELCOME ─▶ messages.begin, on_connected
                ▲ next address, growing pauses          │
                └── messages.end ◀─ the connection breaks ◀─┘

A HELLO that is refused because this life is fenced ends all of it; ``on_fenced`` tells the node to end too.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite.connection import Answered, Connection, Encode, Read
from iot_mqtt.grid.ignite.dialer import Dialer, Reach
from iot_mqtt.grid.ignite.faults import Fenced
from iot_mqtt.grid.ignite.frames import Done, Refused, Room, Status, Topology, Welcome, encode_hello
from iot_mqtt.grid.ignite.messages import GatewayMessages
from iot_mqtt.grid.ignite.server_status import ServerStatus
from iot_mqtt.grid.ignite.settings import NOT_YET, IgniteSettings
from iot_mqtt.ports.clock import Clock

log = logging.getLogger(__name__)

#: A number of a node and of its life; 0, 0 is nobody.
Identity = tuple[int, int]
NOBODY: Final[Identity] = (0, 0)
MOST_CONNECTIONS: Final = 0xFFFF_FFFF
#: Seconds without a connection that are an outage: another gateway welcomes a node in less.
OUTAGE: Final = 2.0


class Gateway:
    """Everything runs in the reactor's thread; ``messages`` is what nodes say to each other by it."""

    def __init__(self, settings: IgniteSettings, reach: Reach, clock: Clock, rng: random.Random | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._dialer = Dialer(settings, reach, clock, rng or random.Random())
        self._running = False
        self._connection: Connection | None = None
        # HELLOs of this process: a later one takes the place of an earlier one.
        self._hellos = 0
        # The connection ends because this node has got another identity: nobody has lost it.
        self._renaming = False
        # This node leaves: others may fence it from now on, and what follows from that worries nobody.
        self._leaving = False
        self._stopped: Deferred[None] | None = None
        self.identity: Identity = NOBODY
        self.messages = GatewayMessages(self, settings.waiting_limit)
        self.server_status = ServerStatus()
        self.on_connected: Callable[[], None] = _nothing
        self.on_fenced: Callable[[str], None] = _ignore
        #: Why there is no connection; None while there is one.
        self.trouble: str | None = None
        # Since when there is none, while there is none.
        self._without_since = clock.monotonic()
        #: Why this gateway will not talk to us at all, for a person to put right.
        self.refusal: str | None = None
        self.fenced: str | None = None
        self.connects = self.losses = 0

    # The life of the connection.

    def start(self) -> None:
        """Begin to connect, and stay connected until ``stop``."""
        self._running, self.refusal = True, None
        self._dialer.begin()
        self.messages.open = True
        self.trouble, self._without_since = NOT_YET, self._clock.monotonic()
        self._connect()

    async def stop(self) -> None:
        """No connection any more, and no attempt at one."""
        self._running = False
        self.trouble = "the grid is not open"
        self._dialer.stop()
        self.messages.close()
        if self._connection is not None:
            self._stopped = Deferred()
            self._connection.abort("closed")
            await self._stopped

    def identify(self, identity: Identity) -> None:
        """Be somebody else from now on: a new connection takes the place of the present one."""
        self.identity = identity
        self.fenced = None
        self._leaving = False
        if self._connection is not None:
            self._renaming = True
            self._connection.abort("it gets another identity")
        elif self._running:
            self._dialer.stop()
            self._connect()

    def leave(self) -> None:
        """The node is about to leave the list of members: that it is fenced then, and cut off, is no loss."""
        self._leaving = True

    @property
    def connected(self) -> bool:
        """Whether a request made now would be sent."""
        connection = self._connection
        return connection is not None and connection.alive and connection.welcome is not None

    @property
    def frame_limit(self) -> int:
        """Of the present connection."""
        connection = self._connection
        if connection is None or connection.welcome is None:
            return self._settings.frame_limit
        return min(self._settings.frame_limit, connection.welcome.longest)

    @property
    def servers(self) -> int:
        """How many there are, as the last gateway said."""
        return self.server_status.count

    def outage(self) -> str | None:
        """Why nothing can be written, once that has lasted; None: it can, or for a moment it cannot."""
        if self.trouble is None or self._clock.monotonic() - self._without_since < OUTAGE:
            return None
        return str(self.failure())

    # Requests.

    def request(self, encode: Encode, answered: Answered, patience: float | None = None) -> None:
        """Only while ``connected``. ``answered`` is called once, never from in here."""
        assert self._connection is not None
        wait = self._settings.answer_timeout if patience is None else patience
        self._connection.request(encode, partial(self._answered, answered), wait)

    def read(self, encode: Encode, read: Read) -> None:
        """Likewise, for what is read; with no regard to the order of requests."""
        assert self._connection is not None
        self._connection.read(encode, read)

    def _answered(self, answered: Answered, done: Done | None) -> None:
        if done is not None and done.status == Status.FENCED:
            self._fence(done.detail)
        answered(done)

    # Told by the connection.

    def welcomed(self, connection: Connection, welcome: Welcome) -> None:
        del welcome
        self.connects += 1
        self._dialer.welcomed()
        if self.trouble is not None and self.losses:
            log.warning("connected to the gateway %s", connection.transport.getPeer())
        self.trouble = self.refusal = None
        self.messages.begin(connection)
        self.on_connected()
        self.messages.flow_if_listening()

    def lost(self, connection: Connection, why: str, refused: Refused | None) -> None:
        self._connection = None
        self.server_status.lost()
        was_there = connection.welcome is not None
        if was_there:
            self._without_since = self._clock.monotonic()
        renaming, self._renaming = self._renaming, False
        if was_there and self._running and not renaming:
            self.losses += 1
            log.log(self._level(logging.WARNING), "the connection to the gateway is lost: %s", why)
            self._dialer.lost()
        self.messages.end()
        if self._stopped is not None:
            stopped, self._stopped = self._stopped, None
            stopped.callback(None)
        elif refused is not None:
            self._refused(refused)
        elif self._running:
            self._fail(why, count=not was_there)

    def delivered(self, topic: str, payload: bytes) -> None:
        self.messages.delivered(topic, payload)

    def topology(self, topology: Topology) -> None:
        self.server_status.changed(topology)

    def room_changed(self, room: Room) -> None:
        self.server_status.room_changed(room)

    # Connecting.

    def _connect(self) -> None:
        if not self._running or self.fenced is not None:
            return
        settings = self._settings
        node, boot = self.identity
        self._hellos = min(self._hellos + 1, MOST_CONNECTIONS)
        connection = Connection(encode_hello(settings.token, node, boot, self._hellos), settings, self._clock, self)
        self._dialer.dial(connection, self._reached, partial(self._fail, count=True))

    def _reached(self, connection: Connection) -> None:
        if connection.alive:
            self._connection = connection

    def _refused(self, refused: Refused) -> None:
        if refused.status == Status.FENCED:
            self._fence(refused.reason)
            return
        if refused.status in (Status.WRONG_TOKEN, Status.UNKNOWN_VERSION, Status.BAD_REQUEST):
            hint = "; check grid.ignite.token" if refused.status == Status.WRONG_TOKEN else ""
            refusal = f"the gateway {self._dialer.address} refuses this node: {refused.reason}{hint}"
            if self.refusal is None:
                log.error("%s", refusal)
            self.refusal = refusal
        self._fail(refused.reason, count=True)

    def _fail(self, why: str, *, count: bool) -> None:
        """Go on with the next address; ``count``: this attempt has failed."""
        self.trouble = why
        self._dialer.retry(self._connect, count=count)

    def _fence(self, detail: str) -> None:
        if self.fenced is not None:
            return
        self.fenced = (
            f"{detail or 'this life of the node was declared dead'}: another process has started with node.id "
            f"{self._settings.node_id!r} (is the key given twice?), or other nodes took this one for dead"
        )
        self.trouble = self.fenced
        log.log(self._level(logging.ERROR), "this node is fenced: %s", self.fenced)
        self._dialer.stop()
        self.on_fenced(self.fenced)

    def _level(self, of_news: int) -> int:
        return logging.INFO if self._leaving else of_news

    def failure(self) -> Unavailable:
        """What to tell somebody who wants to write now."""
        if self.fenced is not None:
            return Fenced(self.fenced)
        return Unavailable(f"no connection to a gateway: {self.trouble}")


def _nothing() -> None:
    """Nobody listens."""


def _ignore(_: object) -> None:
    """Nobody listens."""
