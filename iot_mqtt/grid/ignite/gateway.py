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
from typing import Any, Final, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite.connection import Answered, Connection, Encode, Once, Read
from iot_mqtt.grid.ignite.faults import Fenced
from iot_mqtt.grid.ignite.frames import (
    Done,
    Refused,
    Room,
    Status,
    Topology,
    Welcome,
    encode_hello,
)
from iot_mqtt.grid.ignite.messages import GatewayMessages
from iot_mqtt.grid.ignite.settings import Address, IgniteSettings
from iot_mqtt.ports.clock import Clock, Timer

log = logging.getLogger(__name__)


class Endpoint(Protocol):
    """The part of ``IStreamClientEndpoint`` that is used here."""

    def connect(self, factory: Any, /) -> Deferred[Any]: ...


#: How to reach an address within so many seconds.
Reach = Callable[[Address, float], Endpoint]
#: A number of a node and of its life; 0, 0 is nobody.
Identity = tuple[int, int]
NOBODY: Final[Identity] = (0, 0)
MOST_CONNECTIONS: Final = 0xFFFF_FFFF


class Gateway:
    """Everything runs in the reactor's thread; ``messages`` is what nodes say to each other by it."""

    def __init__(self, settings: IgniteSettings, reach: Reach, clock: Clock, rng: random.Random | None = None) -> None:
        self._settings = settings
        self._reach = reach
        self._clock = clock
        self._rng = rng or random.Random()
        self._running = False
        self._connection: Connection | None = None
        self._attempt: Deferred[Any] | None = None
        self._retry: Timer | None = None
        # Where the next attempt goes, and how many failed in a row.
        self._next = self._rng.randrange(max(len(settings.gateways), 1))
        self._failures = 0
        # HELLOs of this process: a later one takes the place of an earlier one.
        self._hellos = 0
        self._welcomed_at = 0.0
        # The connection ends because this node has got another identity: nobody has lost it.
        self._renaming = False
        # This node leaves: others may fence it from now on, and what follows from that worries nobody.
        self._leaving = False
        self._stopped: Deferred[None] | None = None
        self.identity: Identity = NOBODY
        self.messages = GatewayMessages(self, settings.waiting_limit)
        self.on_connected: Callable[[], None] = _nothing
        self.on_fenced: Callable[[str], None] = _ignore
        self.on_topology: Callable[[int], None] = _ignore
        #: Why there is no connection; None while there is one.
        self.trouble: str | None = None
        #: Why this gateway will not talk to us at all, for a person to put right.
        self.refusal: str | None = None
        self.fenced: str | None = None
        self.servers = 0
        #: Partitions that have fewer copies than they should, as the last gateway said; None: not known.
        self.missing: int | None = None
        #: How full the servers are, as a gateway said last.
        self.room: Room | None = None
        self.on_room: Callable[[], None] = _nothing
        self.connects = self.losses = 0
        self._bytes_out = self._bytes_in = 0

    # The life of the connection.

    def start(self) -> None:
        """Begin to connect, and stay connected until ``stop``."""
        self._running, self._failures, self.refusal = True, 0, None
        self.messages.open = True
        self.trouble = "not connected yet"
        self._connect()

    async def stop(self) -> None:
        """No connection any more, and no attempt at one."""
        self._running = False
        self.trouble = "the grid is not open"
        self._forget_attempt()
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
            self._forget_attempt()
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
    def bytes_out(self) -> int:
        return self._bytes_out + (self._connection.bytes_out if self._connection else 0)

    @property
    def bytes_in(self) -> int:
        return self._bytes_in + (self._connection.bytes_in if self._connection else 0)

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
        self._welcomed_at = self._clock.monotonic()
        if self.trouble is not None and self.losses:
            log.warning("connected to the gateway %s", connection.transport.getPeer())
        self.trouble = self.refusal = None
        self.messages.begin(connection)
        self.on_connected()
        self.messages.flow_if_listening()

    def lost(self, connection: Connection, why: str, refused: Refused | None) -> None:
        self._bytes_out += connection.bytes_out
        self._bytes_in += connection.bytes_in
        self._connection = None
        self.missing = None
        was_there = connection.welcome is not None
        renaming, self._renaming = self._renaming, False
        if was_there and self._running and not renaming:
            self.losses += 1
            log.log(self._level(logging.WARNING), "the connection to the gateway is lost: %s", why)
            # One that breaks as soon as it is there is no success.
            lasted = self._clock.monotonic() - self._welcomed_at >= self._settings.ping_interval
            self._failures = 0 if lasted else self._failures + 1
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
        self.servers, self.missing = topology.servers, topology.missing
        self.on_topology(topology.servers)

    def room_changed(self, room: Room) -> None:
        self.room = room if room.offered else None
        self.on_room()

    # Connecting.

    def _connect(self) -> None:
        self._retry = None
        if not self._running or self.fenced is not None:
            return
        settings = self._settings
        address = settings.gateways[self._next]
        node, boot = self.identity
        self._hellos = min(self._hellos + 1, MOST_CONNECTIONS)
        connection = Connection(encode_hello(settings.token, node, boot, self._hellos), settings, self._clock, self)
        attempt: Deferred[Any] = self._reach(address, settings.connect_timeout).connect(Once(connection))
        self._attempt = attempt
        attempt.addCallbacks(partial(self._reached, connection), partial(self._unreached, address))

    def _reached(self, connection: Connection, _: object) -> None:
        self._attempt = None
        if connection.alive:
            self._connection = connection

    def _unreached(self, address: Address, failure: Failure) -> None:
        if failure.check(CancelledError):
            return
        self._attempt = None
        self._fail(f"{address}: {failure.getErrorMessage()}", count=True)

    def _refused(self, refused: Refused) -> None:
        if refused.status == Status.FENCED:
            self._fence(refused.reason)
            return
        if refused.status in (Status.WRONG_TOKEN, Status.UNKNOWN_VERSION, Status.BAD_REQUEST):
            address = self._settings.gateways[self._next]
            hint = "; check grid.ignite.token" if refused.status == Status.WRONG_TOKEN else ""
            refusal = f"the gateway {address} refuses this node: {refused.reason}{hint}"
            if self.refusal is None:
                log.error("%s", refusal)
            self.refusal = refusal
        self._fail(refused.reason, count=True)

    def _fail(self, why: str, *, count: bool) -> None:
        """Go on with the next address: at once while there is one that was not tried, then with growing pauses."""
        self.trouble = why
        self._failures += count
        self._next = (self._next + 1) % len(self._settings.gateways)
        rounds = self._failures - len(self._settings.gateways)
        delay = 0.0
        if rounds >= 0:
            longest = min(self._settings.retry_last, self._settings.retry_first * 2 ** min(rounds, 16))
            delay = longest * self._rng.uniform(0.5, 1.0)
        self._forget_attempt()
        self._retry = self._clock.call_later(delay, self._connect)

    def _forget_attempt(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._attempt is not None:
            attempt, self._attempt = self._attempt, None
            attempt.cancel()

    def _fence(self, detail: str) -> None:
        if self.fenced is not None:
            return
        self.fenced = detail or "this life of the node was declared dead"
        self.trouble = self.fenced
        log.log(self._level(logging.ERROR), "this node is fenced: %s", self.fenced)
        self._forget_attempt()
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
